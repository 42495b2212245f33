package paywall

import (
	"cmp"
	"context"
	"errors"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/pforte/pforte/pkg/flight"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// resumeEarlier is for a payment whose identifier was used by an earlier one: it resumes the
// earlier payment, or returns ErrIdentifier if that is for another request.
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
	if w.ReuseWindow == 0 || c.Payment.Identifier != "" || c.mismatch != nil {
		return payment.Record{}, false, nil
	}
	r, err = w.Ledger.Earlier(ctx, payment.Asked{
		Payer: c.Payment.Key.Payer, Request: c.Request, Since: w.Now().Add(-w.ReuseWindow), Plain: c.plain,
	})
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
		err = w.reuse(ctx, c, r, false)
	}
	if err == nil && !c.checked {
		err = w.check(ctx, c)
	}
	switch {
	case c.plain && r.State != payment.Settled && errors.Is(err, payment.ErrRefused):
		// The payer has signed this, and their money may have gone into the first payment: no
		// challenge while that is open.
		return payment.Record{}, false, &payment.PendingError{Transaction: r.Transaction}
	case err != nil:
		return payment.Record{}, false, err
	}
	c.reuse = true
	return r, true, nil
}

// reuse returns ErrTooMany when the payer has got the answers of earlier payments too often today.
// An answer that is owed to them (payment.Owe) they get all the same. If counts is set, it writes
// that they get r's.
func (w *Paywall) reuse(ctx context.Context, c *call, r payment.Record, counts bool) error {
	countedBy := r.Key
	if r.Plain { // a copy that is not plain and asks for it counts apart from the payer, and is owed nothing
		countedBy.Payer = c.spender()
	}
	may, err := w.Ledger.Reuse(ctx, countedBy, payment.Day(w.Now()), w.ReusesPerPayer, counts)
	switch {
	case err != nil:
		return ledgerFault(err)
	case !may:
		return w.untilTomorrow(payment.ErrTooMany)
	}
	return nil
}

// resumeForBuyer returns what a buyer gets by now for a payment that the ledger has. It takes
// attempts unless the answer is there.
func (w *Paywall) resumeForBuyer(ctx context.Context, c *call, r payment.Record) (Sale, error) {
	if r.State != payment.Settled || r.Answer.IsZero() {
		if _, err := w.recognize(ctx, c); err != nil {
			return Sale{}, err
		}
		questions := 1
		if r.State == payment.Settled { // the answer is made anew
			questions = c.Questions
		}
		if err := w.spendAddress(c, questions); err != nil {
			return Sale{}, err
		}
	}
	sale, err := w.resume(ctx, c, r)
	if err != nil || !c.reuse || r.Key == c.Payment.Key { // this one may have been sold while an earlier one was open
		return sale, err
	}
	// Only what is served counts: while the outcome is open, attempts are what is bounded.
	if c.Fits != nil && !c.Fits(sale.Answer) {
		return Sale{}, payment.ErrInFlight
	}
	if err := w.reuse(ctx, c, r, true); err != nil {
		return Sale{}, err
	}
	sale.Reused = true
	return sale, nil
}

// Times between two lookups on the chain for a buyer whose payment is dead, and for one whose
// payment is open although its authorization has ended: that is not settled again, and the
// reconciler looks it up too.
const (
	deadLookupPause = time.Minute
	openLookupPause = 10 * time.Second
)

// resume returns what a buyer gets by now for a payment, after a lookup on the chain where
// that may show more than the record.
func (w *Paywall) resume(ctx context.Context, c *call, r payment.Record) (sale Sale, err error) {
	switch r.State {
	case payment.Settled:
		sale = Sale{Answer: r.Answer, Transaction: r.Transaction, replay: true}
	case payment.Dead:
		sale, err = w.resumeDead(ctx, r)
	case payment.Unknown:
		sale, err = w.resumeUnknown(ctx, c, r)
	default:
		return Sale{}, payment.ErrInFlight
	}
	if err != nil || !sale.Answer.IsZero() {
		return sale, err
	}
	// It was paid, and its answer was pruned or, when it was dead, forgotten: it is made anew.
	made, err := w.work(ctx, c)
	if err != nil {
		return Sale{}, err
	}
	if sale.Answer, err = w.Ledger.Anew(ctx, r.Key, made); err != nil {
		return Sale{}, ledgerFault(err)
	}
	sale.replay = true
	return sale, nil
}

// resumeDead looks a dead payment up on the chain, unless it is finally dead or was looked up
// within deadLookupPause: the facilitator refused it, or its transaction failed, but an observer
// may have carried it out since, and then it is paid.
func (w *Paywall) resumeDead(ctx context.Context, r payment.Record) (Sale, error) {
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
	return w.finish(context.WithoutCancel(ctx), r, outcome)
}

