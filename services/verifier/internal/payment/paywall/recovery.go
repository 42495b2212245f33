package paywall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/pforte/pforte/pkg/flight"
	"github.com/pforte/pforte/pkg/periodic"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// First part: a buyer returns with a payment.

// resumeEarlier is for a payment whose identifier was used by an earlier one: it resumes the
// earlier payment.
func (w *Paywall) resumeEarlier(ctx context.Context, c *call, earlier payment.Record) (Sale, error) {
	if earlier.Request != c.Request {
		return Sale{}, payment.ErrIdentifier
	}
	return w.resumeForBuyer(ctx, c, earlier)
}

// earlier returns the record with which the payer has bought, or is buying, the answer
// to the same question within the window, if there is one: they get its answer, and this
// payment is not spent. Anyone can name an address, so the facilitator verifies this
// payment first. An explicit identifier decides by itself what is the same.
func (w *Paywall) earlier(ctx context.Context, c *call) (r payment.Record, found bool, err error) {
	if w.ReuseWindow == 0 || c.Payment.Identifier != "" || c.misfit != nil {
		return payment.Record{}, false, nil
	}
	payer := c.Payment.Key.Payer
	r, err = w.Ledger.Earlier(ctx, payer, c.Request, w.Now().Add(-w.ReuseWindow), c.plain)
	if errors.Is(err, payment.ErrNotFound) || err == nil && r.Key == c.Payment.Key {
		return payment.Record{}, false, nil
	}
	if err != nil {
		return payment.Record{}, false, ledgerFault(err)
	}
	if _, err := w.Ledger.Get(ctx, c.Payment.Key); !errors.Is(err, payment.ErrNotFound) {
		return payment.Record{}, false, ledgerFault(err) // it is known itself
	}
	if c.reuse {
		return r, true, nil
	}
	err = w.admit(ctx, c)
	if err == nil && r.State == payment.Settled {
		err = w.mayReuse(ctx, c, r)
	}
	if err == nil && !c.checked {
		err = w.check(ctx, c)
	}
	switch {
	case c.plain && r.State != payment.Settled && errors.Is(err, payment.ErrRefused):
		// It is the payer, and their money may have gone into the first: no
		// challenge while that is open.
		return payment.Record{}, false, &payment.PendingError{Transaction: r.Transaction}
	case err != nil:
		return payment.Record{}, false, err
	}
	c.reuse = true
	return r, true, nil
}

// mayReuse returns ErrTooMany when the payer has got the answers of earlier payments too
// often today. An answer that no call has got yet is theirs all the same.
func (w *Paywall) mayReuse(ctx context.Context, c *call, r payment.Record) error {
	times, owed, err := w.Ledger.AskedAgain(ctx, c.countedBy(r), payment.Day(w.Now()))
	if err != nil {
		return ledgerFault(err)
	}
	if times >= w.ReusesPerPayer && !owed {
		return w.untilTomorrow(payment.ErrTooMany)
	}
	return nil
}

// countedBy returns the key by which it is counted that r's answer is reused. What the
// payer's key has bought and a copy that is not plain asks for counts apart from the payer.
func (c *call) countedBy(r payment.Record) payment.Key {
	key := r.Key
	if r.Plain {
		key.Payer = c.spender()
	}
	return key
}

// resumeForBuyer returns what a buyer's payment is worth by now. Only an answer that
// is there costs no attempt.
func (w *Paywall) resumeForBuyer(ctx context.Context, c *call, r payment.Record) (Sale, error) {
	if r.State != payment.Settled || r.Answer.IsZero() {
		if _, err := w.recognize(ctx, c); err != nil {
			return Sale{}, err
		}
		if err := w.spendAddress(c); err != nil {
			return Sale{}, err
		}
	}
	sale, err := w.resume(ctx, c, r)
	if err != nil || !c.reuse {
		return sale, err
	}
	// Only what is served counts: while the outcome is open, attempts are what is bounded.
	counted, err := w.Ledger.CountAskedAgain(ctx, c.countedBy(r), payment.Day(w.Now()), w.ReusesPerPayer)
	switch {
	case err != nil:
		return Sale{}, ledgerFault(err)
	case !counted:
		return Sale{}, w.untilTomorrow(payment.ErrTooMany)
	}
	sale.Reused = true
	return sale, nil
}

