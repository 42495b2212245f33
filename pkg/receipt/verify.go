package receipt

import (
	"crypto/ed25519"
)

// Result is what is known after a verification.
type Result struct {
	Receipt Receipt
	Key     Key    // that signed the receipt
	Proven  []Fact // by the proof, relative to block.hash; empty without a proof
	// Attested holds what only the signature stands for: that the block is
	// canonical and final, and whatever the proof does not reach.
	Attested []Fact
	Logs     []Log // the transaction's events, proven; empty without a proof
}

// Verify checks a signed receipt: its form, its signature against the keys, and
// its proof against its own block hash. It needs no network and no clock.
// ErrMalformed, ErrUnknownKey, ErrRevokedKey, ErrSignature, ErrProof. A document
// that comes without a proof is judged by its signature alone, and then Proven
// is empty.
func Verify(data []byte, keys KeyDocument) (Result, error) {
	doc, err := Parse(data)
	if err != nil {
		return Result{}, err
	}
	result := Result{Receipt: doc.Receipt}
	if result.Key, err = doc.VerifySignature(keys); err != nil {
		return Result{}, err
	}
	if doc.Proof != nil {
		if result.Proven, result.Logs, err = VerifyProof(doc.Receipt, *doc.Proof); err != nil {
			return Result{}, err
		}
	}
	result.Attested = Attested(doc.Receipt, result.Proven)
	return result, nil
}

// VerifySignature checks the signature alone and returns the key that made it.
// ErrUnknownKey, ErrRevokedKey, ErrSignature.
func (d Document) VerifySignature(keys KeyDocument) (Key, error) {
	key, public, err := keys.Find(d.Signature.KeyID)
	if err != nil {
		return key, err
	}
	value, err := d.Signature.bytes()
	if err != nil {
		return key, err
	}
	if !ed25519.Verify(public, PAE(d.Signature.PayloadType, d.Body), value) {
		return key, ErrSignature
	}
	return key, nil
}
