package evm

import (
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/rlp"

	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// The consensus bytes of transactions of unknown types may be set as the node reports
// them: the roots commit to those as to all others, so the other transactions of the
// block can be proven. What such a transaction did is not read.

// ErrNoRaw means that a node's consensus bytes cannot be had or used.
var ErrNoRaw = errors.New("the node returns no raw bytes")

// ErrReceiptsRoot is the chain.ErrIntegrity of a block in which only the receipts do not fit.
var ErrReceiptsRoot = fmt.Errorf("receiptsRoot: %w", chain.ErrIntegrity)

// UnknownTypes returns the places of the transactions of unknown types, whose bytes have to be set.
func (r *ReportedBlock) UnknownTypes() (places []int) {
	for i := range r.Transactions {
		if !isKnown(r.Transactions[i].kind()) {
			places = append(places, i)
		}
	}
	return places
}

// SetRawTransaction sets the bytes of the transaction at a place.
func (r *ReportedBlock) SetRawTransaction(at int, raw []byte) { r.Transactions[at].raw = raw }

// SetRawBlock sets the transactions of unknown types from the block's own RLP: a list of the
// header, the transactions and more. A typed transaction is a string in it. Its error is ErrNoRaw.
func (r *ReportedBlock) SetRawBlock(block []byte) error {
	content, _, err := rlp.SplitList(block)
	_, _, content, headerErr := rlp.Split(content)
	transactions, _, listErr := rlp.SplitList(content)
	count, countErr := rlp.CountValues(transactions)
	if errors.Join(err, headerErr, listErr, countErr) != nil || count != len(r.Transactions) {
		return ErrNoRaw
	}
	for at := range r.Transactions {
		var value []byte
		_, value, transactions, _ = rlp.Split(transactions) // they were counted
		if !isKnown(r.Transactions[at].kind()) {
			r.SetRawTransaction(at, value)
		}
	}
	return nil
}

// SetRawReceipts sets the receipts of the transactions of unknown types from all the block's. Each
// must hold the cumulative gas that was reported: the next transaction's gas is the difference.
// Its error is ErrNoRaw.
func (r *ReportedBlock) SetRawReceipts(all []Data) error {
	if len(all) != len(r.Receipts) {
		return ErrNoRaw
	}
	for _, at := range r.UnknownTypes() {
		receipt := &r.Receipts[at]
		if gas, err := cumulativeGas(all[at]); err != nil || !receipt.CumulativeGasUsed.Is(gas) {
			return ErrNoRaw
		}
		receipt.raw = all[at]
	}
	return nil
}

// cumulativeGas returns the second member of a typed receipt.
func cumulativeGas(receipt []byte) (uint64, error) {
	if len(receipt) == 0 {
		return 0, ErrNoRaw
	}
	content, rest, err := rlp.SplitList(receipt[1:])
	if err != nil || len(rest) > 0 {
		return 0, ErrNoRaw
	}
	_, _, content, err = rlp.Split(content) // status or state root
	if err != nil {
		return 0, err
	}
	gas, _, err := rlp.SplitUint64(content)
	return gas, err
}
