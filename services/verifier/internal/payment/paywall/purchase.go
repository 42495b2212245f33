package paywall

import (
	"cmp"
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/pforte/pforte/pkg/flight"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// Order is one call that a buyer pays for.
type Order struct {
	// Operation and Transport are what is sold and the protocol that brought the call,
	// as in payment.Record.
	Operation, Transport string
	Offer                payment.Offer
	Payment              payment.Payment
	// Request is the digest of the request: the same for every spelling of it.
	Request payment.Digest
	// Questions is how many questions the work answers, each of which counts as an attempt,
	// and AtOnce how many of them it answers at a time; zero means one.
	Questions, AtOnce int
	// Address is the client's, for the limits.
	Address string
	// Work makes the answer, the same bytes for the same request. It may run
	// although the caller has gone, and must not change anything.
	Work func(ctx context.Context) ([]byte, error)
	// Fits may be nil. It reports whether there is place for an answer. One without a place is not counted as reused.
	Fits func(payment.Answer) bool

	// mismatch is how the payment differs from the current terms of the offer.
	mismatch error
}

// Sale is a paid answer.
type Sale struct {
	Answer payment.Answer
	// Transaction is the hash of the transfer.
	Transaction string
	// Reused reports that an earlier payment of the payer has bought the answer to the same question, and
	// this one, which has no identifier, was not spent.
	Reused bool
	// replay reports that the record of this payment, or of one that counts for it, was Settled
	// already, or that its answer was made anew.
	replay bool
}

type purchaseKey struct {
	key              payment.Key
	payment, request payment.Digest
}

// Buy sells one answer for one payment. Concurrent copies of a call share one sale. An error is
// one of package payment's, the context's or the work's own. After ErrPending, ErrInFlight and the
// context's, this call may have moved money: the same payment gets its answer as soon as the outcome
// is known.
//
// Of many copies the first ones wait for Options.Answer at most, and each further one for
// Options.Patience. The work goes on while any caller waits. From the moment that money may move it
// goes on whether callers wait or not.
func (w *Paywall) Buy(ctx context.Context, o Order) (Sale, error) {
	o.Questions, o.AtOnce = max(o.Questions, 1), max(o.AtOnce, 1)
	o.Payment, o.mismatch = o.Offer.Judge(o.Payment)
	if o.mismatch != nil { // it may have been paid when the terms were others
		known, err := w.isKnown(ctx, o.Payment)
		if !known {
			return Sale{}, w.Refuse(ctx, o, cmp.Or(err, o.mismatch))
		}
	}
	waiting, cancel := context.WithTimeoutCause(ctx, w.Answer, payment.ErrInFlight)
	defer cancel()
	key := purchaseKey{o.Payment.Key, o.Payment.Digest, o.Request}
	sale, err := w.purchases.Do(waiting, key, func(ctx context.Context) (Sale, error) { return w.purchase(ctx, o) })
	if errors.Is(err, flight.ErrClosed) || errors.Is(err, flight.ErrMany) {
		return Sale{}, payment.ErrInFlight
	}
	return sale, err
}

// isKnown reports whether the ledger has this copy of the payment.
func (w *Paywall) isKnown(ctx context.Context, p payment.Payment) (bool, error) {
	for _, key := range []payment.Key{p.Key, p.Key.OfCopy(p.Digest)} {
		r, err := w.Ledger.Get(ctx, key)
		if err == nil && r.Payment == p.Digest {
			return true, nil
		}
		if err != nil && !errors.Is(err, payment.ErrNotFound) {
			return false, ledgerFault(err)
		}
	}
	return false, nil
}

// Refuse returns the error for an order whose payment cannot be read or does not match the terms: what
// CheckQuota returns or, where that is nil, err. It reports that end to Options.Ended. Of the order only
// Operation and Transport are read.
func (w *Paywall) Refuse(ctx context.Context, o Order, err error) error {
	if closed := w.CheckQuota(ctx); closed != nil {
		err = closed
	}
	w.Ended(End{Operation: o.Operation, Transport: o.Transport, Outcome: outcomeOf(Sale{}, err)})
	return err
}

// call is one run of an order: what is known of its payer, and the attempts that it
// has taken.
type call struct {
	Order
	// plain reports that the payment matches the terms and the payer's own key signed it, which
	// is known without the facilitator. Any other signature is the facilitator's to verify: it
	// may be a contract's, or broken.
	plain bool
	// checked is set when the facilitator has verified the payment and is not asked again, worked
	// when work has begun.
	checked, worked bool
	// reuse reports that an earlier payment of the payer had bought, or was buying, the
	// answer to the same question.
	reuse bool
	// sent reports that the facilitator was sent the payment.
	sent bool
	// client stands for the address in the ledger, around for the network around it.
	client, around string
	// request is what the facilitator is sent, each time in the same bytes.
	request []byte
	// hasPaid reports that the payer is known, as Caps.Knows says.
	hasPaid bool
	// account is what the payment network shows of the payer; nil while it is not known.
	account *payment.Account

	// making is nil before the first work.
	making *making

	refundAddress, refundPayer func()
	// refunds are of works that have not been paid yet.
	refunds []func()
}

// purchase runs an order to its end, and refunds its attempts when they do not count.
func (w *Paywall) purchase(ctx context.Context, o Order) (sale Sale, err error) {
	c := &call{Order: o, plain: o.mismatch == nil && o.Offer.Terms.SignedByPayer(o.Payment)}
	c.client, c.around = w.client(o.Address)
	defer c.written()
	if !c.plain {
		err = w.keyCopy(ctx, c)
	}
	if err == nil {
		c.request, err = o.Offer.FacilitatorRequest(o.Payment)
	}
	if err == nil {
		sale, err = w.claimOrResume(ctx, c)
	}
	ofWindow := payment.IsOfWindow(err)
	if refusal, may := w.mayHavePaid(c, err); may {
		sale, err = w.findPaid(ctx, c, refusal)
	}
	if c.isFree(sale, err) {
		c.refund()
	}
	if ofWindow && (payment.IsOfWindow(err) || errors.Is(err, payment.ErrTooMany)) {
		err = cmp.Or(w.CheckQuota(ctx), err) // at the limit, one that is made anew could not be settled either
	}
	w.Ended(End{o.Operation, o.Transport, outcomeOf(sale, err), sale.Reused})
	return sale, err
}

// keyCopy sets the key of a payment that is not plain to that of its copy. Where the record under the key of
// the authorization is this copy's, the payment keeps that key. ErrUsed: that record is of another copy.
func (w *Paywall) keyCopy(ctx context.Context, c *call) error {
	r, err := w.Ledger.Get(ctx, c.Payment.Key)
	switch {
	case errors.Is(err, payment.ErrNotFound):
		c.Payment.Key = c.Payment.Key.OfCopy(c.Payment.Digest)
		return nil
	case err == nil && r.Payment != c.Payment.Digest:
		return payment.ErrUsed
	}
	return ledgerFault(err)
}

// isFree reports whether the end of a call refunds its attempts: it paid, the limit or the ledger
// stopped it, or the facilitator was not available before any work began. Where an earlier call or
// payment has bought the answer they are not refunded: a call that costs nothing takes none.
func (c *call) isFree(sale Sale, err error) bool {
	switch {
	case err == nil:
		return !sale.replay && !sale.Reused
	case errors.Is(err, payment.ErrLimit), errors.Is(err, payment.ErrLedger):
		return true
	}
	return errors.Is(err, payment.ErrFacilitator) && !errors.Is(err, payment.ErrNoVerdict) && !c.worked
}

// claimOrResume claims the payment and sells, or resumes what an earlier copy began. While another
// call works on a copy, it waits.
func (w *Paywall) claimOrResume(ctx context.Context, c *call) (Sale, error) {
	if err := w.retryPending(ctx, c.Payment.Key); err != nil {
		return Sale{}, err
	}
	timeout := time.NewTimer(w.Answer)
	defer timeout.Stop()
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		record, won, err := w.claim(ctx, c)
		switch {
		case err != nil:
			return Sale{}, err
		case record.Key != c.Payment.Key && c.reuse: // an earlier payment for the same question
			if record.State != payment.Settling {
				return w.resumeForBuyer(ctx, c, record)
			}
		case record.Key != c.Payment.Key: // an earlier payment with the same identifier
			return w.resumeEarlier(ctx, c, record)
		case won:
			sale, err := w.sell(ctx, c, record)
			if !errors.Is(err, errEarlier) {
				return sale, err
			}
		case c.plain && !record.Plain: // money has moved by a copy
			return w.takeOver(ctx, c, record)
		case record.Payment != c.Payment.Digest || record.Request != c.Request:
			return Sale{}, payment.ErrUsed
		case record.State != payment.Working && record.State != payment.Settling:
			return w.resumeForBuyer(ctx, c, record)
		}
		select {
		case <-time.After(pause):
		case <-timeout.C:
			return Sale{}, payment.ErrInFlight
		case <-ctx.Done():
			return Sale{}, ctx.Err()
		}
	}
}

