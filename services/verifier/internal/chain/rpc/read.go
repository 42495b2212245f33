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

// Bounds of calls that are made for single transactions of a block.
const (
	maxSingleReceipts  = 5000
	maxRawTransactions = 500 // of unknown types
	parallelBatches    = 4
)

// Read implements verification.Reader. A transaction in a block that is kept as proven costs
// no exchange while the heads are recent; another one usually two round trips, one after the
// other. Should its block lie just beyond the known finalized head, the heads are polled in
// between.
func (r *Reader) Read(ctx context.Context, transaction chain.Hash) (chain.Snapshot, error) {
	hash := common.Hash(transaction)
	block, cached := r.memory.blockWith(chainHash{r.identity.ID, hash})
	r.hooks.Cache(cached)
	from := (*endpoint)(nil)
	if !cached {
		read, err := r.readShared(ctx, hash)
		if err != nil {
			return chain.Snapshot{}, err
		}
		block, from = read.block, read.from
	}
	heads, err := r.headsFor(ctx, from)
	if err != nil {
		return chain.Snapshot{}, err
	}
	index, _ := block.Index(hash) // it is there, or the read had failed
	snapshot, err := block.Snapshot(index)
	if err != nil {
		return chain.Snapshot{}, err
	}
	snapshot.Chain, snapshot.Heads = r.identity, heads
	return snapshot, nil
}

// headsFor returns the heads that confirmations are counted by: with a quorum of one the recent
// report of from, the endpoint that was asked for the block; else, and where from is nil, as for
// a block that was kept, those of Heads.
func (r *Reader) headsFor(ctx context.Context, from *endpoint) (chain.Heads, error) {
	if from != nil && r.quorum == 1 {
		if report, fresh := from.lastHead(r.maxHeadAge); fresh {
			return r.headsOf(report.latest, report.finalized), nil
		}
	}
	return r.Heads(ctx)
}

// readShared reads a transaction's block once for all callers that need it at the
// same time. A caller that leaves does not end it for the others; when the last one
// leaves, it ends, and the node and the memory for its responses are free.
func (r *Reader) readShared(ctx context.Context, transaction common.Hash) (reading, error) {
	read, err := r.reads.Do(ctx, transaction, func(ctx context.Context) (reading, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*attempts*r.timeout)
		defer cancel()
		return r.try(ctx, func(e *endpoint) (*evm.ProvenBlock, error) { return r.readFrom(ctx, e, transaction) })
	})
	return read, asFault(r.log, err)
}

// readFrom locates the transaction and proves its block, with one endpoint.
func (r *Reader) readFrom(ctx context.Context, e *endpoint, transaction common.Hash) (*evm.ProvenBlock, error) {
	at, err := r.locate(ctx, e, transaction)
	if err != nil {
		return nil, err
	}
	if err := r.requireFinal(ctx, e, at.number); err != nil {
		return nil, err
	}
	block, err := r.block(ctx, e, at)
	if err != nil {
		return nil, err
	}
	return block, block.Matches(&at.transaction, &at.receipt)
}

// location is where a node reports a transaction, with what it reports of it: a hint,
// until the block around it is proven.
type location struct {
	number      uint64
	block       common.Hash
	transaction evm.Transaction
	receipt     evm.Receipt
}

// locate is the first round trip: the chain id, the transaction and its receipt, in
// one batch where the node takes batches.
func (r *Reader) locate(ctx context.Context, e *endpoint, transaction common.Hash) (*location, error) {
	memory, err := reserve(ctx, r.memory.budget, lookupBytes)
	if err != nil {
		return nil, err
	}
	defer memory.release()
	id, tx, receipt := newCall("eth_chainId"),
		newCall("eth_getTransactionByHash", transaction), newCall("eth_getTransactionReceipt", transaction)
	if err := e.do(ctx, memory, id, tx, receipt); err != nil {
		return nil, err
	}
	if err := r.checkChain(e, id); err != nil {
		return nil, err
	}
	return locationOf(transaction, tx, receipt)
}

// locationOf reads the two answers, which have to agree.
func locationOf(transaction common.Hash, tx, receipt *call) (*location, error) {
	at := new(location)
	t, r := &at.transaction, &at.receipt
	found, err := tx.decode(t)
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, chain.ErrTransactionNotFound
	case t.Hash == nil || *t.Hash != transaction:
		return nil, fmt.Errorf("another transaction was returned: %w", chain.ErrInconsistent)
	case t.BlockHash == nil || t.BlockNumber == nil:
		return nil, chain.ErrTransactionPending
	}
	number, ok := t.BlockNumber.Uint64()
	if !ok {
		return nil, fmt.Errorf("block number: %w", chain.ErrInconsistent)
	}
	at.number, at.block = number, *t.BlockHash
	found, err = receipt.decode(r)
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, chain.ErrReceiptUnavailable
	case r.TransactionHash == nil || *r.TransactionHash != transaction,
		r.BlockHash == nil || *r.BlockHash != at.block,
		!r.BlockNumber.Is(number),
		string(r.TransactionIndex) != string(t.TransactionIndex):
		return nil, fmt.Errorf("receipt and transaction disagree: %w", chain.ErrInconsistent)
	}
	return at, nil
}

