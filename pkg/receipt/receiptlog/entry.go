package receiptlog

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/pforte/pforte/pkg/receipt"
)

var (
	// ErrMalformed is input that the formats do not allow.
	ErrMalformed = errors.New("malformed")
	// ErrUnknownLog is a checkpoint that no log of the policy, or not the expected log, has
	// signed under its own origin.
	ErrUnknownLog = errors.New("not signed by a log of the policy")
	// ErrUnlisted is a log that the policy trusts and the verifier's list does not confirm: it lacks this
	// generation of the log, has it with another key or as closed before the entry, or is missing where the
	// policy names several generations.
	ErrUnlisted = errors.New("a log that the verifier does not list")
	// ErrSignature is a checkpoint with a line of a known key that does not verify, or
	// without the line of the witness that must have cosigned it.
	ErrSignature = errors.New("signature of the checkpoint does not match")
	// ErrQuorum is a checkpoint that fewer witnesses cosigned than the policy asks for.
	ErrQuorum = errors.New("too few witnesses")
	// ErrInclusion is an index that the tree does not have, or an entry that is not shown to
	// be in the tree.
	ErrInclusion = errors.New("the entry is not in the log")
	// ErrConsistency is a tree that is not a continuation of another one.
	ErrConsistency = errors.New("the log is not a continuation")
	// ErrKeyState is a state of a key that a log may not have next.
	ErrKeyState = errors.New("a state of a key that may not follow")
)

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

// Kinds of entry, as their first lines begin.
const (
	ReceiptEntry = "chain-evidence-receipt/v1"
	// KeyEntry is the kind of a key's state in logs that are older than NumberedKeyEntry.
	KeyEntry = "chain-evidence-key/v1"
	// NumberedKeyEntry is the kind of a key's state. In the entry a number follows it, so that a
	// state which comes again is an entry again.
	NumberedKeyEntry = "chain-evidence-key/v2"
)

// MaxEntry is the size in bytes of the largest entry: a bundle of 256 of them fits into MaxNote.
const MaxEntry = 253

// commitmentPrefix separates the hash in an entry from hashes of any other data.
const commitmentPrefix = "chain-evidence-receipt log entry v1\n"

// Entry is one entry of the log, read.
type Entry struct {
	Kind  string // ReceiptEntry, KeyEntry or NumberedKeyEntry
	KeyID string // of the key that signed, or whose state it is
	// Commitment is the hash of the signature and of what it signs; only in a ReceiptEntry.
	Commitment [sha256.Size]byte
	// State is one of the states of a receipt.Key; only in the entry of a key.
	State string
	// Before is the index in the entry's own log from which on entries of a revoked key are
	// not valid; only in a KeyEntry.
	Before int64
	// Number counts the states of one key, from 1; only in a NumberedKeyEntry.
	Number int64

	cutOffs string // of a revoked key in a NumberedKeyEntry, as the entry has them
}

// NewReceiptEntry returns the entry of a signature over pae by the key with an id. It does
// not check the signature. ErrMalformed.
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

// NewKeyEntry returns the KeyEntry of a key's state. before must be 0 unless the state is
// revoked. ErrMalformed.
func NewKeyEntry(keyID, state string, before int64) (Entry, error) {
	e := Entry{Kind: KeyEntry, KeyID: keyID, State: state, Before: before}
	return e, e.validate()
}

// NewNumberedKeyEntry returns the entry of a key's state, the number-th of that key. ErrMalformed.
func NewNumberedKeyEntry(number int64, key receipt.Key) (Entry, error) {
	e := Entry{Kind: NumberedKeyEntry, KeyID: key.KeyID, State: key.Status, Number: number}
	if key.Logged != nil {
		before := map[int64]int64{}
		for _, cutOff := range key.Logged.All() {
			_, generation, ok := GenerationOf(cutOff.Origin)
			index, err := cutOff.Index()
			if !ok || err != nil {
				return Entry{}, malformed("the cut-off of %s in %q", key.KeyID, cutOff.Origin)
			}
			if _, twice := before[generation]; twice {
				return Entry{}, malformed("two cut-offs of %s in generation %d", key.KeyID, generation)
			}
			before[generation] = index
		}
		e.cutOffs = writeCutOffs(before)
	}
	return e, e.validate()
}

