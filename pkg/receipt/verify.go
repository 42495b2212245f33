package receipt

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pforte/pforte/pkg/receipt/strictjson"
)

// Result is what is known after a verification.
type Result struct {
	Receipt Receipt
	Key     Key    // the key that signed the receipt
	Proven  []Fact // by the proof, relative to block.hash; empty without a proof
	// Attested holds what only the signature stands for: that the block is
	// canonical and final, and whatever the proof does not reach.
	Attested []Fact
	Logs     []Log // the transaction's events, proven; empty without a proof
}

// Verify checks a signed receipt about a transaction: its form, its signature against
// the keys, and its proof against its own block hash. A document that comes without a
// proof is judged by its signature alone, and then Proven is empty. A receipt of another
// kind is ErrMalformed. ErrMalformed, ErrUnknownKey, ErrRevokedKey, ErrSignature, ErrProof.
func Verify(data []byte, keys KeyDocument) (Result, error) {
	return verify(data, keys, Type)
}

// VerifyTransfer does what Verify does for a signed receipt about a transfer, and
// refuses all others. Result.Receipt has Transfer then.
func VerifyTransfer(data []byte, keys KeyDocument) (Result, error) {
	return verify(data, keys, TransferType)
}

func verify(data []byte, keys KeyDocument, kind string) (Result, error) {
	doc, err := Parse(data)
	if err != nil {
		return Result{}, err
	}
	if doc.Receipt.Type != kind {
		return Result{}, malformed("a receipt of another kind: %s", doc.Receipt.Type)
	}
	return doc.Verify(keys)
}

// Verify checks signature and proof as the function Verify does, of a receipt of any kind.
// The caller must look at Receipt.Type. ErrUnknownKey, ErrRevokedKey, ErrSignature, ErrProof;
// ErrMalformed where VerifySignature returns it.
func (d Document) Verify(keys KeyDocument) (result Result, err error) {
	result.Receipt = d.Receipt
	if result.Key, err = d.VerifySignature(keys); err != nil {
		return Result{}, err
	}
	if d.Proof != nil {
		if result.Proven, result.Logs, err = VerifyProof(d.Receipt, *d.Proof); err != nil {
			return Result{}, err
		}
	}
	result.Attested = Attested(d.Receipt, result.Proven)
	return result, nil
}

// VerifySignature checks the signature alone and returns the key that it names, also with ErrRevokedKey
// and ErrSignature. The signature of a revoked key is not checked (VerifySignatureBy checks it).
// ErrUnknownKey, ErrRevokedKey, ErrSignature; ErrMalformed only where d or keys are not as Parse and
// ParseKeyDocument return them.
func (d Document) VerifySignature(keys KeyDocument) (Key, error) {
	key, public, err := keys.Find(d.Signature.KeyID)
	if err != nil {
		return key, err
	}
	return key, d.verifyBy(public)
}

// VerifySignatureBy checks the signature against one key, whatever its status is: whether
// a signature by that key is good is for the caller to decide ([Key.GoodAt]). A signature
// that names another key is ErrUnknownKey. ErrMalformed, ErrUnknownKey, ErrSignature.
func (d Document) VerifySignatureBy(key Key) error {
	public, err := key.public()
	if err != nil {
		return err
	}
	if key.KeyID != d.Signature.KeyID {
		return fmt.Errorf("%w: %s", ErrUnknownKey, d.Signature.KeyID)
	}
	return d.verifyBy(public)
}

func (d Document) verifyBy(public ed25519.PublicKey) error {
	value, err := d.Signature.bytes()
	if err != nil {
		return err
	}
	if !ed25519.Verify(public, PAE(d.Signature.PayloadType, d.Body), value) {
		return ErrSignature
	}
	return nil
}

// MaxSize bounds a signed receipt in bytes. A proof holds the transaction's whole
// input and all its logs; most proofs have a few kilobytes, but gas is their only limit.
const MaxSize = 16 << 20

// Document is a signed receipt that Parse has read and that is not yet verified.
type Document struct {
	Receipt   Receipt
	Body      []byte // the canonical bytes of Receipt
	Signature Signature
	Proof     *Proof // nil when none came with it, as in a DSSE envelope
}

