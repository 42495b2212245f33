package receiptlog

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Types of signature (C2SP signed-note).
const (
	typeLog     = 0x01 // Ed25519 over the note's text
	typeWitness = 0x04 // Ed25519 over time and text (C2SP tlog-cosignature)
)

const (
	// MaxSize bounds the number of entries: far more than any log has, and few enough
	// that no index of a tree overflows.
	MaxSize = 1 << 50
	// MaxNote bounds a checkpoint in bytes. sumdb reads at most 100 signature lines.
	MaxNote = 64 << 10
	// maxName bounds the name of a key in bytes, and so an origin.
	maxName = 255
)

// Key is the public key of a log or of a witness, with its name. It is a note.Verifier.
type Key struct {
	name   string
	public ed25519.PublicKey
	kind   byte
}

// NewLogKey returns the key of a log; the name is the log's origin. ErrMalformed.
func NewLogKey(origin string, public ed25519.PublicKey) (Key, error) {
	return newKey(origin, public, typeLog)
}

// NewWitnessKey returns the key of a witness. ErrMalformed.
func NewWitnessKey(name string, public ed25519.PublicKey) (Key, error) {
	return newKey(name, public, typeWitness)
}

func newKey(name string, public ed25519.PublicKey, kind byte) (Key, error) {
	switch {
	case name == "" || len(name) > maxName || !utf8.ValidString(name) || strings.Contains(name, "+") ||
		strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }):
		return Key{}, malformed("not the name of a key")
	case len(public) != ed25519.PublicKeySize:
		return Key{}, malformed("a public key of %d bytes", len(public))
	}
	return Key{name: name, public: public, kind: kind}, nil
}

// ParseLogKey reads the verifier key (vkey) of a log: <origin>+<key id>+<base64 of 0x01 and key>. ErrMalformed.
func ParseLogKey(vkey string) (Key, error) { return parseKey(vkey, typeLog) }

// ParseWitnessKey reads the verifier key (vkey) of a witness: <name>+<key id>+<base64 of 0x04 and key>. ErrMalformed.
func ParseWitnessKey(vkey string) (Key, error) { return parseKey(vkey, typeWitness) }

func parseKey(vkey string, kind byte) (Key, error) {
	parts := strings.SplitN(vkey, "+", 3) // base64 may have a +
	if len(parts) != 3 {
		return Key{}, malformed("not a verifier key")
	}
	data, ok := decodeBase64(parts[2])
	if !ok || len(data) != 1+ed25519.PublicKeySize || data[0] != kind {
		return Key{}, malformed("a verifier key that is not Ed25519 of type 0x%02x", kind)
	}
	k, err := newKey(parts[0], data[1:], kind)
	if err != nil {
		return Key{}, err
	}
	if k.String() != vkey {
		return Key{}, malformed("a verifier key whose key id does not match")
	}
	return k, nil
}

// String returns the key as a verifier key (vkey).
func (k Key) String() string {
	return fmt.Sprintf("%s+%08x+%s", k.name, k.KeyHash(), base64.StdEncoding.EncodeToString(k.typed()))
}

func (k Key) typed() []byte { return append([]byte{k.kind}, k.public...) }

// Name returns the name: of a log, its origin.
func (k Key) Name() string { return k.name }

// Public returns the Ed25519 key.
func (k Key) Public() ed25519.PublicKey { return k.public }

// KeyHash returns the key id: the first four bytes of SHA-256(name || "\n" || type || key).
func (k Key) KeyHash() uint32 {
	digest := sha256.Sum256(append([]byte(k.name+"\n"), k.typed()...))
	return binary.BigEndian.Uint32(digest[:])
}

// Verify reports whether sig is this key's signature of a note's text.
func (k Key) Verify(text, sig []byte) bool {
	if len(k.public) != ed25519.PublicKeySize { // of the zero Key
		return false
	}
	if k.kind == typeLog {
		return ed25519.Verify(k.public, text, sig)
	}
	if len(sig) != 8+ed25519.SignatureSize {
		return false
	}
	at := binary.BigEndian.Uint64(sig)
	return at <= math.MaxInt64 && ed25519.Verify(k.public, timed(at, text), sig[8:])
}

// timed returns the text that a witness signs: the note's text with the time.
func timed(at uint64, text []byte) []byte {
	return append([]byte("cosignature/v1\ntime "+strconv.FormatUint(at, 10)+"\n"), text...)
}