// blockKey names a block as one endpoint has it.
type blockKey struct {
	from   *endpoint
	number uint64
	hash   common.Hash
}

// block returns the proven block at a location: from the cache, or fetched once for
// all transactions in it that are read from this endpoint at the same time. No fetch is
// shared between endpoints: a wrong answer must not become the error of another one.
func (r *Reader) block(ctx context.Context, e *endpoint, at *location) (*evm.ProvenBlock, error) {
	if block, ok := r.memory.block(chainHash{r.identity.ID, at.block}); ok {
		return block, nil
	}
	block, err := r.blocks.Do(ctx, blockKey{e, at.number, at.block}, func(
		ctx context.Context,
	) (*evm.ProvenBlock, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*attempts*r.timeout)
		defer cancel()
		block, err := r.fetch(ctx, e, at.number, at.block)
		if err == nil {
			r.memory.add(block)
		}
		return block, err
	})
	return block, asFault(r.log, err)
}

// fetch is the second round trip: the whole block by its number, all its receipts, by its hash
// where the node has that, and, once more, how far the chain is finalized, in one batch where the
// node takes batches, while other nodes confirm the block. What comes back is proven.
func (r *Reader) fetch(ctx context.Context, e *endpoint, number uint64, hash common.Hash) (*evm.ProvenBlock, error) {
	memory, err := reserve(ctx, r.memory.budget, blockBytes)
	if err != nil {
		return nil, err
	}
	defer memory.release()
	group, ctx := errgroup.WithContext(ctx)
	f := &blockFetch{endpoint: e, memory: memory, number: number, hash: hash}
	var proven *evm.ProvenBlock
	group.Go(func() error { return guarded(r.log, func() error { return r.confirm(ctx, e, number, hash) }) })
	group.Go(func() error {
		return guarded(r.log, func() (err error) { proven, err = f.prove(ctx); return err })
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return proven, nil
}

type blockFetch struct {
	*endpoint
	memory   *reservation
	number   uint64
	hash     common.Hash
	reported evm.ReportedBlock
}

func (f *blockFetch) do(ctx context.Context, calls ...*call) error {
	return f.endpoint.do(ctx, f.memory, calls...)
}

// doAll makes many calls, some batches of them at the same time.
func (f *blockFetch) doAll(ctx context.Context, calls []*call) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelBatches)
	for part := range slices.Chunk(calls, maxBatch) {
		group.Go(func() error { return guarded(f.log, func() error { return f.do(ctx, part...) }) })
	}
	return group.Wait()
}

func (f *blockFetch) prove(ctx context.Context) (*evm.ProvenBlock, error) {
	if err := f.request(ctx); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, errCanceled
	}
	_, span := tracing.Step(ctx, "chain", "prove block")
	start := f.now()
	proven, err := f.reported.Prove(f.number, f.hash, f.identity.ID)
	if errors.Is(err, chain.ErrUnsupportedType) {
		proven, err = f.proveRaw(ctx, err)
	}
	f.hooks.Proof(len(f.reported.Transactions), f.now().Sub(start), err)
	span.End(tracing.Failed(err))
	return proven, err
}

// request reads the block and its receipts, by the method that the node is known to
// support, and falls back to the next.
func (f *blockFetch) request(ctx context.Context) error {
	method := f.receiptsMethod()
	block, receipts, heads := newCall("eth_getBlockByNumber", hexNumber(f.number), true), f.receiptsCall(method),
		f.newHeadCalls()
	calls := []*call{block}
	if receipts != nil {
		calls = append(calls, receipts)
	}
	if err := f.do(ctx, append(calls, heads.latest, heads.finalized)...); err != nil {
		return err
	}
	if err := f.readBlock(block); err != nil {
		return err
	}
	if err := f.stillFinal(f.endpoint, heads, f.number, f.hash); err != nil {
		return err
	}
	for first := receipts; receipts != nil; {
		if f.readReceipts(receipts) {
			f.receipts[method].set(f.now().Add(capabilityTTL))
			return nil
		}
		if errors.Is(receipts.err, errNoMethod) {
			if receipts == first { // else it has the method, but not this block
				f.receipts[receiptsSingly].set(f.now().Add(capabilityTTL))
			}
			break
		}
		method++
		if receipts = f.receiptsCall(method); receipts != nil {
			if err := f.do(ctx, receipts); err != nil {
				return err
			}
		}
	}
	return f.requestSingleReceipts(ctx)
}

// receiptsCall returns the call for all receipts of the block, nil when they have to
// be requested one by one.
func (f *blockFetch) receiptsCall(method receiptsMethod) *call {
	switch method {
	case receiptsByHash:
		return newCall("eth_getBlockReceipts", f.hash)
	case receiptsByNumber:
		return newCall("eth_getBlockReceipts", hexNumber(f.number))
	default:
		return nil
	}
}

