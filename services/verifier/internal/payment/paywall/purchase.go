package paywall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// Order is one call that a buyer pays for.
type Order struct {
	Offer   payment.Offer
	Payment payment.Payment
	// Request is the digest of what is asked: the same for every spelling of it.
	Request payment.Digest
	// Address is the client's, for the limit of unpaid attempts.
	Address string
	// Work makes the answer, the same bytes for the same request. It may run
	// although the caller has gone, and must not change anything.
	Work func(ctx context.Context) ([]byte, error)

	// misfit is what keeps the payment from the offer's terms of today.
	misfit error
}

// Sale is a paid answer.
type Sale struct {
	Answer []byte
	// Transaction is the hash of the transfer.
	Transaction string
	// again tells that an earlier call had paid.
	again bool
}

// Buy sells one answer for one payment. Copies of a call get the same sale. An
// error is one of this package's or the work's own; none of them was charged,
// and after ErrPending the same payment gets its answer as soon as the truth is
// known.
func (w *Paywall) Buy(ctx context.Context, o Order) (Sale, error) {
	o.Payment, o.misfit = o.Offer.Judge(o.Payment)
	if o.misfit != nil {
		known, err := w.knows(ctx, o.Payment)
		if !known {
			return Sale{}, w.Refuse(ctx, cmp.Or(err, o.misfit))
		}
	}
	key := flightKey{o.Payment.Key, o.Payment.Digest, o.Request}
	f, err := w.flights.join(ctx, key, func(ctx context.Context, f *flight) (Sale, error) {
		sale, err := w.process(ctx, f, o)
		w.Ended(outcomeOf(sale, err))
		return sale, err
	})
	if err != nil {
		return Sale{}, err
	}
	defer f.leave()
	patience := time.NewTimer(w.Answer)
	defer patience.Stop()
	select {
	case <-f.done:
		return f.sale, f.err
	case <-patience.C:
		return Sale{}, payment.ErrInFlight
	case <-ctx.Done():
		return Sale{}, ctx.Err()
	}
}

// knows tells whether a payment came before, perhaps when the terms were others.
func (w *Paywall) knows(ctx context.Context, p payment.Payment) (bool, error) {
	r, err := w.Ledger.Get(ctx, p.Key)
	if errors.Is(err, payment.ErrNotFound) {
		return false, nil
	}
	return err == nil && r.Payment == p.Digest, ledgerFault(err)
}

// Refuse gives the answer to a payment that cannot be read or judged good: err,
// unless nothing can be sold now.
func (w *Paywall) Refuse(ctx context.Context, err error) error {
	if closed := w.CheckQuota(ctx); closed != nil {
		err = closed
	}
	w.Ended(outcomeOf(Sale{}, err))
	return err
}

// call is one run of an order: what is known of its signature, and the attempts
// it has taken.
type call struct {
	Order
	// plain tells that the payer's own key signed the authorization, which is
	// known here without asking anybody. Any other signature is the
	// facilitator's to judge: it may be a contract's, or broken.
	plain bool
	// checked tells that the facilitator has said yes, worked that work was begun.
	checked, worked bool
	// client stands for the address in the ledger.
	client string

	refundAddress, refundPayer func()
}

// process takes a payment that fits the offer from the ledger's word on.
func (w *Paywall) process(ctx context.Context, f *flight, o Order) (Sale, error) {
	c := &call{Order: o, plain: o.misfit == nil && o.Offer.Terms.SignedByPayer(o.Payment), client: w.client(o.Address)}
	sale, err := w.claimOrResume(ctx, f, c)
	if c.isFree(sale, err) {
		c.refund()
	}
	return sale, err
}

// isFree reports whether the end of a call gives its attempts back: it paid, the
// fault is ours, or the facilitator was away before anything was worked for. An
// answer that was paid by an earlier call is not free: where it cost nothing, no
// attempt was taken.
func (c *call) isFree(sale Sale, err error) bool {
	switch {
	case err == nil:
		return !sale.again
	case errors.Is(err, payment.ErrLimit), errors.Is(err, payment.ErrLedger):
		return true
	}
	return errors.Is(err, payment.ErrFacilitator) && !errors.Is(err, payment.ErrNoVerdict) && !c.worked
}