// Signer signs checkpoints with the key of a log or of a witness. It is a note.Signer.
type Signer struct {
	Key
	private ed25519.PrivateKey
	now     func() time.Time
}

// NewLogSigner returns the signer of the log with an origin. Its signature of a checkpoint
// is always the same. ErrMalformed.
func NewLogSigner(origin string, private ed25519.PrivateKey) (*Signer, error) {
	return newSigner(origin, private, typeLog, nil)
}

// NewWitnessSigner returns the signer of a witness, which cosigns with the time that now returns. ErrMalformed for
// the name or the key.
func NewWitnessSigner(name string, private ed25519.PrivateKey, now func() time.Time) (*Signer, error) {
	if now == nil {
		return nil, errors.New("a witness needs a clock")
	}
	return newSigner(name, private, typeWitness, now)
}

// Now returns the time of a witness's clock; zero for the signer of a log, which has none.
func (s *Signer) Now() time.Time {
	if s.now == nil {
		return time.Time{}
	}
	return s.now()
}

func newSigner(name string, private ed25519.PrivateKey, kind byte, now func() time.Time) (*Signer, error) {
	if len(private) != ed25519.PrivateKeySize {
		return nil, malformed("a private key of %d bytes", len(private))
	}
	k, err := newKey(name, private.Public().(ed25519.PublicKey), kind)
	return &Signer{Key: k, private: private, now: now}, err
}

// Format prints the verifier key whatever the verb, so that no log shows the secret.
func (s *Signer) Format(state fmt.State, _ rune) { _, _ = fmt.Fprint(state, s.Key.String()) }

// Sign returns the signature of a note's text: of a log, Ed25519's 64 bytes; of a witness, the
// time, in 8 bytes, and then those.
func (s *Signer) Sign(text []byte) ([]byte, error) {
	if s.kind == typeLog {
		return ed25519.Sign(s.private, text), nil
	}
	at := s.now().Unix()
	if at < 0 {
		return nil, fmt.Errorf("cosign: the clock is before 1970: %d", at)
	}
	return append(binary.BigEndian.AppendUint64(nil, uint64(at)), ed25519.Sign(s.private, timed(uint64(at), text))...),
		nil
}

// Checkpoint is the state of a log: how many entries it has, and their root.
type Checkpoint struct {
	Origin string
	Size   int64
	Root   tlog.Hash // RFC 6962 section 2.1
}

// Text returns the checkpoint's note text, three lines.
func (c Checkpoint) Text() string {
	return fmt.Sprintf("%s\n%d\n%s\n", c.Origin, c.Size, base64.StdEncoding.EncodeToString(c.Root[:]))
}

// Sign returns the checkpoint as a note with one signature. Where s is the signer of a log, its
// name must be the checkpoint's origin. ErrMalformed for what ParseCheckpoint refuses.
func (c Checkpoint) Sign(s *Signer) ([]byte, error) {
	if s.kind == typeLog && s.name != c.Origin {
		return nil, fmt.Errorf("sign checkpoint: the key is %s's, not %s's", s.name, c.Origin)
	}
	if _, err := ParseCheckpoint(c.Text()); err != nil {
		return nil, fmt.Errorf("sign checkpoint: %w", err)
	}
	signed, err := note.Sign(&note.Note{Text: c.Text()}, s)
	if err != nil {
		return nil, fmt.Errorf("sign checkpoint: %w", err)
	}
	return signed, nil
}

// Cosign does what Sign does, but returns the signature line alone, as a witness answers
// and as it is appended to a note.
func (c Checkpoint) Cosign(s *Signer) ([]byte, error) {
	signed, err := c.Sign(s)
	if err != nil {
		return nil, err
	}
	return signed[len(c.Text())+1:], nil
}