// Times between two lookups on the chain for a payment that is dead, and for one that
// is open although its authorization has ended: nothing new is made for that, and the
// service reconciles it too.
const (
	deadLookupPause = time.Minute
	openLookupPause = 10 * time.Second
)

// resume returns what a payment is worth by now, after a lookup on the chain where
// that may know more than the record.
func (w *Paywall) resume(ctx context.Context, c *call, r payment.Record) (Sale, error) {
	switch r.State {
	case payment.Settled:
	case payment.Dead:
		// The facilitator refused, or its transaction failed. An observer may have
		// carried it out since, and then it is paid.
		if w.ChainLog == nil || r.IsFinallyDead() {
			return w.answer(r)
		}
		if may, err := w.Ledger.Look(ctx, r.Key, w.Now().Add(-deadLookupPause)); err != nil {
			return Sale{}, ledgerFault(err)
		} else if !may {
			return w.answer(r)
		}
		outcome := w.reconcileWithChain(ctx, payment.Outcome{State: payment.Dead}, r)
		if outcome.State != payment.Settled {
			sale, err := w.answer(r)
			return sale, withUnspent(err, outcome)
		}
		if sale, err := w.finish(context.WithoutCancel(ctx), r, outcome); err != nil {
			return sale, err
		}
		r.Key, r.State, r.Transaction = r.Key.Bare(), payment.Settled, outcome.Transaction
	case payment.Unknown:
		return w.resumeUnknown(ctx, c, r)
	default:
		return Sale{}, payment.ErrInFlight
	}
	if r.Answer.IsZero() { // pruned: it was paid, so it is made anew
		made, err := w.work(ctx, c)
		if err != nil {
			return Sale{}, err
		}
		if r.Answer, err = w.Ledger.Anew(ctx, r.Key, made); err != nil {
			return Sale{}, ledgerFault(err)
		}
	}
	sale, err := w.answer(r)
	sale.replay = err == nil
	return sale, err
}

// resumeUnknown finds out how a settlement ended whose outcome is open, for a buyer
// who wants the answer. As long as the authorization can be spent, settling it again
// is what they request, though not at once and not without end; the facilitator gets
// the same request as before, unless the terms have changed since.
func (w *Paywall) resumeUnknown(ctx context.Context, c *call, r payment.Record) (Sale, error) {
	open := payment.Outcome{State: payment.Unknown, Transaction: r.Transaction, Reason: r.Reason}
	if w.Now().After(r.ValidBefore) {
		may, err := w.Ledger.Look(ctx, r.Key, w.Now().Add(-openLookupPause))
		if err != nil { // it does not keep a buyer who paid from the answer
			w.Log.Error("cannot remember a lookup", "error", err)
		} else if !may {
			return w.answer(r)
		}
	}
	outcome := w.reconcileWithChain(ctx, open, r)
	if outcome.State != payment.Unknown {
		return w.finish(context.WithoutCancel(ctx), r, outcome)
	}
	changed := w.Now().Sub(r.Changed)
	early := changed >= 0 && changed < repeatPause // a negative one is from a clock that was ahead
	mayCall := r.Key == c.Payment.Key && c.misfit == nil && w.mayRepeat(r) && !early
	if !mayCall || !flight.Pin(ctx) {
		return w.answer(r)
	}
	ctx = context.WithoutCancel(ctx)
	repeats := r.Repeats
	outcome = w.repeatSettlement(ctx, c, open, &r)
	if r.Repeats == repeats {
		return w.answer(r)
	}
	return w.finish(ctx, r, outcome)
}

const (
	// maxRepeats bounds how often the facilitator is called again for one payment,
	// and repeatPause is the time between two such calls of its buyer.
	maxRepeats  = 5
	repeatPause = 5 * time.Second
)

// mayRepeat reports whether a settlement may be requested again at all: the
// authorization is still good, and it was not requested too often.
func (w *Paywall) mayRepeat(r payment.Record) bool {
	return r.Repeats < maxRepeats && r.ValidBefore.After(w.Now().Add(payment.SettleMargin))
}

