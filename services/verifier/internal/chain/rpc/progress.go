package rpc

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/lru"

	"github.com/pforte/pforte/pkg/flight"
	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/evm"
)

// What a node says of a transaction is kept for sightingTTL, or for includedTTL if a block holds the
// transaction; that of at most maxSightings transactions is kept. parallelSightings is how many are asked about at
// once. After lookupTurn the next node is asked beside one that has not answered.
const (
	maxSightings      = 4096
	sightingTTL       = 2 * time.Second
	includedTTL       = 10 * time.Second
	parallelSightings = 4
	lookupTurn        = 500 * time.Millisecond
)

// sighting is what a node said of a transaction.
type sighting struct {
	stage chain.Stage // chain.Included for a final one too
	block uint64
	until time.Time
}

type sightings struct {
	known *lru.Cache[common.Hash, sighting]
	// places bounds how many sightings are made at a time.
	places chan struct{}
	asking flight.Group[common.Hash, sighting]
}

// recent returns the answer about a transaction that is kept, unless it is too old.
func (s *sightings) recent(hash common.Hash, now time.Time) (seen sighting, known bool) {
	seen, known = s.known.Get(hash)
	return seen, known && !now.After(seen.until)
}

func newSightings() *sightings {
	return &sightings{
		known: lru.NewCache[common.Hash, sighting](maxSightings), places: make(chan struct{}, parallelSightings),
	}
}

// Progress reports how far a transaction is. If neither its block nor a recent answer about it is kept, ask is
// called, whose error is returned, and then one node after the other is asked until one knows the
// transaction. If its block is not final by the known heads, ask also decides whether newer ones are
// polled. Progress does not keep the poller busy, because callers have paid nothing.
func (r *Reader) Progress(ctx context.Context, transaction chain.Hash, ask func() error) (chain.Progress, error) {
	hash := common.Hash(transaction)
	if number, proven := r.memory.numberWith(chainHash{r.identity.ID, hash}); proven {
		return chain.Progress{Stage: chain.Final, Block: number}, nil
	}
	seen, known := r.sightings.recent(hash, r.now())
	if !known {
		err := ask()
		if err != nil {
			return chain.Progress{}, err
		}
		if seen, err = r.sightShared(ctx, hash); err != nil {
			return chain.Progress{}, err
		}
	}
	if seen.stage != chain.Included {
		return chain.Progress{Stage: seen.stage}, nil
	}
	heads, err := r.Reached(ctx)
	if err == nil && seen.block > heads.Finalized && ask() == nil {
		// Without purchases the heads are up to maxHeadAge old.
		if err = r.pollAll(ctx, nil); err == nil {
			heads, err = r.Reached(ctx)
		}
	}
	switch {
	case err != nil:
		return chain.Progress{}, err
	case seen.block <= heads.Finalized:
		return chain.Progress{Stage: chain.Final, Block: seen.block}, nil
	default:
		wait := heads.Wait(seen.block - heads.Finalized)
		return chain.Progress{Stage: chain.Included, Block: seen.block, FinalIn: wait}, nil
	}
}

// sightShared asks once for all callers that ask about a transaction at the same time, and about a few
// transactions at a time.
func (r *Reader) sightShared(ctx context.Context, hash common.Hash) (sighting, error) {
	seen, err := r.sightings.asking.Do(ctx, hash, func(ctx context.Context) (sighting, error) {
		if seen, known := r.sightings.recent(hash, r.now()); known {
			return seen, nil // another run has ended since the caller looked
		}
		select {
		case r.sightings.places <- struct{}{}:
			defer func() { <-r.sightings.places }()
		case <-ctx.Done():
			return sighting{}, errCanceled
		}
		seen, err := r.sight(ctx, hash)
		if err == nil {
			r.sightings.known.Add(hash, seen)
		}
		return seen, err
	})
	return seen, asFault(r.log, err)
}

