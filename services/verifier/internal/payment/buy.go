package payment

import (
	"cmp"
	"context"
	"errors"
	"time"
)

// Order is one call that a buyer pays for.
type Order struct {
	Offer   Offer
	Payment Payment
	// Request is the digest of what is asked: the same for every spelling of it.
	Request Digest
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
func (g *Gate) Buy(ctx context.Context, o Order) (Sale, error) {
	o.Payment, o.misfit = o.Offer.Judge(o.Payment)
	if o.misfit != nil {
		known, err := g.knows(ctx, o.Payment)
		if !known {
			return Sale{}, g.Refuse(ctx, cmp.Or(err, o.misfit))
		}
	}
	key := flightKey{o.Payment.Key, o.Payment.Digest, o.Request}
	f, err := g.flights.join(ctx, key, func(ctx context.Context, f *flight) (Sale, error) {
		sale, err := g.process(ctx, f, o)
		g.Ended(outcomeOf(sale, err))
		return sale, err
	})
	if err != nil {
		return Sale{}, err
	}
	defer f.leave()
	patience := time.NewTimer(g.Answer)
	defer patience.Stop()
	select {
	case <-f.done:
		return f.sale, f.err
	case <-patience.C:
		return Sale{}, ErrInFlight
	case <-ctx.Done():
		return Sale{}, ctx.Err()
	}
}

// knows tells whether a payment came before, perhaps when the terms were others.
func (g *Gate) knows(ctx context.Context, p Payment) (bool, error) {
	r, err := g.Ledger.Get(ctx, p.Key)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil && r.Payment == p.Digest, ledgerFault(err)
}

// Refuse gives the answer to a payment that cannot be read or judged good: err,
// unless nothing can be sold now.
func (g *Gate) Refuse(ctx context.Context, err error) error {
	if closed := g.Free(ctx); closed != nil {
		err = closed
	}
	g.Ended(outcomeOf(Sale{}, err))
	return err
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
		{ErrInvalid, "invalid"},
		{ErrRefused, "refused"},
		{ErrNotSettled, "not_settled"},
		{ErrUsed, "used"},
		{ErrIdentifier, "used"},
		{ErrInFlight, "in_flight"},
		{ErrPending, "pending"},
		{ErrFacilitator, "facilitator"},
		{ErrLimit, "limit"},
		{ErrLedger, "ledger"},
		{ErrTooMany, "too_many"},
		{ErrFailing, "too_many_failed"},
		{context.Canceled, "abandoned"},
	} {
		if errors.Is(err, known.err) {
			return known.name
		}
	}
	return "work_failed"
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
func (g *Gate) process(ctx context.Context, f *flight, o Order) (Sale, error) {
	c := &call{Order: o, plain: o.misfit == nil && o.Offer.Terms.signed(o.Payment), client: g.client(o.Address)}
	sale, err := g.claimOrResume(ctx, f, c)
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
	case errors.Is(err, ErrLimit), errors.Is(err, ErrLedger):
		return true
	}
	return errors.Is(err, ErrFacilitator) && !errors.Is(err, ErrNoVerdict) && !c.worked
}

// spendAddress takes an attempt from the client's address, once in a call.
func (g *Gate) spendAddress(c *call) (err error) {
	if c.refundAddress == nil {
		c.refundAddress, err = g.clients.spend(c.Address, g.AttemptsPerAddress)
	}
	return err
}

// spendPayer takes an attempt from the payer. It is for payments that are
// certainly the payer's.
func (g *Gate) spendPayer(c *call) (err error) {
	if c.refundPayer == nil {
		c.refundPayer, err = g.payers.spend(c.Payment.Key.Payer, g.AttemptsPerPayer)
	}
	return err
}

// refund gives back the attempts that the call has taken.
func (c *call) refund() {
	for _, refund := range []*func(){&c.refundAddress, &c.refundPayer} {
		if *refund != nil {
			(*refund)()
			*refund = nil
		}
	}
}

// claimOrResume claims the payment and sells, or goes on where an earlier copy
// left it. Waiting for a copy elsewhere ends with the flight's patience.
func (g *Gate) claimOrResume(ctx context.Context, f *flight, c *call) (Sale, error) {
	if err := g.repay(ctx, c.Payment.Key); err != nil {
		return Sale{}, err
	}
	patience := time.NewTimer(g.Answer)
	defer patience.Stop()
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		record, won, err := g.claim(ctx, c)
		switch {
		case err != nil:
			return Sale{}, err
		case record.Key != c.Payment.Key:
			return g.again(ctx, f, c, record)
		case won:
			return g.sell(ctx, f, c, record)
		case record.Payment != c.Payment.Digest || record.Request != c.Request:
			return Sale{}, ErrUsed
		case record.State != Working && record.State != Settling:
			return g.comeBack(ctx, f, c, record)
		}
		select {
		case <-time.After(pause):
		case <-patience.C:
			return Sale{}, ErrInFlight
		case <-ctx.Done():
			return Sale{}, ctx.Err()
		}
	}
}

