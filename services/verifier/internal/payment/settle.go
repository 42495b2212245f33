package payment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// truthTimeout bounds one look at the chain.
const truthTimeout = 10 * time.Second

// ReasonExpired and reasonElsewhere say why an authorization never pays us.
const (
	reasonElsewhere = "authorization_spent_elsewhere"
	ReasonExpired   = "authorization_expired_unspent"
	// reasonVanished: it was settled, and later the transfer was not on the chain.
	reasonVanished = "transfer_not_on_the_chain"
	// reasonReverted: the one transaction that was made for it has failed.
	reasonReverted = "transaction_reverted"
	// reasonUnconfirmed: the facilitator said yes, the chain has not.
	reasonUnconfirmed = "not_confirmed_by_the_chain"
)

// askToSettle has a begun settlement carried out and ends it in the ledger. An
// outcome that is open is looked up on the chain; if that does not know either,
// it is asked for once more, with the same bytes, and looked up again.
func (g *Gate) askToSettle(ctx context.Context, r Record, call []byte) (Sale, error) {
	said, err := g.ask(ctx, r, call)
	g.At(Asked)
	outcome := g.believe(ctx, said, r)
	if outcome.State == Unknown && said.State == Unknown && !errors.Is(err, ErrFacilitatorLimit) {
		time.Sleep(max(g.Pause, pauseOf(err)))
		outcome = g.askAgain(ctx, said, &r, call)
	}
	return g.finish(ctx, r, outcome)
}

const (
	// maxRepeats bounds how often the facilitator is asked again for one payment,
	// and askPause is the time between two such calls of its buyer.
	maxRepeats = 5
	askPause   = 5 * time.Second
)

// mayRepeat reports whether a settling may be asked for again at all: the
// authorization is still good, and it was not asked for too often.
func (g *Gate) mayRepeat(r Record) bool {
	return r.Repeats < maxRepeats && r.ValidBefore.After(g.Now().Add(settleMargin))
}

// askAgain has a settling carried out once more whose outcome, open, is not known.
// It may be a transaction more, so it reserves a settlement more; where that cannot
// be had, the outcome stays as it is. Of those that are kept it takes none for who
// has never paid, whatever the signature: an outcome that is left open costs nothing.
func (g *Gate) askAgain(ctx context.Context, open Outcome, r *Record, call []byte) Outcome {
	if !g.mayRepeat(*r) {
		return open
	}
	again := Repeat{Repeats: r.Repeats, Month: Month(g.Now()), Limit: g.FreeSettlements, Kept: g.kept()}
	if err := g.repeat(ctx, r.Key, again); err != nil {
		g.Log.Warn("a settling is not asked for again", "error", err)
		return open
	}
	g.reserved(again.Month)
	r.Repeats++
	r.Changed = g.Now()
	said, _ := g.ask(ctx, *r, call) // it has heeded the error
	known := cmp.Or(open.Transaction, r.Transaction)
	echo := said.Echo && (said.Transaction == "" || said.Transaction == known)
	outcome := g.believe(ctx, second(open, said), *r)
	outcome.Echo = echo
	return outcome
}

func (g *Gate) repeat(ctx context.Context, key Key, r Repeat) error {
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	return g.Ledger.Repeat(ctx, key, r)
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

// ask asks the facilitator to settle. It returns what that means, and why there was
// no answer, if there was none; a facilitator at its limit is left alone from here on.
func (g *Gate) ask(ctx context.Context, r Record, call []byte) (Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, g.SettleTimeout)
	defer cancel()
	answer, err := g.Facilitator.Settle(ctx, call)
	if errors.Is(err, ErrFacilitatorLimit) {
		g.quota.pause(g.Now(), err)
	}
	outcome := checkSettled(answer, err, r)
	if outcome.State == Unknown {
		g.Log.Warn("the facilitator left a settlement open", "reason", outcome.Reason, "transaction", outcome.Transaction, "error", err)
	}
	return outcome, err
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
	r.Transaction = cmp.Or(o.Transaction, r.Transaction)
	fate, err := g.fate(ctx, r)
	switch {
	case err != nil || fate.Is == Unspent:
		return o
	case fate.Is == Paid:
		return Outcome{State: Settled, Transaction: fate.Transaction}
	case fate.Is == Elsewhere:
		return Outcome{State: Dead, Transaction: o.Transaction, Reason: reasonElsewhere}
	case fate.Is == Reverted && r.Repeats > 0:
		return o // another transaction may have been made than the one that failed
	case fate.Is == Reverted:
		return Outcome{State: Dead, Transaction: o.Transaction, Reason: reasonReverted}
	default:
		return Outcome{State: Dead, Transaction: o.Transaction, Reason: ReasonExpired, Unsent: true}
	}
}

// confirm waits until the chain says what the facilitator said. Its nodes may be
// a few blocks behind; what they do not say in time stays open.
func (g *Gate) confirm(ctx context.Context, o Outcome, r Record) Outcome {
	ctx, cancel := context.WithTimeout(ctx, g.SettleTimeout)
	defer cancel()
	claimed := Outcome{State: Unknown, Transaction: o.Transaction, Reason: reasonUnconfirmed}
	for pause := g.Pause; ; pause = min(2*pause, 8*g.Pause) {
		if o = g.truthOver(ctx, claimed, r); o.State != Unknown {
			return o
		}
		select {
		case <-time.After(pause):
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
	o.Durable = g.Truth == nil
	written, err := g.Ledger.Finish(ctx, r.Key, o)
	if o.State != Settled || r.State != Settling || o.Echo {
		g.quota.stale() // the reservation may have been given back, or made anew
	}
	if err != nil {
		g.Log.Error("cannot write how a settlement ended", "state", o.State, "transaction", o.Transaction, "error", err)
		o.Echo = false // it may have been written all the same, and counts once
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
	return g.sale(r)
}

// sale is what the buyer gets for a record whose settling has ended.
func (g *Gate) sale(r Record) (Sale, error) {
	switch r.State {
	case Settled:
		return Sale{Answer: r.Answer, Transaction: r.Transaction}, nil
	case Dead:
		return Sale{}, &Refusal{Of: ErrNotSettled, Reason: r.Reason, Transaction: r.Transaction}
	default:
		pending := &PendingError{Transaction: r.Transaction}
		if g.mayRepeat(r) {
			pending.After = max(0, r.Changed.Add(askPause).Sub(g.Now()))
		}
		return Sale{}, pending
	}
}

func panicError(p any) error { return fmt.Errorf("panic: %v\n%s", p, debug.Stack()) }