// claim returns the record of this payment, or of an earlier one that has bought, or is buying, with
// its identifier or for the same question; or it claims the payment, if a sale may begin now. A
// payment that is not plain is verified by the facilitator before it is claimed, so that a copy
// with a broken signature neither blocks the good one nor causes any work.
func (w *Paywall) claim(ctx context.Context, c *call) (r payment.Record, won bool, err error) {
	if c.plain {
		if earlier, found, err := w.bought(ctx, c); found || err != nil {
			return earlier, false, err
		}
	} else if r, err := w.ownRecord(ctx, c); !errors.Is(err, payment.ErrNotFound) {
		return r, false, ledgerFault(err)
	}
	if earlier, found, err := w.earlier(ctx, c); found || err != nil {
		return earlier, false, err
	}
	if err := w.admit(ctx, c); err != nil {
		r, getErr := w.ownRecord(ctx, c)
		if errors.Is(getErr, payment.ErrNotFound) {
			return payment.Record{}, false, err
		}
		return r, false, ledgerFault(getErr)
	}
	if !c.plain && !c.checked {
		if err := w.check(ctx, c); err != nil {
			if r, getErr := w.ownRecord(ctx, c); getErr == nil && r.Payment == c.Payment.Digest {
				return r, false, nil // a copy was sold while this one was verified
			}
			return payment.Record{}, false, err
		}
		if earlier, found, err := w.bought(ctx, c); found || err != nil {
			return earlier, false, err
		}
	}
	r, won, err = w.Ledger.Claim(ctx, w.record(c))
	if won {
		w.At(Claimed)
	} else if !c.checked {
		c.refund() // the facilitator was not called for it, and no work was done
	}
	if errors.Is(err, payment.ErrUsed) {
		return payment.Record{}, false, payment.ErrUsed
	}
	if err == nil && r.Key != c.Payment.Key { // it was settled meanwhile, or another copy has the bare key
		r, err = w.ownRecord(ctx, c)
		if errors.Is(err, payment.ErrNotFound) {
			return payment.Record{}, false, payment.ErrUsed
		}
	}
	return r, won, ledgerFault(err)
}

