package receiptlog

import (
	"errors"
	"fmt"

	"github.com/pforte/pforte/pkg/receipt"
)

// Result is what is known of a receipt that is in the log.
type Result struct {
	Witnessed
	Index int64 // of the receipt's entry
	// Key signed the receipt; Included leaves it zero. If it is revoked, Index is below its
	// cut-off.
	Key receipt.Key
}

// Verify checks that a signed receipt is in a log that the policy trusts, that witnesses saw it as
// the policy asks, and that the key that signed it was good for its entry. It checks the receipt's
// signature too, but not the proof that the receipt itself carries ([receipt.VerifyProof]). If the
// policy has the verifier's list ([Policy.WithList]) and the list has a generation of the log, it
// must confirm this one; a policy that names several generations needs the list. ErrMalformed,
// ErrSignature, ErrUnknownLog, ErrUnlisted, ErrQuorum, ErrInclusion; receipt.ErrUnknownKey,
// receipt.ErrRevokedKey, receipt.ErrSignature; receipt.ErrMalformed only where doc or keys are not as
// receipt.Parse and receipt.ParseKeyDocument return them.
func Verify(doc receipt.Document, keys receipt.KeyDocument, proof []byte, policy Policy) (Result, error) {
	key, keyErr := doc.VerifySignature(keys)
	if errors.Is(keyErr, receipt.ErrRevokedKey) {
		if err := doc.VerifySignatureBy(key); err != nil {
			return Result{}, err
		}
	} else if keyErr != nil {
		return Result{}, keyErr
	}
	result, err := Included(doc, proof, policy)
	if err != nil {
		return Result{}, err
	}
	if keyErr != nil && !key.GoodAt(result.Origin, result.Index) {
		return Result{}, keyErr
	}
	result.Key = key
	return result, nil
}

// Included does the part of Verify that concerns the log and not the keys of receipts:
// it does not check the receipt's signature, and the result has no Key. ErrMalformed, ErrSignature,
// ErrUnknownLog, ErrUnlisted, ErrQuorum, ErrInclusion.
func Included(doc receipt.Document, proof []byte, policy Policy) (Result, error) {
	entry, err := EntryOf(doc)
	if err != nil {
		return Result{}, err
	}
	parsed, err := ParseProof(proof)
	if err != nil {
		return Result{}, fmt.Errorf("log proof: %w", err)
	}
	witnessed, err := policy.Open(parsed.Checkpoint)
	if err != nil {
		return Result{}, fmt.Errorf("log proof: %w", err)
	}
	if err := policy.admits(parsed.Checkpoint, witnessed.Origin, parsed.Index); err != nil {
		return Result{}, fmt.Errorf("log proof: %w", err)
	}
	if err := witnessed.CheckInclusion(parsed.Index, entry.Leaf(), parsed.Hashes); err != nil {
		return Result{}, err
	}
	return Result{Witnessed: witnessed, Index: parsed.Index}, nil
}
