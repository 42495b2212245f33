package payment

import (
	"context"
	"sync"
	"time"
)

// lookPause is the time between two looks at the chain for a payment that is dead.
const lookPause = time.Minute

// openLookPause is the time between two looks for a payment that is open although its
// authorization has ended: nothing new is made for it, and the reconciler looks too.
const openLookPause = 10 * time.Second

// maxRecent bounds the payments whose last look is remembered.
const maxRecent = 10_000

// recent remembers, in one process, when open payments were looked at.
type recent struct {
	mu sync.Mutex
	at map[Key]time.Time
}

// look reports whether a payment may be looked at now, and remembers that it was.
func (r *recent) look(key Key, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, ok := r.at[key]; ok && now.Sub(last).Abs() < openLookPause {
		return false
	}
	if r.at == nil || len(r.at) >= maxRecent {
		r.at = map[Key]time.Time{}
	}
	r.at[key] = now
	return true
}

// resume gives a buyer who returns with a payment what it is worth by now.
func (g *Gate) resume(ctx context.Context, f *flight, o Order, r Record) (Sale, error) {
	switch r.State {
	case Settled:
	case Dead:
		// The facilitator said no, or its transaction failed. Somebody may have
		// carried it out since, and then it is paid. What the chain has said for
		// good is not asked for again, and the rest not often.
		if g.Truth == nil || r.Reason == ReasonExpired || r.Reason == reasonElsewhere {
			return g.sale(r)
		}
		look, err := g.Ledger.Look(ctx, r.Key, g.Now().Add(-lookPause))
		if err != nil {
			return Sale{}, ledgerFault(err)
		}
		if !look {
			return g.sale(r)
		}
		outcome := g.truthOver(ctx, Outcome{State: Dead, Reason: r.Reason}, r)
		if outcome.State == Dead && outcome.Reason == r.Reason {
			return g.sale(r)
		}
		if sale, err := g.finish(context.WithoutCancel(ctx), r, outcome); err != nil {
			return sale, err
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
	sale, err := g.sale(r)
	sale.again = err == nil
	return sale, err
}

func (g *Gate) rework(ctx context.Context, o Order) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, g.WorkTimeout)
	defer cancel()
	return work(ctx, o)
}

// reconcile finds out what became of a settlement whose outcome is open, for a
// buyer who wants the answer. As long as the authorization is unspent and good,
// settling it again is what they asked for, though not at once and not for ever;
// the payment makes the same request of the facilitator as it did before, unless
// the terms have changed since.
func (g *Gate) reconcile(ctx context.Context, f *flight, o Order, r Record) (Sale, error) {
	open := Outcome{State: Unknown, Transaction: r.Transaction, Reason: r.Reason}
	if g.Now().After(r.ValidBefore) && !g.recent.look(r.Key, g.Now()) {
		return g.sale(r)
	}
	outcome := g.truthOver(ctx, open, r)
	if outcome.State != Unknown {
		return g.finish(context.WithoutCancel(ctx), r, outcome)
	}
	changed := g.Now().Sub(r.Changed)
	early := changed >= 0 && changed < askPause // a moment still to come was told by a clock that was ahead
	mayAsk := r.Key == o.Payment.Key && o.misfit == nil && g.mayRepeat(r) && !early
	if !mayAsk || !f.pin() {
		return g.sale(r)
	}
	ctx = context.WithoutCancel(ctx)
	call, err := o.Offer.call(o.Payment)
	if err != nil {
		return Sale{}, err
	}
	repeats := r.Repeats
	outcome = g.askAgain(ctx, open, &r, call)
	if r.Repeats == repeats {
		return g.sale(r)
	}
	return g.finish(ctx, r, outcome)
}
