package rpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/ethereum/go-ethereum/common"
	"golang.org/x/sync/errgroup"

	"github.com/pforte/pforte/pkg/tracing"
	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/evm"
)

// Bounds of asking for receipts one by one.
const (
	maxSingleReceipts = 5000 // transactions in the block
	parallelBatches   = 4
)

// fetch is the second round trip: the whole block by its number, all its receipts
// by its hash and, once more, how far the chain is finalized, in one batch, while
// other nodes confirm the block. What comes back is proven.
func (r *Reader) fetch(ctx context.Context, e *endpoint, number uint64, hash common.Hash) (*evm.ProvenBlock, error) {
	l, err := r.budget.reserve(ctx, blockShare)
	if err != nil {
		return nil, err
	}
	defer l.release()
	group, ctx := errgroup.WithContext(ctx)
	guard := func(work func() error) func() error { return func() error { return guarded(r.log, work) } }
	group.Go(guard(func() error { return r.confirm(ctx, e, number, hash) }))
	var proven *evm.ProvenBlock
	group.Go(guard(func() error {
		m, err := r.material(ctx, e, l, number, hash)
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", errGone, chain.ErrUnavailable)
		}
		_, span := tracing.Step(ctx, "chain", "prove block")
		start := r.now()
		if proven, err = evm.Prove(m, number, hash, r.identity.ID); errors.Is(err, chain.ErrUnsupportedType) {
			proven, err = r.proveOpaque(ctx, e, l, m, number, hash, err)
		}
		r.hooks.Proof(len(m.Block.Transactions), r.now().Sub(start), err)
		span.End(tracing.Failed(err))
		return err
	}))
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return proven, nil
}

// material asks for the block and its receipts, in the way that the node is
// known to answer.
func (r *Reader) material(ctx context.Context, e *endpoint, l *lease, number uint64, hash common.Hash) (*evm.Material, error) {
	way := e.receiptsWay()
	block, receipts := newCall("eth_getBlockByNumber", hexNumber(number), true), blockReceipts(way, number, hash)
	ask := r.askHead()
	calls := []*call{block}
	if receipts != nil {
		calls = append(calls, receipts)
	}
	if err := e.do(ctx, l, append(calls, ask.calls()...)...); err != nil {
		return nil, err
	}
	m := new(evm.Material)
	if err := readBlock(m, block, number, hash); err != nil {
		return nil, err
	}
	if err := r.stillFinal(e, ask, number, hash); err != nil {
		return nil, err
	}
	for receipts != nil {
		if readReceipts(m, receipts, hash) {
			e.rememberWay(way)
			return m, nil
		}
		way = nextWay(way, receipts)
		if receipts = blockReceipts(way, number, hash); receipts != nil {
			if err := e.do(ctx, l, receipts); err != nil {
				return nil, err
			}
		} else if isAny(calls[1].err, errNoMethod) {
			e.rememberWay(way)
		}
	}
	return m, r.singleReceipts(ctx, e, l, m, number, hash)
}

// stillFinal is nil when the endpoint calls the block finalized in the answer that
// the block itself came in. It did so before, or it would not have been asked for
// it: a single wrong answer makes no block final.
func (r *Reader) stillFinal(e *endpoint, ask headQuestion, number uint64, hash common.Hash) error {
	word, err := r.noteHead(e, ask)
	if err == nil {
		err = word.covers(number, hash)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, chain.ErrNotFinalized):
		err = r.notFinal(number, chain.Heads{Finalized: word.finalized, BlockTime: r.heads.pace()})
	}
	return fmt.Errorf("%w: %w", errElsewhere, err)
}

// nextWay is what to try when an answer was of no use.
func nextWay(way receiptsWay, c *call) receiptsWay {
	if way == receiptsByHash && !errors.Is(c.err, errNoMethod) {
		return receiptsByNumber
	}
	return receiptsSingly
}

// blockReceipts is the call for all receipts of a block; nil when they have to
// be asked for one by one.
func blockReceipts(way receiptsWay, number uint64, hash common.Hash) *call {
	switch way {
	case receiptsByHash:
		return newCall("eth_getBlockReceipts", hash)
	case receiptsByNumber:
		return newCall("eth_getBlockReceipts", hexNumber(number))
	default:
		return nil
	}
}

func readBlock(m *evm.Material, c *call, number uint64, hash common.Hash) error {
	found, err := c.into(&m.Block)
	switch {
	case err != nil:
		return err
	case !found:
		return fmt.Errorf("no block %d: %w", number, chain.ErrInconsistent)
	case m.Block.Hash != nil && m.Block.Number.Is(number) && *m.Block.Hash != hash:
		return fmt.Errorf("block %d is %v, not %v: %w", number, *m.Block.Hash, hash, chain.ErrNotCanonical)
	default:
		return nil
	}
}

// readReceipts tells whether the answer is the receipts of this block: some nodes
// ignore the hash and answer for another block, or with null, or by halves.
func readReceipts(m *evm.Material, c *call, hash common.Hash) bool {
	var receipts evm.Receipts
	if found, err := c.into(&receipts); err != nil || !found || len(receipts) < len(m.Block.Transactions)-1 {
		return false
	}
	for i := range receipts {
		if receipts[i].BlockHash == nil || *receipts[i].BlockHash != hash {
			return false
		}
	}
	m.Receipts = receipts
	return true
}

// singleReceipts asks for every receipt by itself, in batches.
func (r *Reader) singleReceipts(ctx context.Context, e *endpoint, l *lease, m *evm.Material, number uint64, hash common.Hash) error {
	var calls []*call
	sync := evm.StateSyncHash(number, hash)
	for i := range m.Block.Transactions {
		tx := m.Block.Transactions[i].Hash
		if tx == nil || len(calls) == maxSingleReceipts {
			return errTooLarge
		}
		if *tx != sync {
			calls = append(calls, newCall("eth_getTransactionReceipt", *tx))
		}
	}
	if err := r.inBatches(ctx, e, l, calls); err != nil {
		return err
	}
	m.Receipts = make(evm.Receipts, len(calls))
	for i, c := range calls {
		found, err := c.into(&m.Receipts[i])
		if err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("receipt %d of block %d: %w", i, number, chain.ErrReceiptUnavailable)
		}
	}
	return nil
}

// inBatches makes many calls, some batches of them side by side.
func (r *Reader) inBatches(ctx context.Context, e *endpoint, l *lease, calls []*call) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelBatches)
	for part := range slices.Chunk(calls, maxBatch) {
		group.Go(func() error { return guarded(r.log, func() error { return e.do(ctx, l, part...) }) })
	}
	return group.Wait()
}

func hexNumber(n uint64) string { return "0x" + strconv.FormatUint(n, 16) }
