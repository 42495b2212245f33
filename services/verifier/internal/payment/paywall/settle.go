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

// carryOut has a begun settlement carried out and ends it in the ledger. If the facilitator leaves
// the outcome open and the chain does not decide it, retrySettlement follows, unless the facilitator
// is at its own limit.
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

// requestSettlement calls the facilitator to settle. It returns the outcome that the answer means,
// and an error if there was no usable one. A facilitator at its own limit closes sales for a
// while.
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

// secondLook is after how many Pauses the chain is looked at a second time, because nodes may have
// been some blocks behind.
const secondLook = 4

// confirmOutcome returns the outcome that follows from the facilitator's answer and the chain.
// Where settlements are confirmed, a yes is open until the chain shows the transfer; nodes may be
// some blocks behind, so it waits for them, up to SettleTimeout.
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
	o.Durable = !w.Confirm // what the facilitator alone says may be on no chain
	verdict := payment.Verdict(o)
	verdict.Retry.Retries = r.Retries
	written, err := w.Ledger.Apply(ctx, r.Key, verdict)
	if o.State != payment.Settled || r.State != payment.Settling || o.Echo {
		w.quota.stale() // the reservation may have been given back, or made anew
	}
	if err != nil {
		w.Log.Error("cannot write how a settlement ended", "state", o.State, "transaction", o.Transaction, "error", err)
		verdict.Outcome.Echo = false // it may have been written all the same, and counts once
		until := w.Now().Add(2 * w.SettleTimeout)
		if o.State == payment.Settled && o.Durable { // nothing else knows it, and it holds whatever came since
			until = time.Time{}
		}
		w.deferWrite(r.Key, pendingWrite{
			until: until,
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

// withUnspent returns err, with Unspent set if it is a refusal and o is Unspent.
func withUnspent(err error, o payment.Outcome) error {
	var refusal *payment.Refusal
	if errors.As(err, &refusal) && o.Unspent {
		refusal.Unspent = true
	}
	return err
}

// answer returns what the buyer gets for a record; one that is neither Settled nor Dead is
// pending.
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
	// maxRetries bounds how often the facilitator is called again for one payment, and retryPause
	// is how long the record must not have changed before its buyer has it called again.
	maxRetries = 5
	retryPause = 5 * time.Second
)

// mayRetry reports whether a settlement may be requested again at all: the
// authorization is still good, and it was not requested too often.
func (w *Paywall) mayRetry(r payment.Record) bool {
	return r.Retries < maxRetries && r.ValidBefore.After(w.Now().Add(payment.SettleMargin))
}

// retrySettlement requests a settlement again whose outcome, open, is not known, and returns the
// outcome then. The retry may cause one more transaction, so it reserves one more settlement and
// is counted in r. The outcome stays open where mayRetry forbids a retry, where the ledger does not write it
// (none is left for this payer, for example), and while the facilitator is at its own limit. Payers who have
// never paid get none of the settlements that are kept for known payers, however they sign, because leaving
// an outcome open costs them nothing.
func (w *Paywall) retrySettlement(
	ctx context.Context, c *call, open payment.Outcome, r *payment.Record,
) payment.Outcome {
	if !w.mayRetry(*r) || w.quota.paused(w.Now()) > 0 {
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

const chainLogTimeout = 10 * time.Second

var errNoChainLog = errors.New("no node of the payment network is configured")

// lookUp returns what became, on the chain, of a payment's authorization. If log is nil
// it returns errNoChainLog.
func lookUp(ctx context.Context, log payment.ChainLog, r payment.Record) (payment.Authorization, error) {
	if log == nil {
		return payment.Authorization{}, errNoChainLog
	}
	ctx, cancel := context.WithTimeout(ctx, chainLogTimeout)
	defer cancel()
	return log.Authorization(ctx, r)
}

// reconcileWithChain returns the outcome o as the chain corrects it, or as it is where the chain
// cannot be read.
func (w *Paywall) reconcileWithChain(ctx context.Context, o payment.Outcome, r payment.Record) payment.Outcome {
	r.Transaction = cmp.Or(o.Transaction, r.Transaction)
	found, err := lookUp(ctx, w.ChainLog, r)
	if err != nil {
		if w.ChainLog != nil {
			w.Log.Warn("cannot read the payment network", "error", err)
		}
		return o
	}
	return payment.OnChain(o, r, found)
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

const (
	// maxPending bounds the writes that are remembered while the ledger cannot be written.
	maxPending   = 10_000
	pendingEvery = 5 * time.Second
)

// pendingWrites are ends of sales that could not be written: the ledger's disk was full, or it was
// away. Their records may look as if this process still worked on them, and then would block their
// buyers until the deadline.
type pendingWrites struct {
	mu  sync.Mutex
	all map[payment.Key]pendingWrite
}

// pendingWrite is one write. After until, unless that is zero, it is not written any more: another
// process may take the record over.
type pendingWrite struct {
	until time.Time
	write func(context.Context) error
}

// deferWrite remembers a write that has failed, if fewer than maxPending are remembered.
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
	if !found || !p.until.IsZero() && !w.Now().Before(p.until) {
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

// Run makes pending writes, also of payments whose buyers do not return, until ctx ends.
func (w *Paywall) Run(ctx context.Context) {
	periodic.Run(ctx, pendingEvery, func() { w.retryAllPending(ctx) })
}

// retryAllPending makes the pending writes, until one fails.
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
