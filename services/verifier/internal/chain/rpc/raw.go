package rpc

import (
	"context"
	"errors"

	"github.com/ethereum/go-ethereum/common"

	"github.com/pforte/pforte/services/verifier/internal/evm"
)

// maxRaw is how many transactions of unknown types a block may have.
const maxRaw = 500

// proveOpaque proves a block in which transactions have types that cannot be
// encoded. Their consensus bytes are taken as the node tells them: the roots judge
// those as they judge all others, so the other transactions of the block can be
// proven. What such a transaction did is not read.
//
// cause is why the block could not be proven without; it stays the error where the
// node does not tell raw bytes.
func (r *Reader) proveOpaque(ctx context.Context, e *endpoint, l *lease, m *evm.Material, number uint64, hash common.Hash, cause error) (*evm.ProvenBlock, error) {
	err := r.rawTransactions(ctx, e, l, m, number)
	if err == nil {
		var proven *evm.ProvenBlock
		proven, err = evm.Prove(m, number, hash, r.identity.ID)
		if !errors.Is(err, evm.ErrReceiptsRoot) {
			return proven, err
		}
		// Receipts of most types have the usual form; of these they have not.
		if err = rawReceipts(ctx, e, l, m, hash); err == nil {
			return evm.Prove(m, number, hash, r.identity.ID)
		}
	}
	if isAny(err, evm.ErrNoRaw, errBatchRefused) {
		return nil, cause
	}
	return nil, err
}

// rawTransactions asks for the bytes of the opaque transactions: one by one, which
// more nodes offer, or else with the whole block.
func (r *Reader) rawTransactions(ctx context.Context, e *endpoint, l *lease, m *evm.Material, number uint64) error {
	list := m.Opaque()
	if len(list) == 0 || len(list) > maxRaw {
		return evm.ErrNoRaw
	}
	calls := make([]*call, len(list))
	for i, at := range list {
		if m.Block.Transactions[at].Hash == nil {
			return evm.ErrNoRaw
		}
		calls[i] = newCall("eth_getRawTransactionByHash", *m.Block.Transactions[at].Hash)
	}
	if err := r.inBatches(ctx, e, l, calls); err != nil {
		return err
	}
	for i, c := range calls {
		var bytes evm.Data
		if found, err := c.into(&bytes); err != nil || !found || len(bytes) == 0 {
			return rawBlock(ctx, e, l, m, number)
		}
		m.SetTransaction(list[i], bytes)
	}
	return nil
}

func rawBlock(ctx context.Context, e *endpoint, l *lease, m *evm.Material, number uint64) error {
	c := newCall("debug_getRawBlock", hexNumber(number))
	if err := e.do(ctx, l, c); err != nil {
		return err
	}
	var block evm.Data
	if found, err := c.into(&block); err != nil || !found {
		return evm.ErrNoRaw
	}
	return m.SetBlock(block)
}

func rawReceipts(ctx context.Context, e *endpoint, l *lease, m *evm.Material, hash common.Hash) error {
	c := newCall("debug_getRawReceipts", hash)
	if err := e.do(ctx, l, c); err != nil {
		return err
	}
	var all []evm.Data
	if found, err := c.into(&all); err != nil || !found {
		return evm.ErrNoRaw
	}
	return m.SetReceipts(all)
}