// bought gives the record that the payment's identifier has bought with, if there
// is one. The identifier is the payer's word, so it counts only with a payment
// that is theirs for certain and good by its window.
func (g *Gate) bought(ctx context.Context, c *call) (r Record, found bool, err error) {
	if c.Payment.Identifier == "" || c.Offer.judgeWindow(c.Payment, g.Now(), settleMargin) != nil {
		return Record{}, false, nil
	}
	r, err = g.Ledger.Bought(ctx, c.Payment.Key.Payer, c.Payment.Identifier)
	if errors.Is(err, ErrNotFound) {
		return Record{}, false, nil
	}
	return r, err == nil && r.Key != c.Payment.Key, ledgerFault(err)
}

// again gives what an earlier payment with the same identifier has bought. The
// new authorization is not spent: no check, no claim and no write.
func (g *Gate) again(ctx context.Context, f *flight, c *call, first Record) (Sale, error) {
	if first.Request != c.Request {
		return Sale{}, ErrIdentifier
	}
	return g.comeBack(ctx, f, c, first)
}

// comeBack gives a buyer who returns what his payment is worth by now. Only an
// answer that is there costs nothing.
func (g *Gate) comeBack(ctx context.Context, f *flight, c *call, r Record) (Sale, error) {
	if r.State != Settled || r.Answer == nil {
		if err := g.spendAddress(c); err != nil {
			return Sale{}, err
		}
	}
	return g.resume(ctx, f, c.Order, r)
}

// claim gives the record of a payment that has come before, or that has bought
// with the same identifier, or claims one that may begin now. A payment that is not plain is checked by the facilitator
// before it is claimed, so that a copy with a broken signature neither keeps the
// good one out nor makes anybody work.
func (g *Gate) claim(ctx context.Context, c *call) (Record, bool, error) {
	p := c.Payment
	if c.plain {
		if first, found, err := g.bought(ctx, c); found || err != nil {
			return first, false, err
		}
	} else {
		if r, err := g.Ledger.Get(ctx, p.Key); !errors.Is(err, ErrNotFound) {
			return r, false, ledgerFault(err)
		}
	}
	if err := g.admit(ctx, c); err != nil {
		r, getErr := g.Ledger.Get(ctx, p.Key)
		if errors.Is(getErr, ErrNotFound) {
			return Record{}, false, err
		}
		return r, false, ledgerFault(getErr)
	}
	if !c.plain && !c.checked {
		if err := g.check(ctx, c); err != nil {
			return Record{}, false, err
		}
		if first, found, err := g.bought(ctx, c); found || err != nil {
			return first, false, err
		}
	}
	r, won, err := g.Ledger.Claim(ctx, Record{
		Key: p.Key, Owner: g.owner, Deadline: g.Now().Add(max(g.WorkTimeout, g.VerifyTimeout) + time.Minute),
		Payment: p.Digest, Request: c.Request, Identifier: p.Identifier, Resource: c.Offer.Resource.URL,
		Amount: c.Offer.Terms.Amount, PayTo: c.Offer.Terms.PayTo, ValidBefore: p.validBefore, Client: c.client,
	})
	if won {
		g.At(Claimed)
	} else if !c.checked {
		c.refund() // it cost a look into the ledger
	}
	return r, won, ledgerFault(err)
}

// admit says whether a sale may begin now: the window of the authorization is
// open, the month has a settlement left, not too many have failed, and the address
// has an attempt left.
func (g *Gate) admit(ctx context.Context, c *call) error {
	if c.misfit != nil {
		return c.misfit
	}
	if err := c.Offer.judgeWindow(c.Payment, g.Now(), workMargin); err != nil {
		return err
	}
	if err := g.Free(ctx); err != nil {
		return err
	}
	if err := g.failing(ctx, c); err != nil {
		return err
	}
	return g.spendAddress(c)
}

// check asks the facilitator about a payment before anything else is done for
// it. After its yes it is certain that the payer made the attempt.
func (g *Gate) check(ctx context.Context, c *call) error {
	request, err := c.Offer.call(c.Payment)
	if err != nil {
		return err
	}
	if err := g.verifyStranger(ctx, c, request); err != nil {
		return err
	}
	c.checked = true
	return g.spendPayer(c)
}

func ledgerFault(err error) error {
	if err == nil {
		return nil
	}
	return errors.Join(ErrLedger, err)
}
