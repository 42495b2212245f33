package paywall

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/pforte/pforte/pkg/periodic"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// ReconcilerOptions configure a Reconciler. All members are required unless noted otherwise.
type ReconcilerOptions struct {
	Ledger payment.Upkeep
	// ChainLog may be nil: then nothing is reconciled or checked.
	ChainLog payment.ChainLog
	// Confirm is as in Options. Without it a Settled payment stands on the facilitator's word, and is not checked.
	Confirm bool
	// KeepAnswers is for how long after its claim the answer of a settled payment is kept, at
	// least; when it is gone, it is made anew for a buyer who returns.
	KeepAnswers time.Duration
	Log         *slog.Logger
	Now         func() time.Time
	// Ended may be nil. It is called with each payment whose state the reconciler changes.
	Ended func(End)
}

// Reconciler compares payments that are open or have ended with the chain, and prunes the
// ledger. It sells nothing and calls no facilitator, so it charges no buyer. Those of all
// replicas share the work through the ledger.
type Reconciler struct {
	ReconcilerOptions
	looking *semaphore.Weighted
	// distributing is held while open payments are given out to be looked up.
	distributing sync.Mutex
}

// NewReconciler returns a reconciler, which does nothing by itself before Run.
func NewReconciler(o ReconcilerOptions) *Reconciler {
	if o.Ended == nil {
		o.Ended = func(End) {}
	}
	return &Reconciler{ReconcilerOptions: o, looking: semaphore.NewWeighted(maxReconciling)}
}

// Intervals and bounds.
const (
	reconcileEvery = 5 * time.Second
	// maxReconciling is how many open payments are looked up at once.
	maxReconciling = 20
	// nextLookup is after how long a payment that could not be decided is looked up again.
	nextLookup = 30 * time.Second
	pruneEvery = time.Hour
	checkEvery = time.Minute
	// checkBatch is how many payments that have ended are taken at once to be checked.
	checkBatch = 100
	// checkAfter is how long after its claim a payment that has ended is checked once more, and a
	// Dead one how long after the end of its authorization: by then its block should be final.
	checkAfter = time.Hour
	// checkWithin bounds how long a payment that the chain does not show, that cannot be looked up,
	// or a Dead one whose authorization ends late, delays those after it.
	checkWithin = 24 * time.Hour
)

// Run reconciles, checks and prunes until ctx ends. Lookups that take long do not delay the
// next round.
func (k *Reconciler) Run(ctx context.Context) {
	pruned, checked := time.Time{}, time.Time{}
	var looking sync.WaitGroup
	defer looking.Wait()
	periodic.Run(ctx, reconcileEvery, func() {
		looking.Go(func() { k.Reconcile(ctx) })
		now := k.Now()
		if now.Sub(checked) >= checkEvery {
			checked = now
			looking.Go(func() { k.Check(ctx) })
		}
		if now.Sub(pruned) >= pruneEvery {
			pruned = now
			looking.Go(func() {
				if err := k.Ledger.Prune(ctx, now.Add(-k.KeepAnswers)); err != nil && ctx.Err() == nil {
					k.Log.Error("cannot prune the ledger", "error", err)
				}
			})
		}
	})
}

// Reconcile looks up payments whose outcome is open, those that are due for longest first, at most
// maxReconciling at once, until none is due. It does nothing while another call gives them out.
func (k *Reconciler) Reconcile(ctx context.Context) {
	if k.ChainLog == nil || !k.distributing.TryLock() {
		return
	}
	var all sync.WaitGroup
	for k.looking.Acquire(ctx, 1) == nil {
		due, err := k.Ledger.Due(ctx, k.Now().Add(nextLookup))
		if err != nil {
			k.looking.Release(1)
			if !errors.Is(err, payment.ErrNotFound) && ctx.Err() == nil {
				k.Log.Error("cannot list open payments", "error", err)
			}
			break
		}
		all.Go(func() {
			defer k.looking.Release(1)
			k.lookUpOpen(ctx, due)
		})
	}
	k.distributing.Unlock()
	all.Wait()
}