// claimOrResume claims the payment and sells, or goes on where an earlier copy
// left it. Waiting for a copy elsewhere ends with the flight's patience.
func (w *Paywall) claimOrResume(ctx context.Context, f *flight, c *call) (Sale, error) {
	if err := w.retryPending(ctx, c.Payment.Key); err != nil {
		return Sale{}, err
	}
	patience := time.NewTimer(w.Answer)
	defer patience.Stop()
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		record, won, err := w.claim(ctx, c)
		switch {
		case err != nil:
			return Sale{}, err
		case record.Key != c.Payment.Key:
			return w.again(ctx, f, c, record)
		case won:
			return w.sell(ctx, f, c, record)
		case record.Payment != c.Payment.Digest || record.Request != c.Request:
			return Sale{}, payment.ErrUsed
		case record.State != payment.Working && record.State != payment.Settling:
			return w.comeBack(ctx, f, c, record)
		}
		select {
		case <-time.After(pause):
		case <-patience.C:
			return Sale{}, payment.ErrInFlight
		case <-ctx.Done():
			return Sale{}, ctx.Err()
		}
	}
}

// claim gives the record of a payment that has come before, or that has bought
// with the same identifier, or claims one that may begin now. A payment that is not plain is checked by the facilitator
// before it is claimed, so that a copy with a broken signature neither keeps the
// good one out nor makes anybody work.
func (w *Paywall) claim(ctx context.Context, c *call) (payment.Record, bool, error) {
	p := c.Payment
	if c.plain {
		if first, found, err := w.bought(ctx, c); found || err != nil {
			return first, false, err
		}
	} else {
		if r, err := w.Ledger.Get(ctx, p.Key); !errors.Is(err, payment.ErrNotFound) {
			return r, false, ledgerFault(err)
		}
	}
	if err := w.admit(ctx, c); err != nil {
		r, getErr := w.Ledger.Get(ctx, p.Key)
		if errors.Is(getErr, payment.ErrNotFound) {
			return payment.Record{}, false, err
		}
		return r, false, ledgerFault(getErr)
	}
	if !c.plain && !c.checked {
		if err := w.check(ctx, c); err != nil {
			return payment.Record{}, false, err
		}
		if first, found, err := w.bought(ctx, c); found || err != nil {
			return first, false, err
		}
	}
	r, won, err := w.Ledger.Claim(ctx, payment.Record{
		Key: p.Key, Owner: w.owner, Deadline: w.Now().Add(max(w.WorkTimeout, w.VerifyTimeout) + time.Minute),
		Payment: p.Digest, Request: c.Request, Identifier: p.Identifier, Resource: c.Offer.Resource.URL,
		Amount: c.Offer.Terms.Amount, PayTo: c.Offer.Terms.PayTo, ValidBefore: p.ValidBefore(), Client: c.client,
	})
	if won {
		w.At(Claimed)
	} else if !c.checked {
		c.refund() // it cost a look into the ledger
	}
	return r, won, ledgerFault(err)
}

// bought gives the record that the payment's identifier has bought with, if there
// is one. The identifier is the payer's word, so it counts only with a payment
// that is theirs for certain and good by its window.
func (w *Paywall) bought(ctx context.Context, c *call) (r payment.Record, found bool, err error) {
	if c.Payment.Identifier == "" || c.Offer.JudgeWindow(c.Payment, w.Now(), payment.SettleMargin) != nil {
		return payment.Record{}, false, nil
	}
	r, err = w.Ledger.Bought(ctx, c.Payment.Key.Payer, c.Payment.Identifier)
	if errors.Is(err, payment.ErrNotFound) {
		return payment.Record{}, false, nil
	}
	return r, err == nil && r.Key != c.Payment.Key, ledgerFault(err)
}