// ParseCheckpoint reads a note's text as a checkpoint of three lines. A checkpoint with
// extension lines is refused. ErrMalformed.
func ParseCheckpoint(text string) (Checkpoint, error) {
	lines := strings.SplitN(text, "\n", 5)
	if len(lines) != 4 || lines[3] != "" {
		return Checkpoint{}, malformed("a checkpoint that is not three lines")
	}
	if _, err := newKey(lines[0], make([]byte, ed25519.PublicKeySize), typeLog); err != nil {
		return Checkpoint{}, malformed("a checkpoint without an origin")
	}
	size, err := parseNumber(lines[1])
	if err != nil {
		return Checkpoint{}, fmt.Errorf("size of the checkpoint: %w", err)
	}
	root, err := parseHash(lines[2])
	if err != nil {
		return Checkpoint{}, fmt.Errorf("root of the checkpoint: %w", err)
	}
	if size == 0 && root != sha256.Sum256(nil) {
		return Checkpoint{}, malformed("an empty log with a root that is not the empty tree's")
	}
	return Checkpoint{Origin: lines[0], Size: size, Root: root}, nil
}

// openNote reads a signed checkpoint and checks the signatures of the known keys. The
// Sigs of the note are those that verify, at most one for each key; there may be none.
func openNote(data []byte, known ...note.Verifier) (*note.Note, Checkpoint, error) {
	if len(data) > MaxNote {
		return nil, Checkpoint{}, malformed("a checkpoint of more than %d bytes", MaxNote)
	}
	_, lines, _ := bytes.Cut(data, []byte("\n\n"))
	for line := range strings.Lines(string(lines)) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
		if _, ok := decodeBase64(fields[len(fields)-1]); len(fields) != 3 || !ok {
			return nil, Checkpoint{}, malformed("a signature line in another spelling")
		}
	}
	opened, err := note.Open(data, note.VerifierList(known...))
	var unverified *note.UnverifiedNoteError
	var invalid *note.InvalidSignatureError
	switch {
	case errors.As(err, &unverified):
		opened = unverified.Note
	case errors.As(err, &invalid):
		return nil, Checkpoint{}, fmt.Errorf("%w: %s", ErrSignature, invalid.Name)
	case err != nil:
		return nil, Checkpoint{}, malformed("checkpoint: %v", err)
	}
	c, err := ParseCheckpoint(opened.Text)
	return opened, c, err
}

// OpenCheckpoint reads a signed checkpoint of one log and checks the log's signature. Signatures
// by others are ignored. It is how a witness reads what a log asks it to cosign. ErrMalformed,
// ErrSignature, ErrUnknownLog.
func OpenCheckpoint(data []byte, log Key) (Checkpoint, error) {
	opened, c, err := openNote(data, log)
	switch {
	case err != nil:
		return Checkpoint{}, err
	case len(opened.Sigs) != 1 || log.kind != typeLog || c.Origin != log.name:
		return Checkpoint{}, fmt.Errorf("%w: %s", ErrUnknownLog, c.Origin)
	}
	return c, nil
}

// OpenCosigned reads a signed checkpoint of any log, checks the signature of one witness, and
// returns its time. The signature of the log is not checked. It is how a reader takes what a
// witness itself serves. ErrMalformed, ErrSignature.
func OpenCosigned(data []byte, witness Key) (Checkpoint, time.Time, error) {
	opened, c, err := openNote(data, witness)
	switch {
	case err != nil:
		return Checkpoint{}, time.Time{}, err
	case len(opened.Sigs) != 1 || witness.kind != typeWitness:
		return Checkpoint{}, time.Time{}, fmt.Errorf("%w: not cosigned by %s", ErrSignature, witness.name)
	}
	return c, timeOf(opened.Sigs[0].Base64), nil
}

// Cosignature returns the line of answer, with its newline, that is the key's signature of
// the checkpoint; ok is false when there is none.
func (c Checkpoint) Cosignature(answer []byte, k Key) (line []byte, ok bool) {
	if len(answer) > MaxNote {
		return nil, false
	}
	for each := range bytes.Lines(answer) {
		opened, _, err := openNote(append([]byte(c.Text()+"\n"), each...), k)
		if err == nil && len(opened.Sigs) == 1 {
			return each, true
		}
	}
	return nil, false
}

// ParsePrivateKey reads the Ed25519 key of a log or a witness: PKCS#8 PEM (RFC 8410), as
// `receipt keygen` writes it. No error quotes the input.
func ParsePrivateKey(text []byte) (ed25519.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, errors.New("key is not a PEM block PRIVATE KEY (PKCS#8)")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	private, isEd25519 := parsed.(ed25519.PrivateKey)
	if err != nil || !isEd25519 {
		return nil, errors.New("key is not an Ed25519 key in PKCS#8")
	}
	return private, nil
}