// GenerationOf splits the origin of a generation of a verifier's log, HOST/v1/log/N, at its
// last slash. ok is false unless text stands before it and a number of at least 1 after it.
func GenerationOf(origin string) (log string, generation int64, ok bool) {
	at := strings.LastIndexByte(origin, '/')
	generation, err := parseNumber(origin[at+1:])
	if at < 1 || err != nil || generation < 1 {
		return "", 0, false
	}
	return origin[:at], generation, true
}

// writeCutOffs writes cut-offs by generation as an entry has them: "57 in 1, 100 in 2".
func writeCutOffs(before map[int64]int64) string {
	var words []string
	for _, generation := range slices.Sorted(maps.Keys(before)) {
		words = append(words, fmt.Sprintf("%d in %d", before[generation], generation))
	}
	return strings.Join(words, ", ")
}

// readCutOffs reads what writeCutOffs returns; ok is false for anything else.
func readCutOffs(text string) (before map[int64]int64, ok bool) {
	before = map[int64]int64{}
	if text == "" {
		return before, true
	}
	for each := range strings.SplitSeq(text, ", ") {
		index, generation, _ := strings.Cut(each, " in ")
		i, err1 := parseNumber(index)
		g, err2 := parseNumber(generation)
		if err1 != nil || err2 != nil || g < 1 {
			return nil, false
		}
		before[g] = i
	}
	return before, writeCutOffs(before) == text
}

// IsKey reports whether the entry records the state of a key.
func (e Entry) IsKey() bool { return e.Kind == KeyEntry || e.Kind == NumberedKeyEntry }

// CutOffs returns, of the entry of a revoked key in a log with an origin, the cut-offs by
// generation; none for any other entry. A NumberedKeyEntry names all: in a generation that is
// not there the key has no valid entry. A KeyEntry names only the cut-off in its own log.
func (e Entry) CutOffs(origin string) map[int64]int64 {
	if e.Kind == KeyEntry {
		if _, generation, ok := GenerationOf(origin); ok && e.State == receipt.KeyRevoked {
			return map[int64]int64{generation: e.Before}
		}
		return nil
	}
	before, _ := readCutOffs(e.cutOffs) // validated
	return before
}

// States reports whether the entry, in a log with an origin, records the state of key as a
// key document lists it.
func (e Entry) States(key receipt.Key, origin string) bool {
	if e.Kind == KeyEntry {
		var before int64
		if key.Logged != nil {
			for _, cutOff := range key.Logged.All() {
				if cutOff.Origin == origin {
					before, _ = cutOff.Index() // a number that cannot be read is in no entry
				}
			}
		}
		listed, err := NewKeyEntry(key.KeyID, key.Status, before)
		return err == nil && e == listed
	}
	listed, err := NewNumberedKeyEntry(e.Number, key)
	return err == nil && e == listed
}

// Follows checks that e may be the next state of a key after last. origin is that of the log which
// has last; e may be in a later generation. The number of e is the next one, what was revoked stays
// so, and no cut-off goes up. A KeyEntry counts as number 0 and limits only the cut-off of its own
// generation; two of them may follow in any order. ErrKeyState.
func (e Entry) Follows(last Entry, origin string) error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s: %s", ErrKeyState, e.KeyID, fmt.Sprintf(format, args...))
	}
	if e.KeyID != last.KeyID || !e.IsKey() || !last.IsKey() {
		return wrong("not states of one key")
	}
	if e.Kind == KeyEntry && last.Kind == KeyEntry {
		return nil // they came without an order
	}
	if e.Number != last.Number+1 {
		return wrong("its state %d follows state %d", e.Number, last.Number)
	}
	if last.State != receipt.KeyRevoked {
		return nil
	}
	if e.State != receipt.KeyRevoked {
		return wrong("it was revoked, and is %s", e.State)
	}
	before := last.CutOffs(origin)
	for generation, index := range e.CutOffs(origin) {
		limit, known := before[generation]
		if index > limit && (known || last.Kind == NumberedKeyEntry) {
			return wrong("its cut-off in generation %d goes up from %d to %d", generation, limit, index)
		}
	}
	return nil
}