// repeatSettlement has a settling carried out once more whose outcome, open, is not known.
// It may cause one more transaction, so it reserves one more settlement; where that
// cannot be had, the outcome stays as it is. Payers who have never paid get none of
// those that are kept, whatever the signature: to leave an outcome open costs nothing.
func (w *Paywall) repeatSettlement(ctx context.Context, c *call, open payment.Outcome, r *payment.Record) payment.Outcome {
	if !w.mayRepeat(*r) {
		return open
	}
	again := payment.Event{
		Kind: payment.EventRetry, Month: payment.Month(w.Now()),
		Retry: payment.Repeat{Repeats: r.Repeats, Limit: w.FreeSettlements, Kept: w.kept()},
	}
	writing, done := context.WithTimeout(ctx, ledgerTimeout)
	_, err := w.Ledger.Apply(writing, r.Key, again)
	done()
	if err != nil {
		w.Log.Warn("settlement is not repeated", "error", err)
		return open
	}
	w.countReserved(again.Month)
	r.Repeats++
	r.Changed = w.Now()
	result, _ := w.requestSettlement(ctx, c, *r) // the outcome holds what the error means
	known := cmp.Or(open.Transaction, r.Transaction)
	echo := result.Echo && (result.Transaction == "" || result.Transaction == known)
	outcome := w.confirmOutcome(ctx, mergeRetry(open, result), *r)
	outcome.Echo = echo
	return outcome
}

// mergeRetry returns what the answer to a repeated settling means: a yes is a yes,
// but a no may be the echo of the first one's success.
func mergeRetry(first, again payment.Outcome) payment.Outcome {
	if again.State == payment.Settled {
		return again
	}
	first.Transaction = cmp.Or(first.Transaction, again.Transaction)
	return first
}

// Second part: what the chain shows of a payment.

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
	return outcomeOnChain(o, r, found)
}

// outcomeOnChain returns the outcome o as what was found on the chain corrects it.
func outcomeOnChain(o payment.Outcome, r payment.Record, found payment.Authorization) payment.Outcome {
	o.Unspent = found.Status == payment.Unused || found.Status == payment.Reverted
	switch found.Status {
	case payment.PaidToUs:
		return payment.Outcome{State: payment.Settled, Transaction: found.Transaction}
	case payment.UsedElsewhere:
		return payment.Outcome{State: payment.Dead, Transaction: o.Transaction, Reason: payment.ReasonUsedElsewhere}
	case payment.Expired:
		return payment.Outcome{State: payment.Dead, Transaction: o.Transaction, Reason: payment.ReasonExpired, Unsent: true}
	case payment.Reverted:
		if r.Repeats == 0 { // else another transaction may have been made than the one that failed
			return payment.Outcome{State: payment.Dead, Transaction: o.Transaction, Reason: payment.ReasonReverted, Unspent: true}
		}
	}
	return o
}

// takeOver serves the holder of a plain copy although the record of the authorization is of
// a copy that is not: the money was theirs. They get the answer to their own question, once
// the chain shows that the money has moved.
func (w *Paywall) takeOver(ctx context.Context, c *call, held payment.Record) (Sale, error) {
	if err := w.spendAddress(c); err != nil {
		return Sale{}, err
	}
	found, err := w.lookUp(ctx, held)
	switch {
	case w.ChainLog == nil && held.State == payment.Settled: // the facilitator's word is all there is
		return Sale{}, payment.ErrUsed
	case err != nil || found.Status != payment.PaidToUs:
		return Sale{}, &payment.PendingError{Transaction: held.Transaction}
	}
	return w.serveFound(ctx, c, w.record(c), found.Transaction)
}

// mayHavePaid reports whether the chain must be asked before the buyer is told err: a payment
// that its payer signed was refused, or its window is not open by our clock, and another may have
// carried it out; or the ledger was restored and has forgotten it. Of a copy that is not plain,
// the holder is not known.
func (w *Paywall) mayHavePaid(c *call, err error) (refusal *payment.Refusal, may bool) {
	if w.ChainLog == nil || !c.plain || !errors.As(err, &refusal) {
		return nil, false
	}
	return refusal, payment.IsOfWindow(err) || errors.Is(err, payment.ErrRefused)
}

