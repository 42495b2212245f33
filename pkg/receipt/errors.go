package receipt

import (
	"errors"
	"fmt"
)

// Why a receipt or a key is not accepted; compare with errors.Is.
var (
	// ErrMalformed is a document that the format does not allow.
	ErrMalformed = errors.New("malformed")
	// ErrUnknownKey is a signature by a key that the key document does not list.
	ErrUnknownKey = errors.New("unknown key")
	// ErrRevokedKey is a signature by a key that its owner has withdrawn.
	ErrRevokedKey = errors.New("revoked key")
	// ErrSignature is a signature that does not match the receipt.
	ErrSignature = errors.New("signature does not match")
	// ErrProof is a proof that does not lead to the receipt's block hash, or a
	// receipt that differs from its proof.
	ErrProof = errors.New("proof does not hold")
)

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, args...)...)
}
