package evm

import (
	"errors"
	"fmt"
	"math/big"

	"github.com/pforte/pforte/pkg/receipt/internal/rlp"
)

// Transaction holds what a transaction's encoding commits to.
type Transaction struct {
	Hash    Hash     // Keccak-256 of the encoding
	Type    byte     // EIP-2718; 0 is legacy
	ChainID *big.Int // nil where the type has none: unprotected legacy, deposits
	From    Address
	// Signed reports whether From was recovered from a signature. Else the encoding
	// holds it, or the type fixes it.
	Signed   bool
	To       *Address // nil for a contract creation
	Value    *big.Int // wei
	Selector *[4]byte // nil for a creation and for input below 4 bytes
	Nonce    *uint64  // nil where the type has none
	// AccountNonce reports whether Nonce counts the sender's transactions, so that
	// the address of a created contract follows from it.
	AccountNonce bool
}

// ErrUnsupportedType is a transaction type whose encoding is not known here.
var ErrUnsupportedType = errors.New("transaction type is not supported")

// DecodeTransaction reads a transaction as its trie holds it and recovers the
// sender where the type has a signature.
func DecodeTransaction(raw []byte) (Transaction, error) {
	kind, payload, err := splitType(raw)
	if err != nil {
		return Transaction{}, err
	}
	shape, ok := shapes[kind]
	if !ok {
		return Transaction{}, fmt.Errorf("%w: 0x%x", ErrUnsupportedType, kind)
	}
	items, err := decodeList(payload)
	if err != nil {
		return Transaction{}, fmt.Errorf("transaction: %w", err)
	}
	if len(items) != shape.members {
		return Transaction{}, fmt.Errorf("transaction of type 0x%x has %d members, not %d", kind, len(items), shape.members)
	}
	tx := Transaction{Hash: Keccak256(raw), Type: kind}
	r := reader{items: items}
	shape.read(&r, &tx)
	if r.err != nil {
		return Transaction{}, fmt.Errorf("transaction: %w", r.err)
	}
	if shape.signature != none {
		if err := recoverSender(&tx, items, shape.signature); err != nil {
			return Transaction{}, err
		}
	}
	return tx, nil
}

// splitType parts an EIP-2718 envelope into its type and its payload. A legacy
// transaction or receipt begins as the list that it is, with 0xc0 or above.
func splitType(raw []byte) (kind byte, payload []byte, err error) {
	switch {
	case len(raw) == 0:
		return 0, nil, errors.New("no bytes")
	case raw[0] >= 0xc0:
		return 0, raw, nil
	case raw[0] == 0 || raw[0] > 0x7f:
		return 0, nil, fmt.Errorf("%w: 0x%x", ErrUnsupportedType, raw[0])
	default:
		return raw[0], raw[1:], nil
	}
}

// ContractAddress is the address of the contract that a creation makes: the hash
// of the sender and its nonce (yellow paper, section 7).
func ContractAddress(from Address, nonce uint64) (a Address) {
	items := rlp.AppendUint(rlp.AppendString(nil, from[:]), nonce)
	digest := Keccak256(rlp.AppendList(nil, items))
	copy(a[:], digest[12:])
	return a
}
