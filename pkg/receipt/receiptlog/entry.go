package receiptlog

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/pforte/pforte/pkg/receipt"
)

var (
	// ErrMalformed is input that the formats do not allow.
	ErrMalformed = errors.New("malformed")
	// ErrUnknownLog is a checkpoint that no log of the policy has signed.
	ErrUnknownLog = errors.New("not signed by a log of the policy")
	// ErrSignature is a checkpoint with a line of a listed key that does not verify.
	ErrSignature = errors.New("signature of the checkpoint does not match")
	// ErrQuorum is a checkpoint that fewer witnesses cosigned than the policy asks for.
	ErrQuorum = errors.New("too few witnesses")
	// ErrInclusion is a proof that does not lead from the entry to the checkpoint's root.
	ErrInclusion = errors.New("the entry is not in the log")
	// ErrConsistency is a tree that is not a continuation of another one.
	ErrConsistency = errors.New("the log is not a continuation")
)

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

// First lines of the two kinds of entry.
const (
	ReceiptEntry = "chain-evidence-receipt/v1"
	KeyEntry     = "chain-evidence-key/v1"
)

// MaxEntry is the size in bytes of the largest entry, which is that of a receipt.
const MaxEntry = 143

// commitmentPrefix separates what an entry hashes from everything else that is hashed.
const commitmentPrefix = "chain-evidence-receipt log entry v1\n"

// Entry is one entry of the log, read.
type Entry struct {
	Kind  string // ReceiptEntry or KeyEntry
	KeyID string // of the key that signed, or whose state it is
	// Commitment to the signature and to what it signs; only in a ReceiptEntry.
	Commitment [sha256.Size]byte
	// State is one of the states of a receipt.Key; only in a KeyEntry.
	State string
	// Before is the index from which on entries of a revoked key are not valid.
	Before int64
}

// NewReceiptEntry returns the entry of a signature over pae by the key with an id.
func NewReceiptEntry(keyID string, signature, pae []byte) (Entry, error) {
	if len(signature) != ed25519.SignatureSize {
		return Entry{}, malformed("a signature of %d bytes", len(signature))
	}
	e := Entry{Kind: ReceiptEntry, KeyID: keyID}
	h := sha256.New()
	h.Write([]byte(commitmentPrefix))
	h.Write(signature)
	h.Write(pae)
	h.Sum(e.Commitment[:0])
	return e, e.validate()
}

// NewKeyEntry returns the entry of a key's state. before counts only when it is revoked.
func NewKeyEntry(keyID, state string, before int64) (Entry, error) {
	e := Entry{Kind: KeyEntry, KeyID: keyID, State: state, Before: before}
	return e, e.validate()
}

// EntryOf returns the entry of a signed receipt, which must be one that receipt.Parse
// returned. It does not check the signature.
func EntryOf(doc receipt.Document) (Entry, error) {
	signature, ok := decodeBase64(doc.Signature.Value)
	if !ok {
		return Entry{}, malformed("the receipt's signature is not base64")
	}
	return NewReceiptEntry(doc.Signature.KeyID, signature, receipt.PAE(doc.Signature.PayloadType, doc.Body))
}

func (e Entry) validate() error {
	digest, sha := strings.CutPrefix(e.KeyID, "sha256:")
	if !sha || len(digest) != 2*sha256.Size || strings.Trim(digest, "0123456789abcdef") != "" {
		return malformed("the entry's key id is not sha256: and 64 hexadecimal digits")
	}
	switch {
	case e.Kind == ReceiptEntry && e.State == "" && e.Before == 0:
		return nil
	case e.Kind != KeyEntry || e.Commitment != [sha256.Size]byte{}:
		return malformed("an entry of no known kind")
	case e.State == receipt.KeyRevoked && e.Before >= 0 && e.Before <= MaxSize:
		return nil
	case (e.State == receipt.KeyNext || e.State == receipt.KeyActive || e.State == receipt.KeyRetired) && e.Before == 0:
		return nil
	default:
		return malformed("an entry with no known state of a key")
	}
}

// Bytes returns the entry as the log holds it.
func (e Entry) Bytes() []byte {
	last := e.State
	switch {
	case e.Kind == ReceiptEntry:
		last = base64.StdEncoding.EncodeToString(e.Commitment[:])
	case e.State == receipt.KeyRevoked:
		last += " before " + strconv.FormatInt(e.Before, 10)
	}
	return []byte(e.Kind + "\n" + e.KeyID + "\n" + last + "\n")
}