// admit says whether a sale may begin now: the window of the authorization is
// open, the month has a settlement left, not too many have failed, and the address
// has an attempt left.
func (w *Paywall) admit(ctx context.Context, c *call) error {
	if c.misfit != nil {
		return c.misfit
	}
	if err := c.Offer.JudgeWindow(c.Payment, w.Now(), payment.WorkMargin); err != nil {
		return err
	}
	if err := w.CheckQuota(ctx); err != nil {
		return err
	}
	if err := w.failing(ctx, c); err != nil {
		return err
	}
	return w.spendAddress(c)
}

// check asks the facilitator about a payment before anything else is done for
// it. After its yes it is certain that the payer made the attempt.
func (w *Paywall) check(ctx context.Context, c *call) error {
	request, err := c.Offer.FacilitatorRequest(c.Payment)
	if err != nil {
		return err
	}
	if err := w.verifyStranger(ctx, c, request); err != nil {
		return err
	}
	c.checked = true
	return w.spendPayer(c)
}

// ledgerTimeout bounds a write that must not be left out because a caller went.
const ledgerTimeout = 15 * time.Second

// sell works for a claimed payment and settles last.
func (w *Paywall) sell(ctx context.Context, f *flight, c *call, r payment.Record) (Sale, error) {
	request, err := c.Offer.FacilitatorRequest(c.Payment)
	if err != nil {
		w.release(ctx, r)
		return Sale{}, err
	}
	answer, err := w.work(ctx, c, request)
	if err != nil {
		w.release(ctx, r)
		return Sale{}, err
	}
	w.At(Worked)
	return w.settle(ctx, f, c, r, request, answer)
}

// work makes the answer for a payment that is the payer's for certain: after the
// facilitator's yes, or beside its check where the payer's own key signed and there
// is room for that.
func (w *Paywall) work(ctx context.Context, c *call, request []byte) (answer []byte, err error) {
	if err := w.spendPayer(c); err != nil {
		return nil, err
	}
	if !c.checked {
		beside, done, err := w.mayWorkBeside(ctx, c)
		if err != nil {
			return nil, err
		}
		defer done()
		if beside {
			c.worked = true
			return w.workAndVerify(ctx, c.Order, request)
		}
		if err := w.verify(ctx, c.Order, request); err != nil {
			return nil, err
		}
	}
	c.worked = true
	working, done := context.WithTimeout(ctx, w.WorkTimeout)
	defer done()
	if c.plain {
		answer, err = work(working, c.Order)
	} else {
		answer, err = w.workForStranger(working, c)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return answer, err
}

// workAndVerify does the work beside the facilitator's check. A payment that is
// not good outweighs work that failed: what the work finds is for who can pay.
func (w *Paywall) workAndVerify(ctx context.Context, o Order, request []byte) (answer []byte, err error) {
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	var beside sync.WaitGroup
	var workErr error
	beside.Go(func() {
		working, done := context.WithTimeout(both, w.WorkTimeout)
		defer done()
		answer, workErr = work(working, o)
	})
	verifyErr := w.verify(both, o, request)
	if verifyErr != nil {
		cancel()
	}
	beside.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if verifyErr != nil {
		return nil, verifyErr
	}
	return answer, workErr
}

// work runs the order's work; a panic is an error of it.
func work(ctx context.Context, o Order) (answer []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			answer, err = nil, panicError(p)
		}
	}()
	return o.Work(ctx)
}

func (w *Paywall) verify(ctx context.Context, o Order, call []byte) error {
	ctx, cancel := context.WithTimeout(ctx, w.VerifyTimeout)
	defer cancel()
	answer, err := w.Facilitator.Verify(ctx, call)
	checked := payment.CheckVerified(answer, err, o.Payment)
	if errors.Is(checked, payment.ErrLimit) {
		return &payment.PausedError{After: w.quota.pause(w.Now(), err)}
	}
	return checked
}

