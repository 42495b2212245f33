package payment

import (
	"context"
	"time"
)

// Intervals of the upkeep.
const (
	reconcileEvery = 5 * time.Second
	reconcileBatch = 20
	// nextLook is when a payment that could not be decided is looked at again.
	nextLook   = 30 * time.Second
	pruneEvery = time.Hour
)

// Run finishes what nobody comes back for, and prunes, until ctx ends.
func (g *Gate) Run(ctx context.Context) {
	pruned := time.Time{}
	every(ctx, reconcileEvery, func() {
		g.repayAll(ctx)
		g.Reconcile(ctx)
		if now := g.Now(); now.Sub(pruned) >= pruneEvery {
			pruned = now
			g.prune(ctx)
		}
	})
}

// Reconcile looks once for the truth of payments whose outcome is open. It only
// looks: nobody waits for these, so nobody is charged by it.
func (g *Gate) Reconcile(ctx context.Context) {
	if g.Truth == nil {
		return
	}
	due, err := g.Ledger.Due(ctx, reconcileBatch, g.Now().Add(nextLook))
	if err != nil {
		g.Log.Error("cannot list open payments", "error", err)
		return
	}
	for _, r := range due {
		if ctx.Err() != nil {
			return
		}
		outcome := g.truthOver(ctx, Outcome{State: Unknown}, r)
		if outcome.State == Unknown {
			continue
		}
		if _, err := g.Ledger.Finish(ctx, r.Key, outcome); err != nil {
			g.Log.Error("cannot write what the chain says of a payment", "error", err)
			continue
		}
		g.quota.stale()
		g.Ended("reconciled_" + string(outcome.State))
		g.Log.Info("the chain has decided an open payment", "state", outcome.State, "reason", outcome.Reason,
			"payer", r.Key.Payer, "transaction", outcome.Transaction)
	}
}

func (g *Gate) prune(ctx context.Context) {
	if err := g.Ledger.Prune(ctx, g.Now().Add(-g.KeepAnswers)); err != nil && ctx.Err() == nil {
		g.Log.Error("cannot prune the ledger", "error", err)
	}
}
