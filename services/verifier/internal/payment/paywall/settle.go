package paywall

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pforte/pforte/pkg/periodic"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// carryOut has a begun settlement carried out and ends it in the ledger. An open
// outcome is looked up on the chain; if it stays open, the facilitator is called once
// more with the same bytes, and the chain after it.
func (w *Paywall) carryOut(ctx context.Context, c *call, r payment.Record) (Sale, error) {
	result, err := w.requestSettlement(ctx, c, r)
	w.At(Asked)
	outcome := w.confirmOutcome(ctx, result, r)
	if outcome.State == payment.Unknown && result.State == payment.Unknown && !errors.Is(err,
		payment.ErrFacilitatorLimit) {
		time.Sleep(max(w.Pause, retryAfter(err)))
		outcome = w.retrySettlement(ctx, c, result, &r)
	}
	return w.finish(ctx, r, outcome)
}

// requestSettlement calls the facilitator to settle. It returns what the answer means, and
// why there was none. A facilitator at its own limit is not called again for a while.
func (w *Paywall) requestSettlement(ctx context.Context, c *call, r payment.Record) (payment.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, w.SettleTimeout)
	defer cancel()
	answer, err := w.facilitatorOf(c).Settle(ctx, c.request)
	if errors.Is(err, payment.ErrFacilitatorLimit) {
		w.quota.pause(w.Now(), err)
	}
	outcome := payment.CheckSettled(answer, err, r)
	if outcome.State == payment.Unknown {
		w.Log.Warn("settle: the facilitator left the outcome open", "reason", outcome.Reason, "transaction",
			outcome.Transaction, "error", err)
	}
	return outcome, err
}

// secondLook is after how many Pauses the chain is looked at again, which may have been some
// blocks behind.
const secondLook = 4

// confirmOutcome returns what counts of the facilitator's answer. Where settlements
// are confirmed, a yes is open until the chain shows the transfer; nodes may be some
// blocks behind, so it waits for them.
func (w *Paywall) confirmOutcome(ctx context.Context, result payment.Outcome, r payment.Record) payment.Outcome {
	if result.State != payment.Settled {
		outcome := w.reconcileWithChain(ctx, result, r)
		if w.ChainLog != nil && outcome.State == payment.Dead && outcome.Unsent && outcome.Reason == result.Reason {
			// The facilitator's word alone, and the buyer is about to be told to pay anew.
			time.Sleep(secondLook * w.Pause)
			outcome = w.reconcileWithChain(ctx, result, r)
		}
		return outcome
	}
	if !w.Confirm {
		return result
	}
	ctx, cancel := context.WithTimeout(ctx, w.SettleTimeout)
	defer cancel()
	open := payment.Outcome{State: payment.Unknown, Transaction: result.Transaction, Reason: payment.ReasonUnconfirmed}
	for pause := w.Pause; ; pause = min(2*pause, 8*w.Pause) {
		if outcome := w.reconcileWithChain(ctx, open, r); outcome.State != payment.Unknown {
			return outcome
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return open
		}
	}
}

// finish writes an outcome and returns what the buyer gets for it. A write that
// fails is deferred; after a crash the record is found again, because it reads as
// unknown when its owner is gone.
func (w *Paywall) finish(ctx context.Context, r payment.Record, o payment.Outcome) (Sale, error) {
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	o.Durable = w.ChainLog == nil
	verdict := payment.Verdict(o)
	written, err := w.Ledger.Apply(ctx, r.Key, verdict)
	if o.State != payment.Settled || r.State != payment.Settling || o.Echo {
		w.quota.stale() // the reservation may have been given back, or made anew
	}
	if err != nil {
		w.Log.Error("cannot write how a settlement ended", "state", o.State, "transaction", o.Transaction, "error", err)
		verdict.Outcome.Echo = false // it may have been written all the same, and counts once
		w.deferWrite(r.Key, pendingWrite{
			until: w.Now().Add(2 * w.SettleTimeout),
			write: func(ctx context.Context) error {
				if _, err := w.Ledger.Apply(ctx, r.Key, verdict); !errors.Is(err, payment.ErrNotFound) {
					return err
				}
				return nil
			},
		})
		written = o
	}
	r.State, r.Transaction, r.Reason = written.State, written.Transaction, written.Reason
	w.At(Finished)
	sale, err := w.answer(r)
	return sale, withUnspent(err, o)
}