// resumeUnknown finds out how a settlement ended whose outcome is open, for a buyer who wants the
// answer. Where the chain does not tell, the facilitator is called to settle the same payment
// again, though not at once and not without end, and only while the authorization is good and the
// payment matches the terms.
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
	early := changed >= 0 && changed < retryPause // a negative one is from a clock that was ahead
	mayCall := r.Key == c.Payment.Key && c.mismatch == nil && w.mayRetry(r) && !early
	if !mayCall || !flight.Pin(ctx) {
		return w.answer(r)
	}
	ctx = context.WithoutCancel(ctx)
	retries := r.Retries
	outcome = w.retrySettlement(ctx, c, open, &r)
	if r.Retries == retries {
		return w.answer(r)
	}
	return w.finish(ctx, r, outcome)
}

// takeOver serves the holder of a plain copy although the record of the authorization is of a copy
// that is not plain: the money was theirs. They get the answer to their own question, once the
// chain shows that what it costs has moved: a payer whose account has code may have signed the copy
// for less.
func (w *Paywall) takeOver(ctx context.Context, c *call, held payment.Record) (Sale, error) {
	if err := w.spendAddress(c, c.Questions); err != nil {
		return Sale{}, err
	}
	held.Amount, held.PayTo = c.Offer.Terms.Amount, c.Offer.Terms.PayTo
	if own := c.Payment.ValidBefore(); own.After(held.ValidBefore) {
		held.ValidBefore = own
	}
	found, err := lookUp(ctx, w.ChainLog, held)
	switch {
	case w.ChainLog == nil && held.State == payment.Settled: // the facilitator's word is all there is
		return Sale{}, payment.ErrUsed
	case err == nil && found.Status == payment.UsedElsewhere:
		return Sale{}, payment.ErrUsed
	case err == nil && found.Status == payment.Expired && held.State == payment.Settled && !w.Confirm:
		return Sale{}, payment.ErrUsed // by the facilitator's word, whose transfers may be on no chain
	case err == nil && found.Status == payment.Expired:
		return Sale{}, &payment.Refusal{Of: payment.ErrNotSettled, Reason: payment.ReasonExpired, Unspent: true}
	case err != nil || found.Status != payment.PaidToUs:
		return Sale{}, &payment.PendingError{Transaction: held.Transaction}
	}
	return w.serveFound(ctx, c, w.record(c), found.Transaction)
}

// mayHavePaid reports whether the chain must be asked before the buyer is told err, and returns
// err as a refusal. With a ChainLog that is so for a plain payment that was refused, or whose
// window JudgeWindow refuses: another may have carried it out, or the ledger, restored from a
// backup, has forgotten it. The holder of a copy that is not plain may be anyone: then it is not so.
func (w *Paywall) mayHavePaid(c *call, err error) (refusal *payment.Refusal, may bool) {
	if w.ChainLog == nil || !c.plain || !errors.As(err, &refusal) {
		return nil, false
	}
	return refusal, payment.IsOfWindow(err) || errors.Is(err, payment.ErrRefused)
}

// findPaid serves the holder of a payment that was refused, where the chain shows that it
// has paid us. Where that cannot be known there is no new challenge. A payment that was not sent to
// the facilitator, and that the network shows as unused, is not searched for; and strangers share
// what they may search.
func (w *Paywall) findPaid(ctx context.Context, c *call, refused *payment.Refusal) (Sale, error) {
	if !c.hasPaid { // they are not known, or the payment was refused before that was looked up
		if _, err := w.recognize(ctx, c); err != nil {
			return Sale{}, err
		}
	}
	if err := w.spendAddress(c, c.Questions); err != nil {
		return Sale{}, err
	}
	looking, shared := w.looking, w.budgetsOf(c)
	if shared != nil {
		looking = shared.looking
	}
	if !c.sent {
		var looked *payment.Refusal
		if err := w.checkAccount(ctx, c); err != nil && !errors.As(err, &looked) {
			return Sale{}, err
		}
		if c.account != nil && !c.account.Used && w.isUnspent(ctx, c, looking) {
			refused.Unspent = true
			return Sale{}, refused
		}
	}
	if shared != nil {
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

// isUnspent reports whether as many nodes as Accounts.Spent needs show the authorization as unused.
// The one node that was asked about the account may err, and a buyer who is told that nothing was
// charged pays anew.
func (w *Paywall) isUnspent(ctx context.Context, c *call, places *semaphore.Weighted) bool {
	waiting, cancel := context.WithTimeout(ctx, accountTimeout)
	defer cancel()
	if places.Acquire(waiting, 1) != nil {
		return false
	}
	defer places.Release(1)
	spent, err := w.Accounts.Spent(waiting, c.Payment.Key)
	if err != nil {
		w.Log.Warn("cannot read an authorization in the payment network", "error", err)
	}
	return err == nil && !spent
}

// lookUpOneOfMany is lookUp for payments that are in no record, of which few are looked up
// at once.
func (w *Paywall) lookUpOneOfMany(
	ctx context.Context, r payment.Record, places *semaphore.Weighted,
) (payment.Authorization, error) {
	waiting, cancel := context.WithTimeout(ctx, chainLogTimeout)
	defer cancel()
	if err := places.Acquire(waiting, 1); err != nil {
		return payment.Authorization{}, err
	}
	defer places.Release(1)
	return lookUp(waiting, w.ChainLog, r)
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
