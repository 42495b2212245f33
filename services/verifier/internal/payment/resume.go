package payment

import (
	"context"
)

// resume gives a buyer who returns with a payment what it is worth by now.
func (g *Gate) resume(ctx context.Context, f *flight, o Order, r Record) (Sale, error) {
	switch r.State {
	case Settled:
	case Dead:
		// The facilitator said no, or nobody settled it. Somebody may have
		// carried it out since, and then it is paid.
		outcome := g.truthOver(ctx, Outcome{State: Dead, Reason: r.Reason}, r)
		if outcome.State != Settled {
			return r.sale()
		}
		if _, err := g.finish(context.WithoutCancel(ctx), r, outcome); err != nil {
			return Sale{}, err
		}
		r.State, r.Transaction = Settled, outcome.Transaction
	case Unknown:
		return g.reconcile(ctx, f, o, r)
	default:
		return Sale{}, ErrInFlight
	}
	if r.Answer == nil { // pruned: it was paid, so it is made anew
		var err error
		if r.Answer, err = g.rework(ctx, o); err != nil {
			return Sale{}, err
		}
	}
	sale, err := r.sale()
	sale.again = err == nil
	return sale, err
}

func (g *Gate) rework(ctx context.Context, o Order) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, g.WorkTimeout)
	defer cancel()
	return work(ctx, o)
}

// reconcile finds out what became of a settlement whose outcome is open, for a
// buyer who wants his answer. As long as the authorization is unspent and good,
// settling it again is what he asked for; his payment makes the same request of
// the facilitator as it did before, unless the terms have changed since.
func (g *Gate) reconcile(ctx context.Context, f *flight, o Order, r Record) (Sale, error) {
	open := Outcome{State: Unknown, Transaction: r.Transaction, Reason: r.Reason}
	outcome := g.truthOver(ctx, open, r)
	mayAsk := r.Key == o.Payment.Key && o.misfit == nil && (g.Truth == nil || r.ValidBefore.After(g.Now().Add(settleMargin)))
	if outcome.State == Unknown && mayAsk && f.pin() {
		ctx := context.WithoutCancel(ctx)
		call, err := o.Offer.call(o.Payment)
		if err != nil {
			return Sale{}, err
		}
		again, limited := g.ask(ctx, r, call)
		if limited {
			g.quota.pause(g.Now())
		}
		outcome = g.believe(ctx, second(open, again), r)
	}
	return g.finish(context.WithoutCancel(ctx), r, outcome)
}