// withUnspent adds to a refusal what the chain showed.
func withUnspent(err error, o payment.Outcome) error {
	var refusal *payment.Refusal
	if errors.As(err, &refusal) && o.Unspent {
		refusal.Unspent = true
	}
	return err
}

// answer returns what the buyer gets for a record whose settling has ended.
func (w *Paywall) answer(r payment.Record) (Sale, error) {
	switch r.State {
	case payment.Settled:
		return Sale{Answer: r.Answer, Transaction: r.Transaction}, nil
	case payment.Dead:
		if r.Reason == payment.ReasonOtherCopy {
			return Sale{}, payment.ErrUsed
		}
		return Sale{}, &payment.Refusal{
			Of: payment.ErrNotSettled, Reason: r.Reason, Transaction: r.Transaction,
			Unspent: r.Reason == payment.ReasonExpired,
		}
	default:
		pending := &payment.PendingError{Transaction: r.Transaction}
		if w.mayRetry(r) {
			pending.After = max(0, r.Changed.Add(retryPause).Sub(w.Now()))
		}
		return Sale{}, pending
	}
}

const (
	// maxRetries bounds how often the facilitator is called again for one payment,
	// and retryPause is the time between two such calls of its buyer.
	maxRetries = 5
	retryPause = 5 * time.Second
)

// mayRetry reports whether a settlement may be requested again at all: the
// authorization is still good, and it was not requested too often.
func (w *Paywall) mayRetry(r payment.Record) bool {
	return r.Retries < maxRetries && r.ValidBefore.After(w.Now().Add(payment.SettleMargin))
}

// retrySettlement requests a settlement once more whose outcome, open, is not known.
// It may cause one more transaction, so it reserves one more settlement; where that
// cannot be had, the outcome stays as it is. Payers who have never paid get none of
// those that are kept, whatever the signature: to leave an outcome open costs nothing.
func (w *Paywall) retrySettlement(
	ctx context.Context, c *call, open payment.Outcome, r *payment.Record,
) payment.Outcome {
	if !w.mayRetry(*r) {
		return open
	}
	again := payment.Event{
		Kind: payment.EventRetry, Month: payment.Month(w.Now()),
		Retry: payment.Retry{Retries: r.Retries, Limit: w.FreeSettlements, Kept: w.kept()},
	}
	writing, done := context.WithTimeout(ctx, ledgerTimeout)
	_, err := w.Ledger.Apply(writing, r.Key, again)
	done()
	if err != nil {
		w.Log.Warn("settlement is not retried", "error", err)
		return open
	}
	w.countReserved(again.Month)
	r.Retries++
	r.Changed = w.Now()
	result, _ := w.requestSettlement(ctx, c, *r) // the outcome holds what the error means
	known := cmp.Or(open.Transaction, r.Transaction)
	echo := result.Echo && (result.Transaction == "" || result.Transaction == known)
	outcome := w.confirmOutcome(ctx, mergeRetry(open, result), *r)
	outcome.Echo = echo
	return outcome
}

// mergeRetry returns what the answer to a retried settling means: a yes is a yes,
// but a no may be the echo of the first one's success.
func mergeRetry(first, again payment.Outcome) payment.Outcome {
	if again.State == payment.Settled {
		return again
	}
	first.Transaction = cmp.Or(first.Transaction, again.Transaction)
	return first
}

// chainLogTimeout bounds one lookup on the chain.
const chainLogTimeout = 10 * time.Second

var errNoChainLog = errors.New("no node of the payment network is configured")

// lookUp returns what became, on the chain, of a payment's authorization.
func (w *Paywall) lookUp(ctx context.Context, r payment.Record) (payment.Authorization, error) {
	if w.ChainLog == nil {
		return payment.Authorization{}, errNoChainLog
	}
	ctx, cancel := context.WithTimeout(ctx, chainLogTimeout)
	defer cancel()
	return w.ChainLog.Authorization(ctx, r)
}

// reconcileWithChain returns the outcome o as the chain corrects it.
func (w *Paywall) reconcileWithChain(ctx context.Context, o payment.Outcome, r payment.Record) payment.Outcome {
	r.Transaction = cmp.Or(o.Transaction, r.Transaction)
	found, err := w.lookUp(ctx, r)
	if err != nil {
		if w.ChainLog != nil {
			w.Log.Warn("cannot read the payment network", "error", err)
		}
		return o
	}
	return payment.OnChain(o, r, found)
}

