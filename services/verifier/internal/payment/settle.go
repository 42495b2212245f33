package payment

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// truthTimeout bounds one look at the chain.
const truthTimeout = 10 * time.Second

// reasonElsewhere and reasonExpired say why an authorization never pays us.
const (
	reasonElsewhere = "authorization_spent_elsewhere"
	reasonExpired   = "authorization_expired_unspent"
	// reasonUnconfirmed: the facilitator said yes, the chain has not.
	reasonUnconfirmed = "not_confirmed_by_the_chain"
)

// askToSettle has a begun settlement carried out and ends it in the ledger. An
// outcome that is open is asked for once more, with the same bytes, and then
// looked up on the chain.
func (g *Gate) askToSettle(ctx context.Context, r Record, call []byte) (Sale, error) {
	outcome, limited := g.ask(ctx, r, call)
	if outcome.State == Unknown && !limited {
		time.Sleep(g.Pause)
		again, _ := g.ask(ctx, r, call)
		outcome = second(outcome, again)
	}
	g.At(Asked)
	outcome = g.believe(ctx, outcome, r)
	if limited {
		g.quota.pause(g.Now())
	}
	sale, err := g.finish(ctx, r, outcome)
	if limited && err != nil {
		return Sale{}, ErrLimit
	}
	return sale, err
}

// second judges the answer to a repeated settling: a yes is a yes, but a no may
// be the echo of the first one's success.
func second(first, again Outcome) Outcome {
	if again.State == Settled {
		return again
	}
	if first.Transaction == "" {
		first.Transaction = again.Transaction
	}
	return first
}

// ask asks the facilitator to settle.
func (g *Gate) ask(ctx context.Context, r Record, call []byte) (Outcome, bool) {
	ctx, cancel := context.WithTimeout(ctx, g.SettleTimeout)
	defer cancel()
	answer, err := g.Facilitator.Settle(ctx, call)
	outcome, limited := checkSettled(answer, err, r)
	if outcome.State == Unknown {
		g.Log.Warn("the facilitator left a settlement open", "reason", outcome.Reason, "transaction", outcome.Transaction, "error", err)
	}
	return outcome, limited
}

// believe gives what counts of what the facilitator said.
func (g *Gate) believe(ctx context.Context, said Outcome, r Record) Outcome {
	switch {
	case said.State != Settled:
		return g.truthOver(ctx, said, r)
	case g.Confirm:
		return g.confirm(ctx, said, r)
	}
	return said
}

// truthOver lets the chain correct what the facilitator said, or did not say.
func (g *Gate) truthOver(ctx context.Context, o Outcome, r Record) Outcome {
	fate, err := g.fate(ctx, r)
	switch {
	case err != nil || fate.Is == Unspent:
		return o
	case fate.Is == Paid:
		return Outcome{State: Settled, Transaction: fate.Transaction}
	case fate.Is == Elsewhere:
		return Outcome{State: Dead, Transaction: o.Transaction, Reason: reasonElsewhere}
	default:
		return Outcome{State: Dead, Transaction: o.Transaction, Reason: reasonExpired}
	}
}

// confirm waits until the chain says what the facilitator said. Its nodes may be
// a few blocks behind; what they do not say in time stays open.
func (g *Gate) confirm(ctx context.Context, o Outcome, r Record) Outcome {
	ctx, cancel := context.WithTimeout(ctx, g.SettleTimeout)
	defer cancel()
	claimed := Outcome{State: Unknown, Transaction: o.Transaction, Reason: reasonUnconfirmed}
	for {
		if o = g.truthOver(ctx, claimed, r); o.State != Unknown {
			return o
		}
		select {
		case <-time.After(g.Pause):
		case <-ctx.Done():
			return claimed
		}
	}
}

var errNoTruth = errors.New("no node of the payment network is configured")

func (g *Gate) fate(ctx context.Context, r Record) (Fate, error) {
	if g.Truth == nil {
		return Fate{}, errNoTruth
	}
	ctx, cancel := context.WithTimeout(ctx, truthTimeout)
	defer cancel()
	fate, err := g.Truth.Fate(ctx, r.question())
	if err != nil {
		g.Log.Warn("cannot read the payment network", "error", err)
	}
	return fate, err
}

// finish writes an outcome and gives what the buyer gets for it. What cannot be
// written now is owed; after a crash it is found again, because the record reads
// as unknown when its owner is gone.
func (g *Gate) finish(ctx context.Context, r Record, o Outcome) (Sale, error) {
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	written, err := g.Ledger.Finish(ctx, r.Key, o)
	if o.State != Settled || r.State != Settling {
		g.quota.stale() // the reservation may have been given back, or made anew
	}
	if err != nil {
		g.Log.Error("cannot write how a settlement ended", "state", o.State, "transaction", o.Transaction, "error", err)
		g.owe(r.Key, debt{until: g.Now().Add(2 * g.SettleTimeout), write: func(ctx context.Context) error {
			if _, err := g.Ledger.Finish(ctx, r.Key, o); !errors.Is(err, ErrNotFound) {
				return err
			}
			return nil
		}})
		written = o
	}
	r.State, r.Transaction, r.Reason = written.State, written.Transaction, written.Reason
	g.At(Finished)
	return r.sale()
}

// sale is what the buyer gets for a record whose settling has ended.
func (r Record) sale() (Sale, error) {
	switch r.State {
	case Settled:
		return Sale{Answer: r.Answer, Transaction: r.Transaction}, nil
	case Dead:
		return Sale{}, &Refusal{Of: ErrNotSettled, Reason: r.Reason, Transaction: r.Transaction}
	default:
		return Sale{}, &PendingError{Transaction: r.Transaction}
	}
}

func panicError(p any) error { return fmt.Errorf("panic: %v\n%s", p, debug.Stack()) }