// ownRecord returns the record of the payment, or ErrNotFound. When that of a copy has got the key
// of the authorization, because it was settled, the payment gets that key, too.
func (w *Paywall) ownRecord(ctx context.Context, c *call) (payment.Record, error) {
	r, err := w.Ledger.Get(ctx, c.Payment.Key)
	if !errors.Is(err, payment.ErrNotFound) || !c.Payment.Key.IsCopy() {
		return r, err
	}
	if r, err = w.Ledger.Get(ctx, c.Payment.Key.Bare()); err == nil && r.Payment != c.Payment.Digest {
		return payment.Record{}, payment.ErrNotFound
	}
	if err == nil {
		c.Payment.Key = r.Key
	}
	return r, err
}

// record returns what the ledger writes when this process claims the payment.
func (w *Paywall) record(c *call) payment.Record {
	p := c.Payment
	return payment.Record{
		Key: p.Key, Owner: w.owner, Deadline: w.Now().Add(max(w.WorkTimeout, w.VerifyTimeout) + time.Minute),
		Plain: c.plain, Payment: p.Digest, Request: c.Request, Identifier: p.Identifier, Resource: c.Offer.Resource.URL,
		Operation: c.Operation, Transport: c.Transport,
		Amount: c.Offer.Terms.Amount, PayTo: c.Offer.Terms.PayTo, ValidBefore: p.ValidBefore(), Client: c.client,
		Around: c.around,
	}
}

