package rpc

import (
	"context"
	"fmt"

	"github.com/ethereum/go-ethereum/common"

	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/evm"
)

// location is where a node says that a transaction is, with what it says of it:
// a hint, until the block around it is proven.
type location struct {
	number      uint64
	block       common.Hash
	transaction evm.Transaction
	receipt     evm.Receipt
}

// locate is the first round trip: the chain id, the transaction and its receipt
// in one batch.
func (r *Reader) locate(ctx context.Context, e *endpoint, transaction common.Hash) (*location, error) {
	l, err := r.budget.reserve(ctx, smallShare)
	if err != nil {
		return nil, err
	}
	defer l.release()
	id, tx, receipt := newCall("eth_chainId"),
		newCall("eth_getTransactionByHash", transaction), newCall("eth_getTransactionReceipt", transaction)
	if err := e.do(ctx, l, id, tx, receipt); err != nil {
		return nil, err
	}
	if err := r.checkChain(e, id); err != nil {
		return nil, err
	}
	at := new(location)
	if err := at.readTransaction(tx, transaction); err != nil {
		return nil, err
	}
	if err := at.readReceipt(receipt, transaction); err != nil {
		return nil, err
	}
	return at, nil
}

func (at *location) readTransaction(c *call, transaction common.Hash) error {
	found, err := c.into(&at.transaction)
	if err != nil {
		return err
	}
	t := &at.transaction
	switch {
	case !found:
		return chain.ErrTransactionNotFound
	case t.Hash == nil || *t.Hash != transaction:
		return fmt.Errorf("asked for another transaction: %w", chain.ErrInconsistent)
	case t.BlockHash == nil || t.BlockNumber == nil:
		return chain.ErrTransactionPending
	}
	number, ok := t.BlockNumber.Uint64()
	if !ok {
		return fmt.Errorf("block number: %w", chain.ErrInconsistent)
	}
	at.number, at.block = number, *t.BlockHash
	return nil
}

func (at *location) readReceipt(c *call, transaction common.Hash) error {
	found, err := c.into(&at.receipt)
	if err != nil {
		return err
	}
	r := &at.receipt
	switch {
	case !found:
		return chain.ErrReceiptUnavailable
	case r.TransactionHash == nil || *r.TransactionHash != transaction,
		r.BlockHash == nil || *r.BlockHash != at.block,
		!r.BlockNumber.Is(at.number),
		string(r.TransactionIndex) != string(at.transaction.TransactionIndex):
		return fmt.Errorf("receipt and transaction disagree: %w", chain.ErrInconsistent)
	}
	return nil
}

// checkChain holds the endpoint's chain id against the configured one, and drops
// or takes back the endpoint.
func (r *Reader) checkChain(e *endpoint, c *call) error {
	var id evm.Quantity
	if ok, err := c.into(&id); err != nil || !ok {
		return fmt.Errorf("chain id: %w", chain.ErrUnavailable)
	}
	wrong := !id.Is(r.identity.ID)
	if e.setWrongChain(wrong) {
		r.log.Warn("node's chain id changed", "chain", r.identity.Name, "node", e.name, "wrong", wrong)
	}
	if wrong {
		return chain.ErrWrongChain
	}
	return nil
}