// findPaid serves the holder of a payment that was refused, where the chain shows that it
// has paid us. Where that cannot be known there is no new challenge. Only a payment that
// was sent to the facilitator, or that a first look shows as used, is searched for; and
// strangers share what they may search.
func (w *Paywall) findPaid(ctx context.Context, c *call, refused *payment.Refusal) (Sale, error) {
	if !c.hasPaid { // or it was refused before that was looked at
		if _, err := w.recognize(ctx, c); err != nil {
			return Sale{}, err
		}
	}
	if err := w.spendAddress(c); err != nil {
		return Sale{}, err
	}
	if !c.sent {
		var looked *payment.Refusal
		if err := w.checkAccount(ctx, c); err != nil && !errors.As(err, &looked) {
			return Sale{}, err
		}
		if c.account != nil && !c.account.Used {
			refused.Unspent = true
			return Sale{}, refused
		}
	}
	looking := w.looking
	if shared := w.budgetsOf(c); shared != nil {
		looking = shared.looking
		if err := w.spendShared(c, shared.accounts, w.accountsNear); err != nil {
			return Sale{}, err
		}
	}
	r := w.record(c)
	r.Claimed = c.Offer.Since(c.Payment, w.Now())
	found, err := w.lookUpOneOfMany(ctx, r, looking)
	used := payment.SaysUsed(refused.Reason)
	switch {
	case err != nil:
		w.Log.Warn("cannot read the payment network", "error", err)
		return Sale{}, &payment.PendingError{}
	case found.Status == payment.PaidToUs:
		return w.sellFound(ctx, c, found.Transaction)
	case found.Status == payment.UsedElsewhere:
		return Sale{}, refused
	case found.Status != payment.Expired && used: // our node is behind the one that has seen it
		return Sale{}, &payment.PendingError{}
	}
	refused.Unspent = true
	return Sale{}, refused
}

// lookUpOneOfMany is lookUp for payments that are in no record, of which few are looked up
// at once.
func (w *Paywall) lookUpOneOfMany(ctx context.Context, r payment.Record, places *semaphore.Weighted) (payment.Authorization, error) {
	waiting, cancel := context.WithTimeout(ctx, chainLogTimeout)
	defer cancel()
	if err := places.Acquire(waiting, 1); err != nil {
		return payment.Authorization{}, err
	}
	defer places.Release(1)
	return w.lookUp(waiting, r)
}

// sellFound claims a payment that the chain shows as paid, and sells.
func (w *Paywall) sellFound(ctx context.Context, c *call, transaction string) (Sale, error) {
	r, won, err := w.Ledger.Claim(ctx, w.record(c))
	switch {
	case err != nil:
		return Sale{}, ledgerFault(err)
	case won:
		w.At(Claimed)
		sale, err := w.serveFound(ctx, c, w.record(c), transaction)
		if err != nil {
			w.release(ctx, r)
		}
		return sale, err
	case !r.Plain:
		return w.serveFound(ctx, c, w.record(c), transaction)
	case r.Payment != c.Payment.Digest || r.Request != c.Request:
		return Sale{}, payment.ErrUsed
	}
	return w.resumeForBuyer(ctx, c, r)
}

// serveFound sells for money that has moved already. Where the work fails, nothing is
// written: the payment still buys one answer, of this question or of another.
func (w *Paywall) serveFound(ctx context.Context, c *call, r payment.Record, transaction string) (Sale, error) {
	answer, err := w.work(ctx, c)
	if err = cmp.Or(ctx.Err(), err); err != nil {
		return Sale{}, err
	}
	w.At(Worked)
	writing, done := context.WithTimeout(context.WithoutCancel(ctx), ledgerTimeout)
	defer done()
	sold, err := w.Ledger.Found(writing, r, answer, transaction)
	switch {
	case errors.Is(err, payment.ErrLost):
		return Sale{}, payment.ErrInFlight
	case errors.Is(err, payment.ErrUsed):
		return Sale{}, payment.ErrUsed
	case err != nil:
		return Sale{}, ledgerFault(err)
	}
	w.quota.stale()
	w.At(Finished)
	return Sale{Answer: sold, Transaction: transaction}, nil
}

// Third part: writes that failed.

// release removes the claim, so that the payment may be used again. A write that
// fails is deferred.
func (w *Paywall) release(ctx context.Context, r payment.Record) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ledgerTimeout)
	defer cancel()
	write := func(ctx context.Context) error {
		_, err := w.Ledger.Apply(ctx, r.Key, payment.Event{Kind: payment.EventRelease, Claim: payment.Record{Owner: w.owner}})
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

// Fourth part: what the service does by itself.

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
			w.reconcile(ctx, due)
		})
	}
	w.distributing.Unlock()
	all.Wait()
}