// bought returns the record of an earlier payment that has bought, or is buying, with the
// same identifier, if there is one. The payer chooses the identifier, so it counts only with
// a payment that is certainly theirs and whose window is open.
func (w *Paywall) bought(ctx context.Context, c *call) (r payment.Record, found bool, err error) {
	if c.Payment.Identifier == "" || c.Offer.JudgeWindow(c.Payment, w.Now(), payment.SettleMargin) != nil {
		return payment.Record{}, false, nil
	}
	r, err = w.Ledger.Earlier(ctx, payment.Asked{
		Payer: c.Payment.Key.Payer, Identifier: c.Payment.Identifier, Plain: c.plain,
	})
	if errors.Is(err, payment.ErrNotFound) {
		return payment.Record{}, false, nil
	}
	return r, err == nil && r.Key != c.Payment.Key, ledgerFault(err)
}

// admit returns nil when a sale may begin now: the payment matches the terms, the window of the
// authorization is open, CheckQuota and checkHistory allow it, the address has attempts left, which
// it takes, and the payment network does not show that the payer cannot pay.
func (w *Paywall) admit(ctx context.Context, c *call) error {
	if c.mismatch != nil {
		return c.mismatch
	}
	if err := c.Offer.JudgeWindow(c.Payment, w.Now(), payment.WorkMargin); err != nil {
		return err
	}
	if err := w.CheckQuota(ctx); err != nil {
		return err
	}
	if err := w.checkHistory(ctx, c); err != nil {
		return err
	}
	if err := w.spendAddress(c, c.Questions); err != nil {
		return err
	}
	return w.checkAccount(ctx, c)
}

// check has the facilitator verify a payment before any work, and then takes attempts from its
// payer.
func (w *Paywall) check(ctx context.Context, c *call) error {
	if shared := w.budgetsOf(c); shared != nil {
		waiting, cancel := context.WithTimeout(ctx, w.VerifyTimeout)
		defer cancel()
		if shared.checking.Acquire(waiting, 1) != nil {
			return cmp.Or(ctx.Err(), payment.ErrInFlight)
		}
		defer shared.checking.Release(1)
	}
	if err := w.verify(ctx, c); err != nil {
		return err
	}
	c.checked = true
	return w.spendPayer(c)
}

// sell works for a claimed payment, and settles it last.
func (w *Paywall) sell(ctx context.Context, c *call, r payment.Record) (Sale, error) {
	answer, err := w.workAndVerify(ctx, c)
	if err = cmp.Or(ctx.Err(), err); err != nil {
		c.written() // a lookup on the chain may follow
		w.release(ctx, r)
		return Sale{}, err
	}
	w.At(Worked)
	return w.settle(ctx, c, r, answer)
}

// workAndVerify makes the answer for a payment that is certainly the payer's: after the
// facilitator has verified it, or beside that where the payer's own key signed, and they are known
// or there is capacity. Of two errors the facilitator's counts: what the work finds is for those
// who can pay.
func (w *Paywall) workAndVerify(ctx context.Context, c *call) (answer []byte, err error) {
	if err := w.spendPayer(c); err != nil {
		return nil, err
	}
	switch {
	case c.checked && c.hasPaid:
		return w.workCounted(ctx, c)
	case c.checked:
		return w.workForUnknown(ctx, c)
	}
	release, ok := w.mayWorkBeside(c)
	if !ok {
		if err := w.verify(ctx, c); err != nil {
			return nil, err
		}
		return w.workForUnknown(ctx, c)
	}
	defer release()
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	var working sync.WaitGroup
	working.Go(func() { answer, err = w.workCounted(both, c) })
	verified := w.verify(both, c)
	if verified != nil {
		cancel()
	}
	working.Wait()
	return answer, cmp.Or(verified, err)
}

// workForUnknown works for a payer who is not known and whose payment was verified. They share a
// bound.
func (w *Paywall) workForUnknown(ctx context.Context, c *call) ([]byte, error) {
	waiting, cancel := context.WithTimeout(ctx, w.WorkTimeout)
	defer cancel()
	places := int64(min(c.AtOnce, maxUnknownPayers))
	if w.unknownPayers.Acquire(waiting, places) != nil {
		return nil, payment.ErrInFlight
	}
	defer w.unknownPayers.Release(places)
	return w.workCounted(waiting, c)
}