// Intervals and bounds of the background work.
const (
	reconcileEvery = 5 * time.Second
	// maxReconciling is how many payments are looked up at once.
	maxReconciling = 20
	// nextLookup is when a payment that could not be decided is looked up again.
	nextLookup = 30 * time.Second
	pruneEvery = time.Hour
	checkEvery = time.Minute
	// checkBatch is how many payments that have ended are checked in one pass.
	checkBatch = 100
	// checkAfter is the age at which a payment that has ended is checked once more:
	// by then its block is final on every network that payments are made on.
	checkAfter = time.Hour
	// checkWithin bounds how long a payment of which the chain shows nothing delays
	// those after it.
	checkWithin = 24 * time.Hour
)

// Run reconciles, retries, checks and prunes until ctx ends. Lookups that take long
// do not delay the next round.
func (w *Paywall) Run(ctx context.Context) {
	pruned, checked := time.Time{}, time.Time{}
	var looking sync.WaitGroup
	defer looking.Wait()
	periodic.Run(ctx, reconcileEvery, func() {
		looking.Go(func() { w.Reconcile(ctx) })
		w.retryAllPending(ctx)
		now := w.Now()
		if now.Sub(checked) >= checkEvery {
			checked = now
			looking.Go(func() { w.Check(ctx) })
		}
		if now.Sub(pruned) >= pruneEvery {
			pruned = now
			looking.Go(func() {
				if err := w.Ledger.Prune(ctx, now.Add(-w.KeepAnswers)); err != nil && ctx.Err() == nil {
					w.Log.Error("cannot prune the ledger", "error", err)
				}
			})
		}
	})
}

// Reconcile looks up payments whose outcome is open, those that are due for longest
// first, as many at once as maxReconciling, until none is due. It only looks: no buyer
// waits for these, so none is charged by it.
func (w *Paywall) Reconcile(ctx context.Context) {
	if w.ChainLog == nil || !w.distributing.TryLock() {
		return
	}
	var all sync.WaitGroup
	for w.reconciling.Acquire(ctx, 1) == nil {
		due, err := w.Ledger.Due(ctx, w.Now().Add(nextLookup))
		if err != nil {
			w.reconciling.Release(1)
			if !errors.Is(err, payment.ErrNotFound) && ctx.Err() == nil {
				w.Log.Error("cannot list open payments", "error", err)
			}
			break
		}
		all.Go(func() {
			defer w.reconciling.Release(1)
			w.lookUpOpen(ctx, due)
		})
	}
	w.distributing.Unlock()
	all.Wait()
}