// settle reserves a settlement, writes that money may move from here on, and
// asks the facilitator.
func (w *Paywall) settle(ctx context.Context, f *flight, c *call, r payment.Record, request, answer []byte) (Sale, error) {
	s := payment.Settlement{Request: c.Request, Answer: answer, Limit: w.FreeSettlements}
	if !c.plain {
		s.Kept = w.kept()
	}
	duplicate, err := w.reserve(ctx, f, c, r, &s)
	if err != nil || duplicate != nil {
		w.release(ctx, r)
	}
	switch {
	case err != nil:
		return Sale{}, err
	case duplicate != nil && duplicate.Request != c.Request:
		return Sale{}, payment.ErrIdentifier
	case duplicate != nil:
		return w.resume(context.WithoutCancel(ctx), f, c.Order, *duplicate)
	}
	w.reserved(s.Month)
	w.At(Begun)
	r.State, r.Answer, r.Month = payment.Settling, s.Answer, s.Month
	sale, err := w.askToSettle(context.WithoutCancel(ctx), r, request)
	w.room.ended(r.Key.Payer, r.Client)
	return sale, err
}

// reserve begins the settlement as soon as there is room for it, or gives the
// record that its identifier has bought with. While it waits nothing has begun,
// and it ends with those who wait for it.
func (w *Paywall) reserve(ctx context.Context, f *flight, c *call, r payment.Record, s *payment.Settlement) (*payment.Record, error) {
	waiting, cancel := context.WithTimeout(ctx, w.Answer)
	defer cancel()
	for {
		now := w.Now()
		if err := c.Offer.JudgeWindow(c.Payment, now, payment.SettleMargin); err != nil {
			return nil, err
		}
		s.Month, s.Caps, s.Deadline = payment.Month(now), w.caps(), now.Add(2*w.SettleTimeout+time.Minute)
		if !f.pin() {
			return nil, ctx.Err()
		}
		seen := w.room.seen()
		duplicate, err := w.begin(context.WithoutCancel(ctx), r, *s)
		if errors.Is(err, payment.ErrCrowded) {
			f.unpin()
			if err := w.room.wait(waiting, seen, r.Key.Payer, r.Client); err != nil {
				return nil, err
			}
			continue
		}
		w.room.looked(err, r.Key.Payer, r.Client)
		if err != nil || duplicate != nil {
			w.quota.stale()
		}
		switch {
		case errors.Is(err, payment.ErrLost):
			return nil, payment.ErrInFlight
		case errors.Is(err, payment.ErrFailing):
			return nil, w.failingError()
		case errors.Is(err, payment.ErrLimit):
			return nil, payment.ErrLimit
		}
		return duplicate, ledgerFault(err)
	}
}

func (w *Paywall) begin(ctx context.Context, r payment.Record, s payment.Settlement) (*payment.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	return w.Ledger.Begin(ctx, r.Key, w.owner, s)
}

// askToSettle has a begun settlement carried out and ends it in the ledger. An
// outcome that is open is looked up on the chain; if that does not know either,
// it is asked for once more, with the same bytes, and looked up again.
func (w *Paywall) askToSettle(ctx context.Context, r payment.Record, call []byte) (Sale, error) {
	said, err := w.ask(ctx, r, call)
	w.At(Asked)
	outcome := w.confirmOutcome(ctx, said, r)
	if outcome.State == payment.Unknown && said.State == payment.Unknown && !errors.Is(err, payment.ErrFacilitatorLimit) {
		time.Sleep(max(w.Pause, pauseOf(err)))
		outcome = w.askAgain(ctx, said, &r, call)
	}
	return w.finish(ctx, r, outcome)
}

// ask asks the facilitator to settle. It returns what that means, and why there was
// no answer, if there was none; a facilitator at its limit is left alone from here on.
func (w *Paywall) ask(ctx context.Context, r payment.Record, call []byte) (payment.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, w.SettleTimeout)
	defer cancel()
	answer, err := w.Facilitator.Settle(ctx, call)
	if errors.Is(err, payment.ErrFacilitatorLimit) {
		w.quota.pause(w.Now(), err)
	}
	outcome := payment.CheckSettled(answer, err, r)
	if outcome.State == payment.Unknown {
		w.Log.Warn("the facilitator left a settlement open", "reason", outcome.Reason, "transaction", outcome.Transaction, "error", err)
	}
	return outcome, err
}

