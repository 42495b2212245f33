package evm

import (
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// signing is what the sender is recovered from: the digest that was signed and
// the signature as 32 bytes R, 32 bytes S and the recovery bit.
type signing struct {
	digest    common.Hash
	signature [65]byte
	valid     bool // false when v is no recovery bit at all
}

// sender recovers who signed. The node's word for it is never used. It is asked
// for after the transaction was proven: where there is no sender, the chain itself
// holds a transaction that nobody signed, as Optimism's old one does.
func (s *signing) sender() (chain.Address, error) {
	if !s.valid {
		return chain.Address{}, fmt.Errorf("signature without a recovery bit: %w", chain.ErrUnsupportedType)
	}
	key, err := crypto.Ecrecover(s.digest[:], s.signature[:])
	if err != nil {
		return chain.Address{}, fmt.Errorf("recover the sender: %w", chain.ErrUnsupportedType)
	}
	return chain.Address(crypto.Keccak256(key[1:])[12:]), nil
}

// signing gives what was signed, for the types that carry a signature.
func (t *Transaction) signing(kind byte) *signing {
	bit, ok := t.parity(kind).committed()
	chainID := []byte(nil)
	if kind == legacyType {
		var split Quantity
		split, chainID = splitLegacyV(t.V)
		bit, ok = split.Uint64()
	}
	e := newEncoder()
	body, _ := t.body(kind) // the type was encoded before, so it is known
	e.list(func() {
		body(e)
		if chainID != nil { // EIP-155
			e.bytes(chainID, nil, nil)
		}
	})
	s := &signing{digest: crypto.Keccak256Hash(e.finish(kind)), valid: ok && bit <= 1}
	copy(s.signature[32-len(t.R):32], t.R)
	copy(s.signature[64-len(t.S):64], t.S)
	if s.valid {
		s.signature[64] = byte(bit)
	}
	return s
}

// splitLegacyV reads the recovery bit and, from EIP-155 on, the chain id out of
// v: 27 + bit, or 35 + 2 × chain id + bit. A nil bit means that v is neither.
func splitLegacyV(v Quantity) (bit Quantity, chainID []byte) {
	value := new(big.Int).SetBytes(v)
	switch {
	case v.Is(27):
		return Quantity{}, nil
	case v.Is(28):
		return Quantity{1}, nil
	case value.Cmp(big.NewInt(35)) < 0:
		return nil, nil
	}
	value.Sub(value, big.NewInt(35))
	bit = Quantity{}
	if value.Bit(0) == 1 {
		bit = Quantity{1}
	}
	// Chain id 0 stays an empty, non-nil number: it was signed over.
	return bit, append([]byte{}, value.Rsh(value, 1).Bytes()...)
}

// signedChainID is the chain id that the transaction commits to, nil where it
// commits to none (unprotected legacy, deposits).
func (t *Transaction) signedChainID(kind byte) Quantity {
	switch kind {
	case opDepositType:
		return nil
	case legacyType:
		_, chainID := splitLegacyV(t.V)
		return chainID
	default:
		return t.ChainID
	}
}