// reconcile ends an open payment as the chain shows.
func (w *Paywall) reconcile(ctx context.Context, r payment.Record) {
	outcome := w.reconcileWithChain(ctx, payment.Outcome{State: payment.Unknown}, r)
	if outcome.State == payment.Unknown || ctx.Err() != nil {
		return
	}
	outcome, err := w.Ledger.Apply(ctx, r.Key, payment.Event{Kind: payment.EventChain, By: payment.ByService, Outcome: outcome})
	if err != nil {
		w.Log.Error("cannot record the status of a payment from the chain", "error", err)
		return
	}
	w.quota.stale()
	w.Ended(End{Operation: r.Operation, Transport: r.Transport, Outcome: "reconciled_" + string(outcome.State)})
	w.Log.Info("the chain has decided an open payment", "state", outcome.State, "reason", outcome.Reason,
		"payer", r.Key.Payer, "transaction", outcome.Transaction)
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
			w.Log.Error("cannot compare payments with the chain", "payments", unread, "claimed_from", from, "claimed_to", to, "error", fault)
		}
	}()
	for more := w.ChainLog != nil; more && ctx.Err() == nil; {
		now := w.Now()
		ended, err := w.Ledger.Ended(ctx, now.Add(-checkAfter), checkBatch, now.Add(checkEvery+checkBatch*chainLogTimeout))
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
	switch {
	case ctx.Err() != nil:
		return false, nil
	case err != nil && w.Now().Sub(r.Claimed) < checkAfter+checkWithin:
		w.Log.Warn("cannot read the payment network", "error", err)
		return false, nil
	case err != nil:
		return true, err
	case r.State == payment.Settled && found.Status == payment.Unused && w.Now().Sub(r.Claimed) < checkAfter+checkWithin:
		return false, nil // the authorization has ended by now, so it is the node that is behind
	}
	var end string
	switch {
	case r.State == payment.Dead && found.Status == payment.PaidToUs:
		var ended payment.Outcome
		ended, err = w.Ledger.Apply(ctx, r.Key, payment.Event{
			Kind: payment.EventChain, By: payment.ByService, Outcome: payment.Outcome{State: payment.Settled, Transaction: found.Transaction},
		})
		if end = "reconciled_settled"; err == nil && ended.State != payment.Settled {
			return true, nil // the money is another copy's
		}
	case r.State == payment.Settled && found.Status != payment.PaidToUs:
		end = "reopened"
		w.Log.Error("the chain has lost a transfer", "payer", r.Key.Payer, "nonce", r.Key.Nonce, "transaction", r.Transaction)
		_, err = w.Ledger.Apply(ctx, r.Key, payment.Event{Kind: payment.EventLost, By: payment.ByService, Outcome: payment.Outcome{Reason: payment.ReasonVanished}})
	default:
		return true, nil
	}
	if errors.Is(err, payment.ErrLost) {
		return true, nil // it has changed meanwhile
	}
	if err != nil {
		w.Log.Error("cannot record the status of a payment from the chain", "error", err)
		return false, nil
	}
	w.quota.stale()
	w.Ended(End{Operation: r.Operation, Transport: r.Transport, Outcome: end})
	return true, nil
}

// Fifth part: an operator decides.

// ErrContradicted means that the chain, or the clock, contradicts a decision.
var ErrContradicted = errors.New("resolution is contradicted")

// contradiction returns ErrContradicted when what was found on the chain is not what an
// operator decided: that a payment is Settled by a transaction, or Dead.
func contradiction(decided payment.State, transaction string, found payment.Authorization) error {
	paid := found.Status == payment.PaidToUs
	switch {
	case paid && decided == payment.Dead:
		return fmt.Errorf("%w: it was paid by %s", ErrContradicted, found.Transaction)
	case !paid && decided == payment.Settled:
		return fmt.Errorf("%w: the chain shows no payment", ErrContradicted)
	case paid && found.Transaction != transaction:
		return fmt.Errorf("%w: it was paid by %s, not %s", ErrContradicted, found.Transaction, transaction)
	}
	return nil
}

// Books is what decisions and refunds of an operator need of the ledger.
type Books interface {
	// Apply and Refund write in one step; see package ledger.
	Apply(ctx context.Context, key payment.Key, e payment.Event) (payment.Outcome, error)
	Refund(ctx context.Context, key payment.Key, refund payment.Refund) error
}

