package evm

import (
	"math/big"

	"github.com/ethereum/go-ethereum/common"

	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// submitRetryableSelector is the call that Arbitrum derives from a retryable
// ticket's creation (0x69).
var submitRetryableSelector = chain.Selector{0xc9, 0xf9, 0x5d, 0x32}

// facts puts together what is proven of the transaction, and what its sender can
// be recovered from: nil where the hash commits to the sender. How each type is
// read is listed in pkg/receipt's documentation.
func (t *Transaction) facts(kind byte, r *Receipt) (chain.Transaction, *signing) {
	out := chain.Transaction{
		Type:         kind,
		SenderMethod: chain.SenderInPreimage,
		To:           (*chain.Address)(t.recipient(kind)),
		Selector:     t.selector(kind),
		Value:        new(big.Int),
		Nonce:        t.nonce(kind, r),
	}
	if kind != arbSubmitRetryableType && kind != arbInternalType {
		out.Value.SetBytes(t.Value)
	}
	switch {
	case kind <= setCodeType:
		out.SenderMethod = chain.SenderRecovered
		return out, t.signing(kind)
	case kind == arbInternalType:
		out.From = chain.Address(arbOSAddress)
	default:
		out.From = chain.Address(*t.From)
	}
	return out, nil
}

func (t *Transaction) recipient(kind byte) *common.Address {
	switch kind {
	case arbSubmitRetryableType:
		return &arbRetryableTxAddress
	case arbInternalType:
		return &arbOSAddress
	default:
		return t.To
	}
}

func (t *Transaction) selector(kind byte) *chain.Selector {
	switch {
	case kind == arbSubmitRetryableType:
		return &submitRetryableSelector
	case kind == arbDepositType, kind != arbInternalType && t.To == nil, len(t.Input) < 4:
		return nil
	default:
		selector := chain.Selector(t.Input[:4])
		return &selector
	}
}

func (t *Transaction) nonce(kind byte, r *Receipt) *uint64 {
	number := t.Nonce
	switch kind {
	case opDepositType:
		if !r.canyonDeposit(kind) {
			return nil
		}
		number = r.DepositNonce
	case arbDepositType, arbContractType, arbSubmitRetryableType, arbInternalType:
		return nil
	}
	if value, ok := number.committed(); ok {
		return &value
	}
	return nil
}