// Check compares payments that have ended, and have not expired unused, with the chain once more, in
// the order of their claims, from checkAfter on: one that was settled by a transfer that the chain
// has lost since is open again, and one that was paid after it had ended is settled. When the chain
// cannot be read, it is read again a minute later, for up to a day; those that are older then are
// given up, and logged together.
func (k *Reconciler) Check(ctx context.Context) {
	var unread int
	var from, to time.Time
	var fault error
	defer func() {
		if unread > 0 {
			k.Log.Error("cannot compare payments with the chain", "payments", unread, "claimed_from", from,
				"claimed_to", to, "error", fault)
		}
	}()
	for more := k.ChainLog != nil; more && ctx.Err() == nil; {
		now := k.Now()
		ended, err := k.Ledger.Ended(ctx, now.Add(-checkAfter), checkBatch,
			now.Add(checkEvery+checkBatch*chainLogTimeout))
		if err != nil {
			k.Log.Error("cannot list the payments that have ended", "error", err)
			return
		}
		if len(ended) == 0 {
			return
		}
		upTo := ended[len(ended)-1].Claimed
		more = len(ended) >= checkBatch
		for _, r := range ended {
			done, err := k.checkOne(ctx, r)
			if !done {
				upTo = r.Claimed.Add(-time.Millisecond) // it comes again, with those of the same moment
				more = false
				break
			}
			if err != nil {
				if unread++; unread == 1 {
					from = r.Claimed
				}
				to, fault = r.Claimed, err
			}
		}
		if err := k.Ledger.Checked(context.WithoutCancel(ctx), upTo); err != nil {
			k.Log.Error("cannot remember which payments were checked", "error", err)
			return
		}
	}
}

// checkOne reports whether a payment that has ended needs no further check. The error is
// of the chain, for one that is given up because the chain cannot be read.
func (k *Reconciler) checkOne(ctx context.Context, r payment.Record) (done bool, unread error) {
	if r.State == payment.Dead && r.Reason == payment.ReasonExpired || r.State == payment.Settled && !k.Confirm {
		return true, nil
	}
	early := k.Now().Sub(r.Claimed) < checkAfter+checkWithin
	if early && r.State == payment.Dead && k.Now().Before(r.ValidBefore.Add(checkAfter)) {
		return false, nil // it may have been carried out up to its end
	}
	found, err := lookUp(ctx, k.ChainLog, r)
	switch {
	case ctx.Err() != nil:
		return false, nil
	case errors.Is(err, payment.ErrOtherNetwork):
		return true, err
	case err != nil && early:
		k.Log.Warn("cannot read the payment network", "error", err)
		return false, nil
	case err != nil:
		return true, err
	case (found.Status == payment.Unused || found.Status == payment.Reverted) && early:
		return false, nil // the authorization has ended by now, so it is the node that is behind
	}
	return k.reconcile(ctx, r, found) == nil, nil
}

// lookUpOpen looks up an open payment, and writes what became of it.
func (k *Reconciler) lookUpOpen(ctx context.Context, r payment.Record) {
	found, err := lookUp(ctx, k.ChainLog, r)
	if err != nil {
		k.Log.Warn("cannot read the payment network", "error", err)
	} else if ctx.Err() == nil {
		_ = k.reconcile(ctx, r, found) // it is due again
	}
}

// reconcile writes what the chain shows of a payment, where that changes its state.
func (k *Reconciler) reconcile(ctx context.Context, r payment.Record, found payment.Authorization) error {
	e, changes := payment.Seen(r, found)
	if !changes {
		return nil
	}
	e.By = payment.ByService
	ended, err := k.Ledger.Apply(ctx, r.Key, e)
	switch {
	case errors.Is(err, payment.ErrLost), err == nil && ended.State == r.State:
		return nil // it has changed meanwhile, or the money is another copy's
	case err != nil:
		k.Log.Error("cannot record the status of a payment from the chain", "error", err)
		return err
	}
	end := "reconciled_" + string(ended.State)
	if e.Kind == payment.EventLost {
		end = "reopened"
		k.Log.Error("the chain has lost a transfer", "payer", r.Key.Payer, "nonce", r.Key.Nonce, "transaction",
			r.Transaction)
	} else {
		k.Log.Info("the chain has decided a payment", "state", ended.State, "reason", ended.Reason,
			"payer", r.Key.Payer, "transaction", ended.Transaction)
	}
	k.Ended(End{Operation: r.Operation, Transport: r.Transport, Outcome: end})
	return nil
}