// believe gives what counts of what the facilitator said.
func (w *Paywall) confirmOutcome(ctx context.Context, said payment.Outcome, r payment.Record) payment.Outcome {
	switch {
	case said.State != payment.Settled:
		return w.reconcileWithChain(ctx, said, r)
	case w.Confirm:
		return w.confirm(ctx, said, r)
	}
	return said
}

// confirm waits until the chain says what the facilitator said. Its nodes may be
// a few blocks behind; what they do not say in time stays open.
func (w *Paywall) confirm(ctx context.Context, o payment.Outcome, r payment.Record) payment.Outcome {
	ctx, cancel := context.WithTimeout(ctx, w.SettleTimeout)
	defer cancel()
	claimed := payment.Outcome{State: payment.Unknown, Transaction: o.Transaction, Reason: payment.ReasonUnconfirmed}
	for pause := w.Pause; ; pause = min(2*pause, 8*w.Pause) {
		if o = w.reconcileWithChain(ctx, claimed, r); o.State != payment.Unknown {
			return o
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return claimed
		}
	}
}

// finish writes an outcome and gives what the buyer gets for it. What cannot be
// written now is owed; after a crash it is found again, because the record reads
// as unknown when its owner is gone.
func (w *Paywall) finish(ctx context.Context, r payment.Record, o payment.Outcome) (Sale, error) {
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	o.Durable = w.ChainLog == nil
	written, err := w.Ledger.Finish(ctx, r.Key, o)
	if o.State != payment.Settled || r.State != payment.Settling || o.Echo {
		w.quota.stale() // the reservation may have been given back, or made anew
	}
	if err != nil {
		w.Log.Error("cannot write how a settlement ended", "state", o.State, "transaction", o.Transaction, "error", err)
		o.Echo = false // it may have been written all the same, and counts once
		w.deferWrite(r.Key, pendingWrite{until: w.Now().Add(2 * w.SettleTimeout), write: func(ctx context.Context) error {
			if _, err := w.Ledger.Finish(ctx, r.Key, o); !errors.Is(err, payment.ErrNotFound) {
				return err
			}
			return nil
		}})
		written = o
	}
	r.State, r.Transaction, r.Reason = written.State, written.Transaction, written.Reason
	w.At(Finished)
	return w.sale(r)
}

// sale is what the buyer gets for a record whose settling has ended.
func (w *Paywall) sale(r payment.Record) (Sale, error) {
	switch r.State {
	case payment.Settled:
		return Sale{Answer: r.Answer, Transaction: r.Transaction}, nil
	case payment.Dead:
		return Sale{}, &payment.Refusal{Of: payment.ErrNotSettled, Reason: r.Reason, Transaction: r.Transaction}
	default:
		pending := &payment.PendingError{Transaction: r.Transaction}
		if w.mayRepeat(r) {
			pending.After = max(0, r.Changed.Add(askPause).Sub(w.Now()))
		}
		return Sale{}, pending
	}
}

// outcomeOf names how a call ended, for counting.
func outcomeOf(sale Sale, err error) string {
	if sale.again {
		return "repeated"
	}
	for _, known := range []struct {
		err  error
		name string
	}{
		{nil, "paid"},
		{payment.ErrInvalid, "invalid"},
		{payment.ErrRefused, "refused"},
		{payment.ErrNotSettled, "not_settled"},
		{payment.ErrUsed, "used"},
		{payment.ErrIdentifier, "used"},
		{payment.ErrInFlight, "in_flight"},
		{payment.ErrPending, "pending"},
		{payment.ErrFacilitator, "facilitator"},
		{payment.ErrLimit, "limit"},
		{payment.ErrLedger, "ledger"},
		{payment.ErrTooMany, "too_many"},
		{payment.ErrFailing, "too_many_failed"},
		{context.Canceled, "abandoned"},
	} {
		if errors.Is(err, known.err) {
			return known.name
		}
	}
	return "work_failed"
}

func ledgerFault(err error) error {
	if err == nil {
		return nil
	}
	return errors.Join(payment.ErrLedger, err)
}

func panicError(p any) error { return fmt.Errorf("panic: %v\n%s", p, debug.Stack()) }
