// Package bls verifies the signatures of sync committees: BLS over the curve BLS12-381
// with public keys of 48 bytes and signatures of 96 (IETF draft-irtf-cfrg-bls-signature,
// the ciphersuite of the consensus specifications). Besides package beacontest and tests,
// only this package imports gnark-crypto. It signs nothing and holds no secrets.
package bls

import (
	"errors"

	bls12381 "github.com/consensys/gnark-crypto/ecc/bls12-381"
)

// Sizes of the compressed points in bytes.
const (
	KeySize       = bls12381.SizeOfG1AffineCompressed
	SignatureSize = bls12381.SizeOfG2AffineCompressed
)

// domain is the domain separation tag of the ciphersuite, with proofs of possession.
var domain = []byte("BLS_SIG_BLS12381G2_XMD:SHA-256_SSWU_RO_POP_")

// Why Verify fails.
var (
	ErrPoint     = errors.New("not a point of the subgroup, or the point at infinity")
	ErrSignature = errors.New("the signature does not match")
)

// Verify checks an aggregate signature by all keys of a group but the absent ones. The
// caller must be sure that sum is the sum of all the group's keys. ErrPoint, ErrSignature.
func Verify(sum [KeySize]byte, absent [][KeySize]byte, message [32]byte, signature [SignatureSize]byte) error {
	key, err := publicKey(sum)
	if err != nil {
		return err
	}
	for _, compressed := range absent {
		one, err := publicKey(compressed)
		if err != nil {
			return err
		}
		key.Sub(&key, &one)
	}
	var signed bls12381.G2Affine
	// SetBytes checks the encoding, the curve and the subgroup.
	if _, err := signed.SetBytes(signature[:]); err != nil || signed.IsInfinity() || key.IsInfinity() {
		return ErrPoint
	}
	hashed, err := bls12381.HashToG2(message[:], domain)
	if err != nil {
		return err
	}
	_, _, generator, _ := bls12381.Generators()
	generator.Neg(&generator)
	// e(key, H(message)) = e(generator, signature)
	ok, err := bls12381.PairingCheck([]bls12381.G1Affine{key, generator}, []bls12381.G2Affine{hashed, signed})
	if err != nil {
		return err
	}
	if !ok {
		return ErrSignature
	}
	return nil
}

// publicKey reads a compressed key as KeyValidate does: the point at infinity is refused.
func publicKey(compressed [KeySize]byte) (point bls12381.G1Affine, err error) {
	if _, err := point.SetBytes(compressed[:]); err != nil || point.IsInfinity() {
		return point, ErrPoint
	}
	return point, nil
}