func (f *blockFetch) readBlock(c *call) error {
	found, err := c.decode(&f.reported.Block)
	switch {
	case err != nil:
		return err
	case !found:
		return fmt.Errorf("no block %d: %w", f.number, chain.ErrInconsistent)
	case f.reported.Hash != nil && f.reported.Number.Is(f.number) && *f.reported.Hash != f.hash:
		return fmt.Errorf("block %d is %v, not %v: %w", f.number, *f.reported.Hash, f.hash, chain.ErrNotCanonical)
	default:
		return nil
	}
}

// readReceipts keeps the receipts of a result and reports whether all are of this block: some nodes return those of
// another one, or null. One may be missing, as that of Polygon's state sync may be.
func (f *blockFetch) readReceipts(c *call) bool {
	var receipts evm.Receipts
	if found, err := c.decode(&receipts); err != nil || !found || len(receipts) < len(f.reported.Transactions)-1 {
		return false
	}
	for i := range receipts {
		if receipts[i].BlockHash == nil || *receipts[i].BlockHash != f.hash {
			return false
		}
	}
	f.reported.Receipts = receipts
	return true
}

// requestSingleReceipts requests each receipt by itself, in batches, but none for Polygon's state sync.
func (f *blockFetch) requestSingleReceipts(ctx context.Context) error {
	var calls []*call
	stateSync := evm.StateSyncHash(f.number, f.hash)
	for i := range f.reported.Transactions {
		tx := f.reported.Transactions[i].Hash
		if tx == nil || len(calls) == maxSingleReceipts {
			return errTooLarge
		}
		if *tx != stateSync {
			calls = append(calls, newCall("eth_getTransactionReceipt", *tx))
		}
	}
	if err := f.doAll(ctx, calls); err != nil {
		return err
	}
	f.reported.Receipts = make(evm.Receipts, len(calls))
	for i, c := range calls {
		found, err := c.decode(&f.reported.Receipts[i])
		if err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("receipt %d of block %d: %w", i, f.number, chain.ErrReceiptUnavailable)
		}
	}
	return nil
}

// proveRaw proves a block that holds transactions of unknown types, from their raw
// bytes; the other transactions of the block can then be proven. cause is why the
// block could not be proven without; it stays the error where the node does not offer
// raw bytes.
func (f *blockFetch) proveRaw(ctx context.Context, cause error) (*evm.ProvenBlock, error) {
	err := f.requestRawTransactions(ctx)
	if err == nil {
		var proven *evm.ProvenBlock
		proven, err = f.reported.Prove(f.number, f.hash, f.identity.ID)
		if !errors.Is(err, evm.ErrReceiptsRoot) {
			return proven, err
		}
		// Receipts of most unknown types have the usual form; these do not.
		if err = f.requestRawReceipts(ctx); err == nil {
			return f.reported.Prove(f.number, f.hash, f.identity.ID)
		}
	}
	if isAny(err, evm.ErrNoRaw, errBatchRefused) {
		return nil, cause
	}
	return nil, err
}

// requestRawTransactions requests the bytes of transactions of unknown types: one by
// one, which more nodes offer, or else with the whole block.
func (f *blockFetch) requestRawTransactions(ctx context.Context) error {
	unknown := f.reported.UnknownTypes()
	if len(unknown) == 0 || len(unknown) > maxRawTransactions {
		return evm.ErrNoRaw
	}
	calls := make([]*call, len(unknown))
	for i, at := range unknown {
		if f.reported.Transactions[at].Hash == nil {
			return evm.ErrNoRaw
		}
		calls[i] = newCall("eth_getRawTransactionByHash", *f.reported.Transactions[at].Hash)
	}
	if err := f.doAll(ctx, calls); err != nil {
		return err
	}
	for i, c := range calls {
		var raw evm.Data
		if found, err := c.decode(&raw); err != nil || !found || len(raw) == 0 {
			return f.requestRawBlock(ctx)
		}
		f.reported.SetRawTransaction(unknown[i], raw)
	}
	return nil
}

func (f *blockFetch) requestRawBlock(ctx context.Context) error {
	var block evm.Data
	if err := f.requestRaw(ctx, newCall("debug_getRawBlock", hexNumber(f.number)), &block); err != nil {
		return err
	}
	return f.reported.SetRawBlock(block)
}

func (f *blockFetch) requestRawReceipts(ctx context.Context) error {
	var receipts []evm.Data
	if err := f.requestRaw(ctx, newCall("debug_getRawReceipts", f.hash), &receipts); err != nil {
		return err
	}
	return f.reported.SetRawReceipts(receipts)
}

func (f *blockFetch) requestRaw(ctx context.Context, c *call, into any) error {
	if err := f.do(ctx, c); err != nil {
		return err
	}
	if found, err := c.decode(into); err != nil || !found {
		return evm.ErrNoRaw
	}
	return nil
}

func hexNumber(n uint64) string { return "0x" + strconv.FormatUint(n, 16) }