// Check compares payments that have ended with the chain once more, in the order of
// their claims, when their blocks are final: one that was settled by a transfer that
// the chain has lost since is open again, and one that was paid after it had ended is
// settled. When the chain cannot be read, it is read again a minute later, for up to a
// day; those that are older then are given up, and logged together.
func (w *Paywall) Check(ctx context.Context) {
	var unread int
	var from, to time.Time
	var fault error
	defer func() {
		if unread > 0 {
			w.Log.Error("cannot compare payments with the chain", "payments", unread, "claimed_from", from,
				"claimed_to", to, "error", fault)
		}
	}()
	for more := w.ChainLog != nil; more && ctx.Err() == nil; {
		now := w.Now()
		ended, err := w.Ledger.Ended(ctx, now.Add(-checkAfter), checkBatch,
			now.Add(checkEvery+checkBatch*chainLogTimeout))
		if err != nil {
			w.Log.Error("cannot list the payments that have ended", "error", err)
			return
		}
		if len(ended) == 0 {
			return
		}
		upTo := ended[len(ended)-1].Claimed
		more = len(ended) >= checkBatch
		for _, r := range ended {
			done, err := w.checkOne(ctx, r)
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
		if err := w.Ledger.Checked(context.WithoutCancel(ctx), upTo); err != nil {
			w.Log.Error("cannot remember which payments were checked", "error", err)
			return
		}
	}
}

// checkOne reports whether a payment that has ended needs no further check. The error is
// of the chain, for one that is given up because the chain cannot be read.
func (w *Paywall) checkOne(ctx context.Context, r payment.Record) (done bool, unread error) {
	if r.IsFinallyDead() {
		return true, nil
	}
	found, err := w.lookUp(ctx, r)
	early := w.Now().Sub(r.Claimed) < checkAfter+checkWithin
	switch {
	case ctx.Err() != nil:
		return false, nil
	case err != nil && early:
		w.Log.Warn("cannot read the payment network", "error", err)
		return false, nil
	case err != nil:
		return true, err
	case r.State == payment.Settled && found.Status == payment.Unused && early:
		return false, nil // the authorization has ended by now, so it is the node that is behind
	}
	return w.reconcile(ctx, r, found) == nil, nil
}

// lookUpOpen looks up an open payment, and writes what became of it.
func (w *Paywall) lookUpOpen(ctx context.Context, r payment.Record) {
	found, err := w.lookUp(ctx, r)
	if err != nil {
		w.Log.Warn("cannot read the payment network", "error", err)
	} else if ctx.Err() == nil {
		_ = w.reconcile(ctx, r, found) // it is due again
	}
}

// reconcile writes what the chain shows of a payment for which no call waits, where it shows
// something else than the record.
func (w *Paywall) reconcile(ctx context.Context, r payment.Record, found payment.Authorization) error {
	e, changes := payment.Seen(r, found)
	if !changes {
		return nil
	}
	e.By = payment.ByService
	ended, err := w.Ledger.Apply(ctx, r.Key, e)
	switch {
	case errors.Is(err, payment.ErrLost), err == nil && ended.State == r.State:
		return nil // it has changed meanwhile, or the money is another copy's
	case err != nil:
		w.Log.Error("cannot record the status of a payment from the chain", "error", err)
		return err
	}
	w.quota.stale()
	end := "reconciled_" + string(ended.State)
	if e.Kind == payment.EventLost {
		end = "reopened"
		w.Log.Error("the chain has lost a transfer", "payer", r.Key.Payer, "nonce", r.Key.Nonce, "transaction",
			r.Transaction)
	} else {
		w.Log.Info("the chain has decided a payment", "state", ended.State, "reason", ended.Reason,
			"payer", r.Key.Payer, "transaction", ended.Transaction)
	}
	w.Ended(End{Operation: r.Operation, Transport: r.Transport, Outcome: end})
	return nil
}

// What failed to be written.

// release removes the claim, so that the payment may be used again. A write that
// fails is deferred.
func (w *Paywall) release(ctx context.Context, r payment.Record) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ledgerTimeout)
	defer cancel()
	write := func(ctx context.Context) error {
		_, err := w.Ledger.Apply(ctx, r.Key,
			payment.Event{Kind: payment.EventRelease, Claim: payment.Record{Owner: w.owner}})
		return err
	}
	if err := write(ctx); err != nil {
		w.Log.Error("cannot release a claim", "error", err)
		w.deferWrite(r.Key, pendingWrite{until: r.Deadline, write: write})
	}
}

// maxPending bounds the writes that are remembered while the ledger cannot be written.
const maxPending = 10_000

// pendingWrites are ends of sales that could not be written: the ledger's disk was
// full, or it was away. The records look as if this process still worked on them, and
// would block their buyers until the deadline.
type pendingWrites struct {
	mu  sync.Mutex
	all map[payment.Key]pendingWrite
}

// pendingWrite is one write. After until any process may take the record over, and
// it is not written any more.
type pendingWrite struct {
	until time.Time
	write func(context.Context) error
}

// deferWrite remembers a write that has failed.
func (w *Paywall) deferWrite(key payment.Key, p pendingWrite) {
	w.pending.mu.Lock()
	defer w.pending.mu.Unlock()
	if len(w.pending.all) < maxPending {
		w.pending.all[key] = p
	}
}

// retryPending makes the pending write of a payment, if there is one, before anything
// else is done for it.
func (w *Paywall) retryPending(ctx context.Context, key payment.Key) error {
	w.pending.mu.Lock()
	p, found := w.pending.all[key]
	delete(w.pending.all, key)
	w.pending.mu.Unlock()
	if !found || !w.Now().Before(p.until) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ledgerTimeout)
	defer cancel()
	if err := p.write(ctx); err != nil {
		w.deferWrite(key, p)
		return ledgerFault(err)
	}
	return nil
}

// retryAllPending makes the pending writes of payments whose buyers do not return,
// until one fails.
func (w *Paywall) retryAllPending(ctx context.Context) {
	w.pending.mu.Lock()
	keys := slices.Collect(maps.Keys(w.pending.all))
	w.pending.mu.Unlock()
	for _, key := range keys {
		if ctx.Err() != nil || w.retryPending(ctx, key) != nil {
			return
		}
	}
}