// Parse reads a signed receipt of any kind in either presentation, the plain answer or the DSSE
// envelope, without verifying it. White space, the order of members and escapes do not matter, but
// for the payload of an envelope, which must be canonical. ErrMalformed.
func Parse(data []byte) (Document, error) {
	if len(data) > MaxSize {
		return Document{}, malformed("more than %d bytes", MaxSize)
	}
	var either struct {
		Receipt     jsontext.Value `json:"receipt"`
		Signature   jsontext.Value `json:"signature"`
		Proof       jsontext.Value `json:"proof"`
		PayloadType *string        `json:"payloadType"`
		Payload     *string        `json:"payload"`
		Signatures  jsontext.Value `json:"signatures"`
	}
	if err := strictjson.Unmarshal(data, &either, strictjson.Rules{AllowNull: true}); err != nil {
		return Document{}, malformed("%v", err)
	}
	plain := either.Receipt != nil && either.Signature != nil
	envelope := either.PayloadType != nil && either.Payload != nil && either.Signatures != nil
	rest := either.PayloadType != nil || either.Payload != nil || either.Signatures != nil
	switch {
	case plain && !rest:
		return parsePlain(either.Receipt, either.Signature, either.Proof)
	case envelope && either.Receipt == nil && either.Signature == nil && either.Proof == nil:
		return parseEnvelope(*either.PayloadType, *either.Payload, either.Signatures)
	default:
		return Document{}, malformed("neither {receipt, signature, proof} nor a DSSE envelope")
	}
}

func parsePlain(body, signature, proof jsontext.Value) (doc Document, err error) {
	if doc.Receipt, doc.Body, err = parseReceipt(body); err != nil {
		return Document{}, err
	}
	if err = strictjson.Unmarshal(signature, &doc.Signature, strictjson.Rules{}); err != nil {
		return Document{}, malformed("signature: %v", err)
	}
	if proof != nil {
		doc.Proof = new(Proof)
		if err = strictjson.Unmarshal(proof, doc.Proof, strictjson.Rules{}); err != nil {
			return Document{}, malformed("proof: %v", err)
		}
	}
	return doc, doc.Signature.validate(doc.Receipt.payloadType())
}

func parseEnvelope(payloadType, payload string, signatures jsontext.Value) (doc Document, err error) {
	var list []struct {
		KeyID string `json:"keyid"`
		Sig   string `json:"sig"`
	}
	if err = strictjson.Unmarshal(signatures, &list, strictjson.Rules{}); err != nil {
		return Document{}, malformed("signatures: %v", err)
	}
	if len(list) != 1 {
		return Document{}, malformed("%d signatures, not one", len(list))
	}
	body, ok := decodeBase64(payload)
	if !ok {
		return Document{}, malformed("payload is not base64")
	}
	if doc.Receipt, doc.Body, err = parseReceipt(body); err != nil {
		return Document{}, err
	}
	if !bytes.Equal(doc.Body, body) {
		return Document{}, malformed("payload is not canonical")
	}
	doc.Signature = Signature{Algorithm: Algorithm, KeyID: list[0].KeyID, PayloadType: payloadType, Value: list[0].Sig}
	return doc, doc.Signature.validate(doc.Receipt.payloadType())
}

// parseReceipt returns the receipt and its canonical bytes, which are those of the struct
// too: no member is unknown, missing or null where it must not be.
func parseReceipt(data []byte) (r Receipt, body []byte, err error) {
	if body, err = Canonicalize(data); err != nil {
		return Receipt{}, nil, err
	}
	if err = strictjson.Unmarshal(body, &r, strictjson.Rules{AllowNull: true}); err != nil {
		return Receipt{}, nil, malformed("receipt: %v", err)
	}
	again, err := Canonical(r)
	if err != nil {
		return Receipt{}, nil, err
	}
	if !bytes.Equal(again, body) {
		return Receipt{}, nil, malformed("receipt: members are missing or null")
	}
	return r, body, nil
}

func (s Signature) validate(payloadType string) error {
	digest, sha := strings.CutPrefix(s.KeyID, "sha256:")
	switch {
	case s.Algorithm != Algorithm:
		return malformed("the algorithm is not %s", Algorithm)
	case s.PayloadType != payloadType:
		return malformed("the payload type is not %s", payloadType)
	case !sha || !lowerHex("0x"+digest, 32):
		return malformed("the key id is not sha256: and 64 hexadecimal digits")
	}
	_, err := s.bytes()
	return err
}

func (s Signature) bytes() ([]byte, error) {
	value, ok := decodeBase64(s.Value)
	if !ok || len(value) != ed25519.SignatureSize {
		return nil, malformed("the signature is not base64 of %d bytes", ed25519.SignatureSize)
	}
	return value, nil
}
