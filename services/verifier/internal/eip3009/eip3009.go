// Package eip3009 has transfers by authorization (EIP-3009): the typed data that a
// payer signs (EIP-712), signing it, and recovering the signer. It needs no chain.
package eip3009

import (
	"crypto/ecdsa"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/pforte/pforte/pkg/x402"
)

// Faults of authorizations and signatures.
var (
	ErrMalformed = errors.New("authorization is malformed")
	ErrSignature = errors.New("signature is not one of an ordinary account")
)

var (
	domainTypeHash = crypto.Keccak256(
		[]byte("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"))
	typeHash = crypto.Keccak256(
		[]byte("TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 " +
			"validBefore,bytes32 nonce)"))
)

// Domain is the EIP-712 domain of a token.
type Domain struct {
	Name, Version string
	ChainID       *big.Int
	Token         common.Address
}

// Separator returns the domain's separator, which a token's DOMAIN_SEPARATOR() returns.
func (d Domain) Separator() common.Hash {
	return crypto.Keccak256Hash(domainTypeHash, crypto.Keccak256([]byte(d.Name)), crypto.Keccak256([]byte(d.Version)),
		word(d.ChainID), common.LeftPadBytes(d.Token.Bytes(), 32))
}

// Authorization is what a payer signs: the right to move Value atomic units
// from From to To, once, between the two moments (Unix seconds, exclusive).
type Authorization struct {
	From, To                       common.Address
	Value, ValidAfter, ValidBefore *big.Int
	Nonce                          common.Hash
}

// Parse reads an authorization as it comes over the wire, or returns ErrMalformed.
func Parse(a x402.Authorization) (Authorization, error) {
	if !common.IsHexAddress(a.From) || !common.IsHexAddress(a.To) {
		return Authorization{}, fmt.Errorf("%w: address", ErrMalformed)
	}
	parsed := Authorization{From: common.HexToAddress(a.From), To: common.HexToAddress(a.To)}
	for text, number := range map[*string]**big.Int{
		&a.Value: &parsed.Value, &a.ValidAfter: &parsed.ValidAfter, &a.ValidBefore: &parsed.ValidBefore,
	} {
		n, ok := Decimal(*text)
		if !ok {
			return Authorization{}, fmt.Errorf("%w: number", ErrMalformed)
		}
		*number = n
	}
	nonce, err := unhex(a.Nonce)
	if err != nil || len(nonce) != common.HashLength {
		return Authorization{}, fmt.Errorf("%w: nonce", ErrMalformed)
	}
	parsed.Nonce = common.BytesToHash(nonce)
	return parsed, nil
}

// Wire returns the authorization as it goes over the wire.
func (a Authorization) Wire() x402.Authorization {
	return x402.Authorization{
		From: a.From.Hex(), To: a.To.Hex(), Value: a.Value.String(),
		ValidAfter: a.ValidAfter.String(), ValidBefore: a.ValidBefore.String(), Nonce: a.Nonce.Hex(),
	}
}

// Digest returns the hash that is signed (EIP-712).
func (a Authorization) Digest(d Domain) common.Hash {
	structHash := crypto.Keccak256(typeHash, common.LeftPadBytes(a.From.Bytes(), 32),
		common.LeftPadBytes(a.To.Bytes(), 32),
		word(a.Value), word(a.ValidAfter), word(a.ValidBefore), a.Nonce.Bytes())
	return crypto.Keccak256Hash([]byte("\x19\x01"), d.Separator().Bytes(), structHash)
}

// Sign returns the payer's signature as 0x-hex of 65 bytes: r, s, v (27 or 28).
func (a Authorization) Sign(d Domain, key *ecdsa.PrivateKey) (string, error) {
	digest := a.Digest(d)
	signature, err := crypto.Sign(digest.Bytes(), key)
	if err != nil {
		return "", fmt.Errorf("sign the authorization: %w", err)
	}
	signature[64] += 27
	return "0x" + hex.EncodeToString(signature), nil
}

// Signature reads 0x-hex of a signature of any length, or returns ErrMalformed.
func Signature(text string) ([]byte, error) {
	signature, err := unhex(text)
	if err != nil {
		return nil, fmt.Errorf("%w: signature", ErrMalformed)
	}
	return signature, nil
}

// Recover returns the signer, when the signature is an ordinary account's: 65
// bytes, s in the lower half (EIP-2), v 27 or 28; else ErrSignature.
func Recover(digest common.Hash, signature []byte) (common.Address, error) {
	if len(signature) != crypto.SignatureLength || signature[64] < 27 || signature[64] > 28 {
		return common.Address{}, ErrSignature
	}
	r, s := new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:64])
	if !crypto.ValidateSignatureValues(signature[64]-27, r, s, true) {
		return common.Address{}, ErrSignature
	}
	plain := append(append([]byte{}, signature[:64]...), signature[64]-27)
	key, err := crypto.SigToPub(digest.Bytes(), plain)
	if err != nil {
		return common.Address{}, ErrSignature
	}
	return crypto.PubkeyToAddress(*key), nil
}

func word(n *big.Int) []byte { return common.BigToHash(n).Bytes() }

// Decimal reads an unsigned 256-bit number of 1 to 78 decimal digits, with leading zeros or without.
// It returns false for any other text.
func Decimal(text string) (*big.Int, bool) {
	if text == "" || len(text) > 78 || strings.Trim(text, "0123456789") != "" {
		return nil, false
	}
	n, ok := new(big.Int).SetString(text, 10)
	return n, ok && n.BitLen() <= 256
}

func unhex(text string) ([]byte, error) {
	digits, ok := strings.CutPrefix(text, "0x")
	if !ok {
		return nil, ErrMalformed
	}
	return hex.DecodeString(digits)
}
