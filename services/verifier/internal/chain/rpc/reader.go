package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/pforte/pforte/pkg/flight"
	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/evm"
)

// Reader implements chain.Reader over the JSON-RPC endpoints of one chain.
type Reader struct {
	identity   chain.Identity
	quorum     int
	timeout    time.Duration
	maxHeadAge time.Duration
	pool       *pool
	cache      *cache
	budget     *budget
	heads      heads
	looks      flight.Group[*endpoint, struct{}]
	readings   flight.Group[common.Hash, reading]
	blocks     flight.Group[blockKey, *evm.ProvenBlock]
	hooks      Hooks
	log        *slog.Logger
	now        func() time.Time
}

// Open checks the options and asks every endpoint for its chain id and heads. An
// endpoint that serves another chain is an error. One that does not answer is
// not: it may come later, and until then it is not used.
func Open(ctx context.Context, options Options) (*Reader, error) {
	o := options.filled()
	if err := o.Chain.Validate(); err != nil {
		return nil, err
	}
	endpoints, err := o.endpoints()
	if err != nil {
		return nil, err
	}
	r := &Reader{
		identity:   o.Chain.Identity(),
		quorum:     o.Chain.Agreeing(),
		timeout:    o.Chain.RPCTimeout,
		maxHeadAge: o.Chain.MaxHeadAge,
		pool:       &pool{endpoints: endpoints, now: o.Now, timeout: o.Chain.RPCTimeout},
		cache:      o.Memory.cache,
		budget:     o.Memory.budget,
		hooks:      o.Hooks,
		log:        o.Log,
		now:        o.Now,
		heads:      heads{woken: make(chan struct{}, 1)},
	}
	if r.quorum == 1 && len(endpoints) > 1 {
		r.log.Warn("a single node's word makes a block final, and any of the nodes may be that one: set CHAIN_RPC_QUORUM, or the quorum in CHAINS_FILE, to 2 or more",
			"chain", r.identity.Name, "nodes", len(endpoints))
	}
	return r, r.firstLook(ctx)
}

// firstLook asks all endpoints and refuses those of another chain.
func (r *Reader) firstLook(ctx context.Context) error {
	answers := make(chan error, len(r.pool.endpoints))
	for _, e := range r.pool.endpoints {
		go func() {
			err := guarded(r.log, func() error { return r.pollEndpoint(ctx, e) })
			if err != nil {
				err = fmt.Errorf("%s: %w", e.name, err)
			}
			answers <- err
		}()
	}
	var faults []error
	for range r.pool.endpoints {
		switch err := <-answers; {
		case errors.Is(err, chain.ErrWrongChain):
			faults = append(faults, fmt.Errorf("chain %s is %d: %w", r.identity.Name, r.identity.ID, err))
		case err != nil:
			r.log.Warn("node does not answer yet", "chain", r.identity.Name, "error", err)
		}
	}
	return errors.Join(faults...)
}

// Identity implements chain.Reader.
func (r *Reader) Identity() chain.Identity { return r.identity }

// Read implements chain.Reader. A transaction in a block that was proven before
// costs no question to any node; another one two round trips, one after the
// other. Should its block lie just beyond the known finalized head, the heads are
// asked for once more in between.
func (r *Reader) Read(ctx context.Context, transaction chain.Hash) (chain.Snapshot, error) {
	hash := common.Hash(transaction)
	block, cached := r.cache.transaction(r.identity.ID, hash)
	r.hooks.Cache(cached)
	from := (*endpoint)(nil)
	if !cached {
		read, err := r.shared(ctx, hash)
		if err != nil {
			return chain.Snapshot{}, err
		}
		block, from = read.block, read.from
	}
	heads, err := r.headsOf(ctx, from)
	if err != nil {
		return chain.Snapshot{}, err
	}
	index, _ := block.Index(hash)
	snapshot, err := block.Snapshot(index)
	if err != nil {
		return chain.Snapshot{}, err
	}
	snapshot.Chain, snapshot.Heads = r.identity, heads
	return snapshot, nil
}

// headsOf returns the heads that confirmations are counted by: where one endpoint's
// word is enough, that of the endpoint that proved the block, if it just did.
func (r *Reader) headsOf(ctx context.Context, from *endpoint) (chain.Heads, error) {
	if from != nil && r.quorum == 1 {
		if word, fresh := from.word(r.maxHeadAge); fresh {
			return chain.Heads{Latest: word.latest, Finalized: word.finalized, BlockTime: r.heads.pace()}, nil
		}
	}
	return r.Heads(ctx)
}

// shared reads a transaction's block once for all who ask for it at the same
// time. A caller that gives up leaves the others their answer; when the last one
// does, the reading ends, and the node and the memory for its answers are free.
func (r *Reader) shared(ctx context.Context, transaction common.Hash) (reading, error) {
	read, err := r.readings.Do(ctx, transaction, func(ctx context.Context) (reading, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*attempts*r.timeout)
		defer cancel()
		return r.pool.try(ctx, func(e *endpoint) (*evm.ProvenBlock, error) { return r.readFrom(ctx, e, transaction) })
	})
	return read, faultOf(r.log, err)
}

// reading is a block and the endpoint that it was proven from.
type reading struct {
	block *evm.ProvenBlock
	from  *endpoint
}

// blockKey names a block as one endpoint has it.
type blockKey struct {
	from   *endpoint
	number uint64
	hash   common.Hash
}

// readFrom locates the transaction and proves its block, with one endpoint.
func (r *Reader) readFrom(ctx context.Context, e *endpoint, transaction common.Hash) (*evm.ProvenBlock, error) {
	at, err := r.locate(ctx, e, transaction)
	if err != nil {
		return nil, err
	}
	if err := r.final(ctx, e, at.number); err != nil {
		return nil, err
	}
	block, err := r.block(ctx, e, at)
	if err != nil {
		return nil, err
	}
	return block, block.Matches(&at.transaction, &at.receipt)
}

// block gives the proven block at a location: kept from before, or fetched once
// for all transactions in it that are asked for at the same time. Only what one
// endpoint says is shared: a liar's answer must not become an honest one's fault.
func (r *Reader) block(ctx context.Context, e *endpoint, at *location) (*evm.ProvenBlock, error) {
	if block, ok := r.cache.block(r.identity.ID, at.block); ok {
		return block, nil
	}
	block, err := r.blocks.Do(ctx, blockKey{e, at.number, at.block}, func(ctx context.Context) (*evm.ProvenBlock, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*attempts*r.timeout)
		defer cancel()
		block, err := r.fetch(ctx, e, at.number, at.block)
		if err == nil {
			r.cache.add(block)
		}
		return block, err
	})
	return block, faultOf(r.log, err)
}
