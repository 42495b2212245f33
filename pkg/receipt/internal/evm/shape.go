package evm

import "math/big"

// Transaction types.
const (
	typeLegacy     = 0x00
	typeAccessList = 0x01 // EIP-2930
	typeDynamicFee = 0x02 // EIP-1559
	typeBlob       = 0x03 // EIP-4844, as blocks hold it: without the blobs
	typeSetCode    = 0x04 // EIP-7702

	// Arbitrum Nitro, core/types/arb_types.go of its go-ethereum.
	typeArbitrumDeposit         = 0x64
	typeArbitrumUnsigned        = 0x65
	typeArbitrumContract        = 0x66
	typeArbitrumRetry           = 0x68
	typeArbitrumSubmitRetryable = 0x69
	typeArbitrumInternal        = 0x6a

	typeDeposit = 0x7e // OP stack, specs: protocol/deposits.md
)

// none is the place of a member that a type does not have.
const none = -1

// shape is at which place of a type's payload each member stands.
type shape struct {
	members   int
	chainID   int
	nonce     int
	from      int // in the payload of types without a signature
	to        int
	value     int
	input     int
	signature int // y parity (v for legacy), r, s: the last three members

	optionalTo   bool // empty means contract creation
	accountNonce bool // nonce counts the sender's transactions
	// What the type fixes instead of holding it.
	fixedFrom, fixedTo *Address
	fixedSelector      *[4]byte
}

// Addresses that Arbitrum's types stand for.
var (
	arbosAddress     = Address{17: 0x0a, 18: 0x4b, 19: 0x05} // ArbOS itself
	retryableAddress = Address{19: 0x6e}                     // ArbRetryableTx
)

// submitRetryable is the call that the type 0x69 stands for:
// submitRetryable(bytes32,uint256,uint256,uint256,uint256,uint64,uint256,address,address,address,bytes).
var submitRetryable = [4]byte{0xc9, 0xf9, 0x5d, 0x32}

var shapes = map[byte]shape{
	typeLegacy:     signed(9, none, 0),
	typeAccessList: signed(11, 0, 1),
	typeDynamicFee: signed(12, 0, 1),
	typeBlob:       signed(14, 0, 1),
	typeSetCode:    signed(13, 0, 1),

	typeDeposit: {
		members: 8, chainID: none, nonce: none, from: 1, to: 2, value: 4, input: 7, signature: none,
		optionalTo: true, accountNonce: true, // the nonce stands in the receipt, from Canyon on
	},
	typeArbitrumDeposit: {members: 5, chainID: 0, nonce: none, from: 2, to: 3, value: 4, input: none, signature: none},
	typeArbitrumUnsigned: {
		members: 8, chainID: 0, nonce: 2, from: 1, to: 5, value: 6, input: 7, signature: none,
		optionalTo: true, accountNonce: true,
	},
	typeArbitrumContract: {
		members: 8, chainID: 0, nonce: none, from: 2, to: 5, value: 6, input: 7, signature: none, optionalTo: true,
	},
	typeArbitrumRetry: { // its nonce counts the retries of one ticket
		members: 12, chainID: 0, nonce: 1, from: 2, to: 5, value: 6, input: 7, signature: none, optionalTo: true,
	},
	typeArbitrumSubmitRetryable: {
		members: 13, chainID: 0, nonce: none, from: 2, to: none, value: none, input: none, signature: none,
		fixedTo: &retryableAddress, fixedSelector: &submitRetryable,
	},
	typeArbitrumInternal: {
		members: 2, chainID: 0, nonce: none, from: none, to: none, value: none, input: 1, signature: none,
		fixedFrom: &arbosAddress, fixedTo: &arbosAddress,
	},
}

// signed is a shape of Ethereum's own types: after the nonce come the fees (one
// price, or from type 2 on a tip and a cap), gas, to, value, input, then what the
// type adds, then the signature.
func signed(members, chainID, nonce int) shape {
	to := nonce + 3
	if members >= 12 {
		to++
	}
	return shape{
		members: members, chainID: chainID, nonce: nonce, from: none, to: to, value: to + 1, input: to + 2,
		signature: members - 3, accountNonce: true,
		optionalTo: members <= 12, // types 3 and 4 create no contracts
	}
}

// read fills tx with what the payload holds or the type fixes.
func (s shape) read(r *reader, tx *Transaction) {
	if s.chainID != none {
		tx.ChainID = r.big(s.chainID)
	}
	if s.nonce != none {
		nonce := r.uint64(s.nonce)
		tx.Nonce = &nonce
	}
	tx.AccountNonce = s.accountNonce
	switch {
	case s.from != none:
		tx.From = *r.address(s.from)
	case s.fixedFrom != nil:
		tx.From = *s.fixedFrom
	}
	switch {
	case s.optionalTo:
		tx.To = r.recipient(s.to)
	case s.to != none:
		tx.To = r.address(s.to)
	default:
		tx.To = s.fixedTo
	}
	tx.Value = new(big.Int)
	if s.value != none {
		tx.Value = r.big(s.value)
	}
	tx.Selector = s.fixedSelector
	if s.input != none && tx.To != nil {
		tx.Selector = selector(r.bytes(s.input))
	}
}

func selector(input []byte) *[4]byte {
	if len(input) < 4 {
		return nil
	}
	four := [4]byte(input)
	return &four
}