// EntryOf returns the entry of a signed receipt, which receipt.Parse must have returned. It
// does not check the signature. ErrMalformed.
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
	case e.Kind == NumberedKeyEntry:
		return e.validateNumbered()
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

func (e Entry) validateNumbered() error {
	_, ok := readCutOffs(e.cutOffs)
	switch {
	case e.Number < 1 || e.Number > MaxSize:
		return malformed("the number of a key's state is not one from 1 to %d", int64(MaxSize))
	case !ok || e.cutOffs != "" && e.State != receipt.KeyRevoked:
		return malformed("cut-offs that are not those of a revoked key")
	case e.State != receipt.KeyNext && e.State != receipt.KeyActive && e.State != receipt.KeyRetired &&
		e.State != receipt.KeyRevoked:
		return malformed("an entry with no known state of a key")
	case len(e.Bytes()) > MaxEntry:
		return malformed("an entry of more than %d bytes", MaxEntry)
	}
	return nil
}

// Bytes returns the entry as the log holds it.
func (e Entry) Bytes() []byte {
	first, last := e.Kind, e.State
	switch {
	case e.Kind == ReceiptEntry:
		last = base64.StdEncoding.EncodeToString(e.Commitment[:])
	case e.Kind == NumberedKeyEntry:
		first += " #" + strconv.FormatInt(e.Number, 10)
		if e.cutOffs != "" {
			last += " before " + e.cutOffs
		}
	case e.State == receipt.KeyRevoked:
		last += " before " + strconv.FormatInt(e.Before, 10)
	}
	return []byte(first + "\n" + e.KeyID + "\n" + last + "\n")
}

// Leaf returns the entry's leaf hash.
func (e Entry) Leaf() tlog.Hash { return Leaf(e.Bytes()) }

// Leaf returns the leaf hash of an entry: SHA-256(0x00 || entry) (RFC 6962 section 2.1).
func Leaf(entry []byte) tlog.Hash { return tlog.RecordHash(entry) }

// ParseEntry reads an entry as the log holds it. ErrMalformed.
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
	if first, number, numbered := strings.Cut(e.Kind, " #"); numbered {
		n, err := parseNumber(number)
		if err != nil {
			return Entry{}, err
		}
		e.Kind, e.Number = first, n
		e.State, e.cutOffs, _ = strings.Cut(lines[2], " before ")
	} else if state, before, revoked := strings.Cut(lines[2], " before "); revoked {
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
// decoders of sumdb accept others, and Go's own ignores line ends.
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

// EntriesOfAnswer returns the entries of an answer: one, or one for each answer of a batch, in
// their order. It checks no signature. ErrMalformed, receipt.ErrMalformed.
func EntriesOfAnswer(answer []byte) ([]Entry, error) {
	answers, err := receipt.SplitAnswers(answer)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, len(answers))
	for i, single := range answers {
		if entries[i], err = EntryOfAnswer(single); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// EntryOfAnswer returns the entry of an answer that receipt.Response.JSON returned. It reads
// receipt and signature, which come first, and not the proof. It checks neither, and takes
// the receipt for canonical apart from escapes. ErrMalformed, receipt.ErrMalformed.
func EntryOfAnswer(answer []byte) (Entry, error) {
	// Every sale waits for this, so the answer is read in place, and names that come twice are not
	// looked for: Response.JSON writes none twice.
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
	if bytes.ContainsRune(body, '\\') { // encoding/json has escaped characters that are signed unescaped
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