// PaymentNetwork is payment.ChainLog, and reads transfers.
type PaymentNetwork interface {
	payment.ChainLog
	// Moved returns how much of a token a transaction has moved between two addresses.
	Moved(ctx context.Context, transaction, token, from, to string) (*big.Int, error)
}

// DecidableAfter is how long after the end of its authorization a payment may be decided
// to be dead: nodes may be behind, and clocks differ.
const DecidableAfter = 10 * time.Minute

// Look reads the status of a payment on the chain, and returns the outcome that follows from
// it; where nothing follows, the outcome's State is that of the record.
func Look(ctx context.Context, network PaymentNetwork, r payment.Record) (found payment.Authorization, o payment.Outcome, err error) {
	o = payment.Outcome{State: r.State, Transaction: r.Transaction, Reason: r.Reason}
	if found, err = network.Authorization(ctx, r); err != nil {
		return found, o, err
	}
	switch {
	case r.State == payment.Unknown, r.State == payment.Dead && found.Status == payment.PaidToUs:
		o = outcomeOnChain(o, r, found)
	}
	return found, o, nil
}

// Decide ends an Unknown payment as an operator decided. Settled is refused unless the
// chain shows the payment by o.Transaction; without a node (network is nil) unless it is
// unchecked. Dead is refused while the authorization may still be spent, and when the
// chain shows a payment; it never returns a settlement to the month, and a buyer who
// returns is looked up all the same. It returns what the chain showed. ErrUnderWay: a process
// works on the payment. ErrContradicted: it is refused. payment.ErrLost: it was decided
// meanwhile.
func Decide(ctx context.Context, books Books, network PaymentNetwork, now time.Time, r payment.Record, d payment.Decision, unchecked bool) (chain string, err error) {
	switch {
	case r.State == payment.Working, r.State == payment.Settling:
		return "", payment.ErrUnderWay
	case r.State != payment.Unknown:
		return "", fmt.Errorf("%w: the payment is %s", ErrContradicted, r.State)
	case d.To == payment.Dead && now.Before(r.ValidBefore.Add(DecidableAfter)):
		return "", fmt.Errorf("%w: it cannot be known to be dead before %s", ErrContradicted, r.ValidBefore.Add(DecidableAfter).Format(time.RFC3339))
	case network != nil && unchecked:
		return "", fmt.Errorf("%w: a node is configured, so nothing is decided unchecked", ErrContradicted)
	case network == nil && d.To == payment.Settled && !unchecked:
		return "", fmt.Errorf("%w: no node of the payment network is configured to check it by (PAYMENT_RPC_URL)", ErrContradicted)
	}
	chain = "not asked"
	if network != nil {
		found, lookErr := network.Authorization(ctx, r)
		switch {
		case lookErr == nil:
			if err := contradiction(d.To, d.Transaction, found); err != nil {
				return "", err
			}
			chain = "agrees"
		case d.To == payment.Settled:
			return "", fmt.Errorf("%w: %w", ErrContradicted, lookErr)
		default:
			chain = lookErr.Error()
		}
	}
	d.From = r.State
	o := payment.Outcome{State: d.To, Transaction: d.Transaction, Reason: payment.DecidedReason(d.Note)}
	_, err = books.Apply(ctx, r.Key, payment.Event{Kind: payment.EventDecision, By: payment.ByOperator, Outcome: o, Decision: d})
	return chain, err
}

// Refund books a refund of a Settled payment. Where there is a node, the transaction must
// show the transfer from the payee to the payer. payment.ErrTooMuch: it refunds more than
// was paid, or than was transferred.
func Refund(ctx context.Context, books Books, network PaymentNetwork, r payment.Record, refund payment.Refund) error {
	switch r.State {
	case payment.Settled:
	case payment.Working, payment.Settling:
		return payment.ErrUnderWay
	default:
		return fmt.Errorf("%w: the payment is %s", ErrContradicted, r.State)
	}
	if network != nil {
		moved, err := network.Moved(ctx, refund.Transaction, r.Key.Asset, r.PayTo, r.Key.Payer)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrContradicted, err)
		}
		if moved.Sign() == 0 {
			return fmt.Errorf("%w: %s moves nothing from %s to %s", ErrContradicted, refund.Transaction, r.PayTo, r.Key.Payer)
		}
		refund.Moved, refund.Proven = moved, true
	}
	return books.Refund(ctx, r.Key, refund)
}