// Leaf returns the entry's leaf hash.
func (e Entry) Leaf() tlog.Hash { return Leaf(e.Bytes()) }

// Leaf returns the leaf hash of an entry: SHA-256(0x00 || entry) (RFC 6962 section 2.1).
func Leaf(entry []byte) tlog.Hash { return tlog.RecordHash(entry) }

// ParseEntry reads an entry as the log holds it.
func ParseEntry(data []byte) (Entry, error) {
	if len(data) > MaxEntry {
		return Entry{}, malformed("an entry of more than %d bytes", MaxEntry)
	}
	lines := strings.Split(string(data), "\n")
	if len(lines) != 4 || lines[3] != "" {
		return Entry{}, malformed("an entry that is not three lines")
	}
	e := Entry{Kind: lines[0], KeyID: lines[1]}
	if e.Kind == ReceiptEntry {
		hash, err := parseHash(lines[2])
		if err != nil {
			return Entry{}, err
		}
		e.Commitment = hash
		return e, e.validate()
	}
	e.State = lines[2]
	if state, before, revoked := strings.Cut(lines[2], " before "); revoked {
		n, err := parseNumber(before)
		if err != nil {
			return Entry{}, err
		}
		e.State, e.Before = state, n
	} else if e.State == receipt.KeyRevoked {
		return Entry{}, malformed("a revoked key without its cut-off")
	}
	if err := e.validate(); err != nil {
		return Entry{}, err
	}
	if string(e.Bytes()) != string(data) {
		return Entry{}, malformed("an entry in another spelling")
	}
	return e, nil
}

// decodeBase64 reads base64 with padding (RFC 4648 section 4) in its one spelling. The
// decoders of sumdb accept others, and Go's own passes over line ends.
func decodeBase64(text string) (data []byte, ok bool) {
	data, err := base64.StdEncoding.Strict().DecodeString(text)
	return data, err == nil && base64.StdEncoding.EncodeToString(data) == text
}

func parseHash(text string) (tlog.Hash, error) {
	data, ok := decodeBase64(text)
	if !ok || len(data) != tlog.HashSize {
		return tlog.Hash{}, malformed("not the base64 of %d bytes", tlog.HashSize)
	}
	return tlog.Hash(data), nil
}

// parseNumber reads a decimal number from 0 to MaxSize without leading zeros.
func parseNumber(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > MaxSize || strconv.FormatInt(n, 10) != text {
		return 0, malformed("not a decimal number from 0 to %d", int64(MaxSize))
	}
	return n, nil
}

// EntryOfAnswer returns the entry of an answer as receipt.Response writes it. It reads
// receipt and signature, which come first, and not the proof, and checks neither: the
// receipt is taken as it stands there, which is what was signed.
func EntryOfAnswer(answer []byte) (Entry, error) {
	// Every sale waits for this: a Buffer is read where it is, and names that come twice were
	// not written.
	d := jsontext.NewDecoder(bytes.NewBuffer(answer), jsontext.AllowDuplicateNames(true))
	value := func(name string) (jsontext.Value, error) {
		token, err := d.ReadToken()
		if err == nil && (token.Kind() != '"' || token.String() != name) {
			err = fmt.Errorf("%v where there should be %q", token, name)
		}
		if err != nil {
			return nil, err
		}
		return d.ReadValue()
	}
	var signature receipt.Signature
	first, err := d.ReadToken()
	if err == nil && first.Kind() != '{' {
		err = errors.New("not an object")
	}
	var body, fields jsontext.Value
	if err == nil {
		if body, err = value("receipt"); err == nil {
			body = body.Clone() // the next read may write over it
			fields, err = value("signature")
		}
	}
	if err == nil {
		err = json.Unmarshal(fields, &signature)
	}
	if err != nil {
		return Entry{}, malformed("an answer: %v", err)
	}
	signed := []byte(body)
	if bytes.ContainsRune(body, '\\') { // encoding/json has escaped what is signed as it is
		if signed, err = receipt.Canonicalize(body); err != nil {
			return Entry{}, err
		}
	}
	raw, ok := decodeBase64(signature.Value)
	if !ok {
		return Entry{}, malformed("the answer's signature is not base64")
	}
	return NewReceiptEntry(signature.KeyID, raw, receipt.PAE(signature.PayloadType, signed))
}
