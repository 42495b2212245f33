package payment

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Intervals of the upkeep.
const (
	reconcileEvery = 5 * time.Second
	// reconcileBatch is how many payments are looked at at once.
	reconcileBatch = 20
	// nextLook is when a payment that could not be decided is looked at again.
	nextLook   = 30 * time.Second
	pruneEvery = time.Hour
	checkEvery = time.Minute
	// checkBatch is how many payments that have ended are looked at in one pass.
	checkBatch = 100
	// checkAfter is the age at which a payment that has ended is looked at once
	// more: by then its block is final on every network that payments are made on.
	checkAfter = time.Hour
	// checkWithin bounds how long a payment of which the chain says nothing holds up
	// those after it.
	checkWithin = 24 * time.Hour
)

// Run finishes what is left open, and prunes, until ctx ends. Looks that take
// long do not keep the next round waiting.
func (g *Gate) Run(ctx context.Context) {
	pruned, checked := time.Time{}, time.Time{}
	var looking sync.WaitGroup
	defer looking.Wait()
	every(ctx, reconcileEvery, func() {
		looking.Go(func() { g.Reconcile(ctx) })
		g.repayAll(ctx)
		now := g.Now()
		if now.Sub(checked) >= checkEvery {
			checked = now
			looking.Go(func() { g.Check(ctx) })
		}
		if now.Sub(pruned) >= pruneEvery {
			pruned = now
			g.prune(ctx)
		}
	})
}

// Reconcile looks once for the truth of payments whose outcome is open, those
// that are due for longest first, as many at once as looks allows. It only looks:
// nobody waits for these, so nobody is charged by it.
func (g *Gate) Reconcile(ctx context.Context) {
	if g.Truth == nil {
		return
	}
	free := g.looks.take()
	due := g.due(ctx, free)
	g.looks.give(free - len(due))
	more := len(due) == free
	var all sync.WaitGroup
	for _, first := range due {
		all.Go(func() {
			defer g.looks.give(1)
			for mine := []Record{first}; len(mine) > 0 && ctx.Err() == nil; {
				if g.lookAt(ctx, mine[0]); !more {
					return
				}
				mine = g.due(ctx, 1)
			}
		})
	}
	all.Wait()
}

// due gives at most so many payments to look at.
func (g *Gate) due(ctx context.Context, limit int) []Record {
	if limit == 0 {
		return nil
	}
	due, err := g.Ledger.Due(ctx, limit, g.Now().Add(nextLook))
	if err != nil && ctx.Err() == nil {
		g.Log.Error("cannot list open payments", "error", err)
	}
	return due
}

// lookAt ends an open payment as the chain says.
func (g *Gate) lookAt(ctx context.Context, r Record) {
	outcome := g.truthOver(ctx, Outcome{State: Unknown}, r)
	if outcome.State == Unknown || ctx.Err() != nil {
		return
	}
	if _, err := g.Ledger.Finish(ctx, r.Key, outcome); err != nil {
		g.Log.Error("cannot write what the chain says of a payment", "error", err)
		return
	}
	g.quota.stale()
	g.Ended("reconciled_" + string(outcome.State))
	g.Log.Info("the chain has decided an open payment", "state", outcome.State, "reason", outcome.Reason,
		"payer", r.Key.Payer, "transaction", outcome.Transaction)
}

// Check holds payments that have ended against the chain once more, when their
// blocks are final: one that was settled by a transfer that the chain has lost since
// is open again, and one that was paid after it had ended is settled. A chain that
// cannot be asked is asked again a minute later, for up to a day.
func (g *Gate) Check(ctx context.Context) {
	if g.Truth == nil {
		return
	}
	for ctx.Err() == nil {
		now := g.Now()
		ended, err := g.Ledger.Ended(ctx, now.Add(-checkAfter), checkBatch, now.Add(checkEvery+checkBatch/checkAtOnce*truthTimeout))
		if err != nil {
			g.Log.Error("cannot list the payments that have ended", "error", err)
			return
		}
		if len(ended) == 0 {
			return
		}
		passed := g.checkAll(ctx, ended)
		upTo := ended[len(ended)-1].Claimed
		if passed < len(ended) { // it comes again, with those of the same moment
			upTo = ended[passed].Claimed.Add(-time.Millisecond)
		}
		if err := g.Ledger.Checked(context.WithoutCancel(ctx), upTo); err != nil {
			g.Log.Error("cannot remember which payments were looked at", "error", err)
			return
		}
		if passed < len(ended) || len(ended) < checkBatch {
			return
		}
	}
}

// checkAtOnce is how many payments that have ended are looked at at once.
const checkAtOnce = 4

// checkAll looks at payments and returns how many, from the first, need no further
// look.
func (g *Gate) checkAll(ctx context.Context, ended []Record) int {
	failed := make([]bool, len(ended))
	var all errgroup.Group
	all.SetLimit(checkAtOnce)
	for i, r := range ended {
		all.Go(func() error {
			failed[i] = !g.checkOne(ctx, r)
			return nil
		})
	}
	_ = all.Wait() // none fails
	if first := slices.Index(failed, true); first >= 0 {
		return first
	}
	return len(ended)
}

// checkOne reports whether a payment that has ended needs no further look.
func (g *Gate) checkOne(ctx context.Context, r Record) bool {
	if r.State == Dead && (r.Reason == ReasonExpired || r.Reason == reasonElsewhere) {
		return true // the chain has said so for good
	}
	fate, err := g.fate(ctx, r)
	switch {
	case err != nil && g.Now().Sub(r.Claimed) < checkAfter+checkWithin:
		return false
	case err != nil:
		g.Log.Error("cannot hold a payment against the chain", "state", r.State, "payer", r.Key.Payer, "nonce", r.Key.Nonce, "error", err)
		return true
	case r.State == Settled && fate.Is == Unspent && g.Now().Sub(r.Claimed) < checkAfter+checkWithin:
		return false // by now the authorization is over: the node is behind, and has lost nothing
	}
	var end string
	switch {
	case r.State == Dead && fate.Is == Paid:
		end = "reconciled_settled"
		_, err = g.Ledger.Finish(ctx, r.Key, Outcome{State: Settled, Transaction: fate.Transaction})
	case r.State == Settled && fate.Is != Paid:
		end = "reopened"
		g.Log.Error("the chain has lost a transfer", "payer", r.Key.Payer, "nonce", r.Key.Nonce, "transaction", r.Transaction)
		err = g.Ledger.Reopen(ctx, r.Key, reasonVanished)
	default:
		return true
	}
	if errors.Is(err, ErrLost) {
		return true // it has changed meanwhile
	}
	if err != nil {
		g.Log.Error("cannot write what the chain says of a payment", "error", err)
		return false
	}
	g.quota.stale()
	g.Ended(end)
	return true
}

// slots bound how much is done at once.
type slots struct {
	mu    sync.Mutex
	taken int
}

// take takes all that are free and returns how many.
func (s *slots) take() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	free := reconcileBatch - s.taken
	s.taken = reconcileBatch
	return free
}

func (s *slots) give(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken -= n
}

func (g *Gate) prune(ctx context.Context) {
	if err := g.Ledger.Prune(ctx, g.Now().Add(-g.KeepAnswers)); err != nil && ctx.Err() == nil {
		g.Log.Error("cannot prune the ledger", "error", err)
	}
}
