package payment

import "bytes"

// Answer is a signed answer that may leave the process: where there is a log of receipts, the
// answer's entries are in it or queued for it. Only a Ledger makes one. The zero value is no
// answer.
type Answer struct {
	text []byte
	// hash and size are of an answer that is not in memory.
	hash Digest
	size int
}

// LargeAnswer is how many bytes an answer has at least that does not come with its record. Buyers may ask for what
// they have bought as often as they like, many at once, and only who knows how much memory is left may read it.
const LargeAnswer = 256 << 10

// Queued returns the answer with this text. It is for a Ledger alone, once the entries are on
// disk.
func Queued(text []byte) Answer { return Answer{text: text} }

// Unread returns a large answer that is kept, by its SHA-256. It is for a Ledger alone.
func Unread(hash Digest, size int) Answer { return Answer{hash: hash, size: size} }

// Bytes returns the answer, which callers must not change; nil when there is none, or it is to be read by Hash.
func (a Answer) Bytes() []byte { return a.text }

// Hash returns the SHA-256 by which an answer is to be read; false when it is in memory, or there is none.
func (a Answer) Hash() (hash Digest, unread bool) { return a.hash, a.size > 0 }

// Size returns how many bytes the answer has.
func (a Answer) Size() int { return max(len(a.text), a.size) }

// IsZero reports whether there is no answer.
func (a Answer) IsZero() bool { return a.text == nil && a.size == 0 }

// Equal reports whether both are the same answer, or none.
func (a Answer) Equal(b Answer) bool {
	return a.IsZero() == b.IsZero() && bytes.Equal(a.text, b.text) && a.hash == b.hash
}

// String returns the answer as text.
func (a Answer) String() string { return string(a.text) }
