package client

import (
	"errors"
	"fmt"
	"math/big"

	"golang.org/x/crypto/sha3"

	"github.com/pforte/pforte/pkg/x402"
)

// Digest returns what is signed (EIP-712) for an authorization (EIP-3009) of the
// token that an offer names.
func Digest(offer x402.Requirements, a x402.Authorization) ([]byte, error) {
	chain, ok := x402.ChainID(offer.Network)
	name, named := offer.Extra["name"].(string)
	version, versioned := offer.Extra["version"].(string)
	if !ok || !named || !versioned {
		return nil, errors.New("the offer does not name the token's domain")
	}
	token, err := words(chain.String(), offer.Asset)
	transfer, failed := words(a.From, a.To, a.Value, a.ValidAfter, a.ValidBefore, a.Nonce)
	if err := errors.Join(err, failed); err != nil {
		return nil, err
	}
	domain := Keccak(
		Keccak([]byte("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)")),
		Keccak([]byte(name)), Keccak([]byte(version)), token)
	message := Keccak(
		Keccak([]byte("TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 "+
			"validBefore,bytes32 nonce)")),
		transfer)
	return Keccak([]byte("\x19\x01"), domain, message), nil
}

// words returns numbers, decimal or with 0x, as the 32-byte words of an ABI encoding.
func words(numbers ...string) (all []byte, err error) {
	for _, text := range numbers {
		n, ok := new(big.Int).SetString(text, 0)
		if !ok || n.Sign() < 0 || n.BitLen() > 256 {
			return nil, fmt.Errorf("%q is no number of 256 bits", text)
		}
		all = append(all, n.FillBytes(make([]byte, 32))...)
	}
	return all, nil
}

// Keccak returns the hash (Keccak-256) of parts that follow each other.
func Keccak(parts ...[]byte) []byte {
	h := sha3.NewLegacyKeccak256()
	for _, part := range parts {
		_, _ = h.Write(part) // a hash takes everything
	}
	return h.Sum(nil)
}
