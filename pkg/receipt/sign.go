package receipt

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
)

// Names that a signature and a key document carry.
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
	// Receipt holds the canonical bytes, as signed. They are never marshalled again.
	Receipt   json.RawMessage `json:"receipt"`
	Signature Signature       `json:"signature"`
	// Proof needs no signature: it leads to the block hash by itself.
	Proof *Proof `json:"proof,omitempty"`
}

// Signature is an Ed25519 signature over PAE(PayloadType, canonical receipt).
type Signature struct {
	Algorithm   string `json:"algorithm"`   // always Algorithm
	KeyID       string `json:"keyId"`       // KeyID of the public key
	PayloadType string `json:"payloadType"` // always PayloadType
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

// Sign makes the answer: the canonical bytes of the receipt and the signature
// over them. The same receipt and key always have the same bytes. A receipt
// that the format does not allow is refused (ErrMalformed). proof may be nil.
func Sign(key *SigningKey, r Receipt, proof *Proof) (Response, error) {
	body, err := Canonical(r)
	if err != nil {
		return Response{}, fmt.Errorf("sign receipt: %w", err)
	}
	value := ed25519.Sign(key.private, PAE(PayloadType, body))
	return Response{
		Receipt: body,
		Signature: Signature{
			Algorithm: Algorithm, KeyID: key.id, PayloadType: PayloadType,
			Value: base64.StdEncoding.EncodeToString(value),
		},
		Proof: proof,
	}, nil
}

// PAE is what is signed: DSSE's pre-authentication encoding, which binds the
// type of a document to its bytes.
func PAE(payloadType string, body []byte) []byte {
	var b bytes.Buffer
	b.Grow(len("DSSEv1") + len(payloadType) + len(body) + 24)
	b.WriteString("DSSEv1 " + strconv.Itoa(len(payloadType)) + " " + payloadType + " " + strconv.Itoa(len(body)) + " ")
	b.Write(body)
	return b.Bytes()
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

// Envelope returns the answer as a DSSE envelope, with the same signature.
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
