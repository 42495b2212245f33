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
		{context.Canceled, "abandoned"},
	} {
		if errors.Is(err, known.err) {
			return known.name
		}
	}
	return "work_failed"
}

// process takes a payment that fits the offer from the ledger's word on.
func (g *Gate) process(ctx context.Context, f *flight, o Order) (Sale, error) {
	refund, err := g.attempts.spend("address "+o.Address, g.AttemptsPerAddress)
	if err != nil {
		return Sale{}, err
	}
	sale, err := g.claimOrResume(ctx, f, o)
	if isFree(err) {
		refund()
	}
	return sale, err
}

// isFree tells ends that do not count against an address: it paid, it cost
// little more than a look into the ledger, or the fault is ours.
func isFree(err error) bool {
	if errors.Is(err, ErrNoVerdict) {
		return false
	}
	for _, free := range []error{nil, ErrInvalid, ErrUsed, ErrInFlight, ErrLimit, ErrLedger, ErrFacilitator} {
		if errors.Is(err, free) {
			return true
		}
	}
	return false
}

// claimOrResume claims the payment and sells, or goes on where an earlier copy
// left it. Waiting for a copy elsewhere ends with the flight's patience.
func (g *Gate) claimOrResume(ctx context.Context, f *flight, o Order) (Sale, error) {
	if err := g.repay(ctx, o.Payment.Key); err != nil {
		return Sale{}, err
	}
	patience := time.NewTimer(g.Answer)
	defer patience.Stop()
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		record, won, err := g.claim(ctx, o)
		switch {
		case err != nil:
			return Sale{}, err
		case won:
			return g.sell(ctx, f, o, record)
		case record.Payment != o.Payment.Digest || record.Request != o.Request:
			return Sale{}, ErrUsed
		case record.State != Working && record.State != Settling:
			return g.resume(ctx, f, o, record)
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

// claim gives the record of a payment that has come before, or claims one that
// may begin now: its window is open and the month has a settlement left.
func (g *Gate) claim(ctx context.Context, o Order) (Record, bool, error) {
	p := o.Payment
	now := g.Now()
	if err := g.open(ctx, o, now); err != nil {
		r, getErr := g.Ledger.Get(ctx, p.Key)
		if errors.Is(getErr, ErrNotFound) {
			return Record{}, false, err
		}
		return r, false, ledgerFault(getErr)
	}
	r, won, err := g.Ledger.Claim(ctx, Record{
		Key: p.Key, Owner: g.owner, Deadline: now.Add(max(g.WorkTimeout, g.VerifyTimeout) + time.Minute),
		Payment: p.Digest, Request: o.Request, Identifier: p.Identifier, Resource: o.Offer.Resource.URL,
		Amount: o.Offer.Terms.Amount, PayTo: o.Offer.Terms.PayTo, ValidBefore: p.validBefore,
	})
	if won {
		g.At(Claimed)
	}
	return r, won, ledgerFault(err)
}

// open says whether a sale may begin now.
func (g *Gate) open(ctx context.Context, o Order, now time.Time) error {
	if o.misfit != nil {
		return o.misfit
	}
	if err := o.Offer.judgeWindow(o.Payment, now, workMargin); err != nil {
		return err
	}
	return g.Free(ctx)
}

func ledgerFault(err error) error {
	if err == nil {
		return nil
	}
	return errors.Join(ErrLedger, err)
}
