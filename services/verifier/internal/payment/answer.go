package payment

import "bytes"

// Answer is a signed answer that may leave the process: where there is a log of receipts, the
// answer's entries are in it or queued for it. Only a Ledger makes one. The zero value is no
// answer.
type Answer struct{ text []byte }

// Queued returns the answer with this text. It is for a Ledger alone, once the entries are on
// disk.
func Queued(text []byte) Answer { return Answer{text} }

// Bytes returns the answer, which callers must not change; nil when there is none.
func (a Answer) Bytes() []byte { return a.text }

// IsZero reports whether there is no answer.
func (a Answer) IsZero() bool { return a.text == nil }

// Equal reports whether both are the same answer, or none.
func (a Answer) Equal(b Answer) bool { return a.IsZero() == b.IsZero() && bytes.Equal(a.text, b.text) }

// String returns the answer as text.
func (a Answer) String() string { return string(a.text) }