// sight asks one node after the other until one knows the transaction: nodes learn of blocks at
// different times. While one takes longer than lookupTurn, the next is asked beside it; once another
// has answered, it is not waited for any more, and comes last for a while.
func (r *Reader) sight(ctx context.Context, hash common.Hash) (sighting, error) {
	ctx, cancel := context.WithCancel(ctx) // ends what is not waited for
	defer cancel()
	type answer struct {
		from *endpoint
		seen sighting
		err  error
	}
	rest, answers := r.available(), make(chan answer, len(r.endpoints))
	asked := map[*endpoint]*turn{} // those under way
	next := func() {
		for len(rest) > 0 && ctx.Err() == nil {
			e := rest[0]
			if rest = rest[1:]; !e.circuit.admit(r.now(), r.timeout) {
				continue
			}
			t := &turn{asked: time.Now()}
			asked[e] = t
			go func() {
				seen, err := r.sightBy(ctx, e, t, hash)
				answers <- answer{e, seen, err}
			}()
			return
		}
	}
	seen, answered, done := sighting{stage: chain.Unknown}, false, false
	var faults []error
	for next(); len(asked) > 0 && !done; {
		var turns <-chan time.Time
		switch left := leftOf(asked); {
		case left > 0:
			turns = time.After(left)
		case len(rest) > 0 && ctx.Err() == nil:
			next()
			continue
		case answered:
			done = true // as far as nodes answer in time
			continue
		}
		select {
		case a := <-answers:
			delete(asked, a.from)
			if done = a.err == nil; done {
				seen, answered = a.seen, true
				continue
			}
			answered = answered || errors.Is(a.err, chain.ErrTransactionNotFound)
			if errors.Is(a.err, errTimeout) {
				a.from.distrust()
			}
			faults = append(faults, fmt.Errorf("%s: %w", a.from.name, a.err))
			next()
		case <-turns:
		}
	}
	for e, t := range asked {
		if answered && t.isOver() {
			e.distrust()
		}
	}
	switch {
	case answered:
	case len(faults) == 0:
		return sighting{}, r.noneAvailable()
	default:
		return sighting{}, errors.Join(faults...)
	}
	seen.until = r.now().Add(sightingTTL)
	if seen.stage == chain.Included {
		seen.until = r.now().Add(includedTTL)
	}
	return seen, nil
}

// turn is that of a node in a sight.
type turn struct {
	asked time.Time
	// began is when there was memory for the answer, in Unix nanoseconds; 0 before.
	began atomic.Int64
}

// isOver reports whether the node has had lookupTurn for its answer.
func (t *turn) isOver() bool {
	began := t.began.Load()
	return began != 0 && time.Since(time.Unix(0, began)) >= lookupTurn
}

// leftOf returns how long it takes until each of the nodes has been asked for lookupTurn.
func leftOf(asked map[*endpoint]*turn) (left time.Duration) {
	for _, t := range asked {
		left = max(left, lookupTurn-time.Since(t.asked))
	}
	return left
}

// sightBy asks one node. chain.ErrTransactionNotFound; every error holds a *chain.Fault.
func (r *Reader) sightBy(
	ctx context.Context, e *endpoint, t *turn, hash common.Hash,
) (seen sighting, err error) {
	memory, err := reserve(ctx, r.memory.budget, lookupBytes)
	if err != nil {
		return seen, err
	}
	defer memory.release()
	t.began.Store(time.Now().UnixNano())
	err = guarded(r.log, func() error {
		answer := newCall("eth_getTransactionByHash", hash)
		if err := e.do(ctx, memory, answer); err != nil {
			return err
		}
		var of evm.Transaction
		found, err := answer.decode(&of)
		switch {
		case err != nil:
			return err
		case !found:
			return chain.ErrTransactionNotFound
		case of.Hash == nil || *of.Hash != hash:
			return chain.ErrInconsistent
		case of.BlockNumber == nil:
			seen.stage = chain.Pending
			return nil
		}
		number, ok := of.BlockNumber.Uint64()
		if !ok {
			return chain.ErrInconsistent
		}
		seen.stage, seen.block = chain.Included, number
		return nil
	})
	return seen, err
}
