package receipt

import "errors"

// Document is a signed receipt as it came, read but not yet believed.
type Document struct {
	Receipt   Receipt
	Body      []byte // the canonical bytes of Receipt
	Signature Signature
	Proof     *Proof // nil when none came with it, as in a DSSE envelope
}

// Fact is one member of a receipt and how it is known.
type Fact struct {
	Field string `json:"field"` // path in the receipt, such as transaction.from
	Value string `json:"value"`
	How   string `json:"how"` // in plain words
}

// Result says what is known after a verification.
type Result struct {
	Receipt Receipt
	Key     Key    // that signed the receipt
	Proven  []Fact // by the proof, relative to block.hash; empty without a proof
	// Attested holds what only the signature stands for: that the block is
	// canonical and final, and whatever the proof does not reach.
	Attested []Fact
}

// Parse reads a signed receipt in either presentation, the plain answer or the
// DSSE envelope, without believing it. White space and the order of members do
// not matter; everything else that Sign would not have written is ErrMalformed.
func Parse(_ []byte) (Document, error) {
	return Document{}, errors.ErrUnsupported
}

// Verify checks a signed receipt: its form, its signature against the keys, and
// its proof against its own block hash. It needs no network and no clock.
// ErrMalformed, ErrUnknownKey, ErrRevokedKey, ErrSignature, ErrProof.
func Verify(_ []byte, _ KeyDocument) (Result, error) {
	return Result{}, errors.ErrUnsupported
}

// VerifyProof checks that proof leads to the receipt's block hash and says the
// same as the receipt, and lists what it proves. ErrProof when not.
func VerifyProof(_ Receipt, _ Proof) ([]Fact, error) {
	return nil, errors.ErrUnsupported
}