// work runs the order's work. A panic is an error of it.
func (w *Paywall) work(ctx context.Context, c *call) ([]byte, error) {
	c.worked = true
	if c.making == nil {
		c.making = &making{places: w.othersMaking}
		if c.isKnown() {
			c.making.places = w.knownMaking
		}
	}
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, makingKey{}, c.making), w.WorkTimeout)
	defer cancel()
	return flight.Guard(func() ([]byte, error) { return c.Work(ctx) })
}

// ledgerTimeout bounds a write that must not be left out because a caller has gone.
const ledgerTimeout = 15 * time.Second

// errEarlier means that another payment, which claim had not found, buys or has bought the
// answer to the same question.
var errEarlier = errors.New("an earlier payment buys the answer")

// settle reserves a settlement, writes that money may move from here on, and has
// the facilitator settle.
func (w *Paywall) settle(ctx context.Context, c *call, r payment.Record, answer []byte) (Sale, error) {
	s := payment.Settlement{Request: c.Request, Answer: answer, Limit: w.FreeSettlements, Kept: w.kept()}
	sold, duplicate, err := w.begin(ctx, c, r, &s)
	c.written()
	if err != nil || duplicate != nil {
		w.release(ctx, r)
	}
	switch {
	case err != nil:
		return Sale{}, err
	case duplicate != nil && c.Payment.Identifier == "":
		c.checked = true
		return Sale{}, errEarlier
	case duplicate != nil:
		return w.resumeEarlier(ctx, c, *duplicate)
	}
	w.countReserved(s.Month)
	w.At(Begun)
	r.State, r.Answer, r.Month = payment.Settling, sold, s.Month
	sale, err := w.carryOut(context.WithoutCancel(ctx), c, r)
	w.settlements.wake(2, r.Key.Payer, r.Client) // one that was paid frees its place and adds one
	return sale, err
}

// begin begins the settlement in the ledger as soon as the caps allow one more, or
// returns the record of a duplicate: an earlier payment that has bought, or is buying, with its
// identifier or, without one, the answer to the same question. While it waits nothing has
// begun, and it ends when no caller waits.
func (w *Paywall) begin(
	ctx context.Context, c *call, r payment.Record, s *payment.Settlement,
) (sold payment.Answer, duplicate *payment.Record, err error) {
	waiting, cancel := context.WithTimeout(ctx, w.Answer)
	defer cancel()
	for {
		now := w.Now()
		if err := c.Offer.JudgeWindow(c.Payment, now, payment.SettleMargin); err != nil {
			return sold, nil, err
		}
		if left := w.quota.paused(now); left > 0 {
			return sold, nil, &payment.LaterError{Err: payment.ErrLimit, After: left}
		}
		s.Month, s.Caps, s.Deadline = payment.Month(now), w.caps(), now.Add(2*w.SettleTimeout+time.Minute)
		if w.ReuseWindow > 0 {
			s.EarlierSince = now.Add(-w.ReuseWindow)
		}
		if !flight.Pin(ctx) {
			return sold, nil, ctx.Err()
		}
		writing, done := context.WithTimeout(context.WithoutCancel(ctx), ledgerTimeout)
		sold, duplicate, err = w.Ledger.Begin(writing, r.Key, w.owner, *s)
		done()
		if err != nil || duplicate != nil { // nothing has begun
			flight.Unpin(ctx)
		}
		if errors.Is(err, payment.ErrCrowded) {
			if err := w.settlements.wait(waiting, &waiter{
				payer: r.Key.Payer, client: r.Client, stranger: !c.hasPaid,
			}); err != nil {
				return sold, nil, err
			}
			continue
		}
		others := 1 // how many that wait, of the payer or client, may try now: all, where a limit has refused this one
		switch {
		case errors.Is(err, payment.ErrLost):
			err = payment.ErrInFlight
		case errors.Is(err, payment.ErrFailing), errors.Is(err, payment.ErrStrangers):
			others, err = math.MaxInt, w.tomorrow(err)
		case errors.Is(err, payment.ErrLimit):
			others = math.MaxInt
		default:
			err = ledgerFault(err)
		}
		w.settlements.wake(others, r.Key.Payer, r.Client)
		if err != nil || duplicate != nil {
			w.quota.stale()
		}
		return sold, duplicate, err
	}
}

// outcomeOf returns the name under which the end of a call is counted.
func outcomeOf(sale Sale, err error) string {
	if sale.replay {
		return "repeated" // as the metric has always called it
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
