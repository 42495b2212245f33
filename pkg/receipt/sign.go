package receipt

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Names that a signature or a key document carries.
const (
	Algorithm        = "Ed25519" // RFC 8032
	PayloadType      = "application/vnd.chain-evidence.receipt.v1+json"
	Canonicalization = "RFC8785"
	Signing          = "DSSEv1-PAE"
)

// Media types of the two presentations of a signed receipt.
const (
	MediaTypeJSON = "application/json"
	MediaTypeDSSE = "application/vnd.dsse+json"
)

// Response is the answer to a verification: the receipt, its signature, and the
// proof beside them.
type Response struct {
	// Receipt holds the canonical bytes, as signed.
	Receipt   json.RawMessage `json:"receipt"`
	Signature Signature       `json:"signature"`
	// Proof needs no signature: it leads to the block hash by itself. It may be nil.
	Proof *Proof `json:"proof,omitempty"`
}

// Signature is an Ed25519 signature over PAE(payload type, canonical receipt).
type Signature struct {
	Algorithm   string `json:"algorithm"`   // always Algorithm
	KeyID       string `json:"keyId"`       // KeyID of the public key
	PayloadType string `json:"payloadType"` // PayloadType, or TransferPayloadType
	Value       string `json:"value"`       // base64 with padding (RFC 4648 section 4)
}

// Envelope is the same signed receipt as a DSSE envelope
// (github.com/secure-systems-lab/dsse), for tools that know those. It has no
// field for the proof.
type Envelope struct {
	PayloadType string              `json:"payloadType"`
	Payload     []byte              `json:"payload"` // the canonical bytes; base64 in JSON
	Signatures  []EnvelopeSignature `json:"signatures"`
}

// EnvelopeSignature is one signature of an Envelope.
type EnvelopeSignature struct {
	KeyID string `json:"keyid"`
	Sig   []byte `json:"sig"` // base64 in JSON
}

// Sign returns the answer: the canonical bytes of the receipt, the signature over them, and proof,
// which may be nil. The same receipt and key always give the same bytes and signature. A receipt
// that the format does not allow is refused (ErrMalformed).
func Sign(key *SigningKey, r Receipt, proof *Proof) (Response, error) {
	body, err := Canonical(r)
	if err != nil {
		return Response{}, fmt.Errorf("sign receipt: %w", err)
	}
	value := ed25519.Sign(key.private, PAE(r.payloadType(), body))
	return Response{
		Receipt: body,
		Signature: Signature{
			Algorithm: Algorithm, KeyID: key.id, PayloadType: r.payloadType(),
			Value: base64.StdEncoding.EncodeToString(value),
		},
		Proof: proof,
	}, nil
}

// PAE returns the bytes that are signed: DSSE's pre-authentication encoding, which binds the type
// of a document to its bytes.
func PAE(payloadType string, body []byte) []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(body), body)
}

// JSON returns the answer as application/json, with the receipt's canonical bytes
// in it.
func (r Response) JSON() ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	return text, nil
}

// Envelope returns the answer as a DSSE envelope, with the same signature. ErrMalformed.
func (r Response) Envelope() (Envelope, error) {
	value, ok := decodeBase64(r.Signature.Value)
	if !ok {
		return Envelope{}, malformed("signature is not base64")
	}
	return Envelope{
		PayloadType: r.Signature.PayloadType,
		Payload:     r.Receipt,
		Signatures:  []EnvelopeSignature{{KeyID: r.Signature.KeyID, Sig: value}},
	}, nil
}

// Canonical returns the receipt as RFC 8785 (JCS) has it, the body that PAE takes. A
// receipt that the format does not allow is refused (ErrMalformed).
func Canonical(r Receipt) ([]byte, error) {
	if err := r.validate(); err != nil {
		return nil, err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode receipt: %w", err)
	}
	return Canonicalize(text)
}

// maxDepth bounds nesting; a receipt nests four deep.
const maxDepth = 16

// Canonicalize brings a JSON document into its one canonical form (RFC 8785), whatever its white
// space, order of members and escapes. It accepts the part of JSON where every tool agrees on that
// form: printable ASCII text, integers from 0 to 2^53-1 written as such, no member twice. All else,
// and what nests deeper than 16, is ErrMalformed.
func Canonicalize(data []byte) ([]byte, error) {
	d := jsontext.NewDecoder(bytes.NewReader(data))
	for done := false; !done; done = d.StackDepth() == 0 {
		token, err := d.ReadToken()
		switch {
		case err != nil:
			return nil, malformed("not JSON: %v", err)
		case token.Kind() == '"' && strings.ContainsFunc(token.String(),
			func(char rune) bool { return char < ' ' || char > '~' }):
			return nil, malformed("text is not printable ASCII")
		case token.Kind() == '0' && !safeInteger(token.String()):
			return nil, malformed("number is not an integer from 0 to 2^53-1")
		case d.StackDepth() > maxDepth:
			return nil, malformed("nests deeper than %d", maxDepth)
		}
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, malformed("something follows the JSON value")
	}
	value := jsontext.Value(bytes.Clone(data))
	if err := value.Canonicalize(); err != nil {
		return nil, malformed("not JSON: %v", err)
	}
	return value, nil
}

// safeInteger reports whether a JSON number is written as an integer from 0 to 2^53-1, which every
// JSON tool keeps exactly.
func safeInteger(text string) bool {
	_, err := strconv.ParseUint(text, 10, 53)
	return err == nil
}
