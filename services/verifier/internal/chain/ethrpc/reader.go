package ethrpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"golang.org/x/sync/singleflight"

	"github.com/pforte/pforte/services/verifier/internal/chain"
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
	flights    singleflight.Group
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
		quorum:     o.Chain.Quorum,
		timeout:    o.Chain.RPCTimeout,
		maxHeadAge: o.Chain.MaxHeadAge,
		pool:       &pool{endpoints: endpoints, now: o.Now, timeout: o.Chain.RPCTimeout},
		cache:      o.Memory.cache,
		budget:     o.Memory.budget,
		hooks:      o.Hooks,
		log:        o.Log,
		now:        o.Now,
	}
	r.heads.touch(r.now())
	return r, r.firstLook(ctx)
}

// firstLook asks all endpoints and refuses those of another chain.
func (r *Reader) firstLook(ctx context.Context) error {
	answers := make(chan error, len(r.pool.endpoints))
	for _, e := range r.pool.endpoints {
		go func() {
			err := r.pollEndpoint(ctx, e)
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
	r.agreed() // what later heads are held against
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
	if !cached {
		var err error
		if block, err = r.shared(ctx, hash); err != nil {
			return chain.Snapshot{}, err
		}
	}
	heads, err := r.Heads(ctx)
	if err != nil {
		return chain.Snapshot{}, err
	}
	snapshot, err := block.snapshot(block.index[hash])
	if err != nil {
		return chain.Snapshot{}, err
	}
	snapshot.Chain, snapshot.Heads = r.identity, heads
	return snapshot, nil
}

// shared reads a transaction's block once for all who ask for it at the same
// time. A caller that gives up leaves the others their answer.
func (r *Reader) shared(ctx context.Context, transaction common.Hash) (*provenBlock, error) {
	done := r.flights.DoChan("transaction "+string(transaction[:]), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*attempts*r.timeout)
		defer cancel()
		return r.pool.try(ctx, func(e *endpoint) (*provenBlock, error) { return r.readFrom(ctx, e, transaction) })
	})
	return await(ctx, done)
}

func await(ctx context.Context, done <-chan singleflight.Result) (*provenBlock, error) {
	select {
	case result := <-done:
		block, _ := result.Val.(*provenBlock)
		return block, result.Err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", errGone, chain.ErrUnavailable)
	}
}

// readFrom locates the transaction and proves its block, with one endpoint.
func (r *Reader) readFrom(ctx context.Context, e *endpoint, transaction common.Hash) (*provenBlock, error) {
	at, err := r.locate(ctx, e, transaction)
	if err != nil {
		return nil, err
	}
	if err := r.final(ctx, at.number); err != nil {
		return nil, err
	}
	block, err := r.block(ctx, e, at)
	if err != nil {
		return nil, err
	}
	return block, at.agrees(block)
}

// block gives the proven block at a location: kept from before, or fetched once
// for all transactions in it that are asked for at the same time. Only what one
// endpoint says is shared: a liar's answer must not become an honest one's fault.
func (r *Reader) block(ctx context.Context, e *endpoint, at *location) (*provenBlock, error) {
	if block, ok := r.cache.block(r.identity.ID, at.block); ok {
		return block, nil
	}
	key := fmt.Sprintf("block %p %d %v", e, at.number, at.block)
	done := r.flights.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*attempts*r.timeout)
		defer cancel()
		block, err := r.fetch(ctx, e, at.number, at.block)
		if err == nil {
			r.cache.add(block)
		}
		return block, err
	})
	return await(ctx, done)
}

// final is nil when the chain is finalized up to number. Before it says no, it
// looks again, but not more often than once a second.
func (r *Reader) final(ctx context.Context, number uint64) error {
	heads, err := r.Heads(ctx)
	if err != nil {
		return err
	}
	if _, age := r.agreed(); number > heads.Finalized && age >= pollShortest {
		if heads, err = r.refreshedHeads(ctx); err != nil {
			return err
		}
	}
	if number > heads.Finalized {
		return chain.WithRetryAfter(chain.ErrNotFinalized, heads.Wait(number-heads.Finalized))
	}
	return nil
}
