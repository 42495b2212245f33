package ledger_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
)

// copyOf is a record of a copy that is not plain, of the payment that record names.
func copyOf(name, signature, owner string) payment.Record {
	r := record(name, owner)
	r.Payment = sha256.Sum256([]byte(signature))
	r.Request = sha256.Sum256([]byte("request of " + signature))
	r.Key, r.Plain = r.Key.OfCopy(r.Payment), false
	return r
}

// settle has a copy settled, which gets the key of the authorization.
func (w *world) settle(r payment.Record) {
	w.Helper()
	w.begin(r)
	ended, err := w.Apply(context.Background(), r.Key, payment.Verdict(payment.Outcome{State: payment.Settled, Transaction: "0xt"}))
	w.must(err)
	if ended.State != payment.Settled {
		w.Errorf("it ended as %+v", ended)
	}
}

func copiesAreApart(w *world) {
	a, b, plain := copyOf("a", "1", alice), copyOf("a", "2", bob), record("a", alice)
	for _, r := range []payment.Record{a, b, plain} {
		r.State = payment.Working
		w.same(w.claim(r), r)
		w.same(w.get(r.Key), r)
	}
	w.must(second(w.Apply(context.Background(), a.Key, release(alice))))
	w.wantGone(a.Key)
	w.get(plain.Key)
}

func settledCopyGetsTheKey(w *world) {
	r := copyOf("a", "1", alice)
	w.begin(r)
	for range 2 {
		ended, err := w.Apply(context.Background(), r.Key, payment.Verdict(payment.Outcome{State: payment.Settled, Transaction: "0xt"}))
		w.must(err)
		if ended.State != payment.Settled || ended.Transaction != "0xt" {
			w.Errorf("ended as %+v", ended)
		}
	}
	w.wantGone(r.Key)
	if got := w.get(r.Key.Bare()); got.State != payment.Settled || got.Payment != r.Payment || got.Plain || got.Answer.IsZero() {
		w.Errorf("the ledger has %+v", got)
	}
	w.wantReserved(1)
	if got, won, err := w.Claim(context.Background(), r); err != nil || won || got.Key != r.Key.Bare() {
		w.Errorf("claimed again: %v, %+v, %v", won, got, err)
	}
	if got, won, err := w.Claim(context.Background(), copyOf("a", "3", alice)); err != nil || won || got.Payment != r.Payment {
		w.Errorf("another is claimed: %v, %+v, %v", won, got, err)
	}
	w.wantGone(copyOf("a", "3", alice).Key)
}

func laterCopyIsDead(w *world) {
	other := copyOf("a", "2", alice)
	w.begin(other)
	w.settle(copyOf("a", "1", alice))
	if got := w.finish(other, payment.Outcome{State: payment.Settled, Transaction: "0xt"}); got.State != payment.Dead || got.Reason != payment.ReasonOtherCopy {
		w.Errorf("another copy ended as %+v", got)
	}
}

func plainCopyKeepsTheKey(w *world) {
	bad, good := copyOf("a", "1", alice), record("a", alice)
	w.begin(bad)
	w.claim(good)
	if got := w.finish(bad, payment.Outcome{State: payment.Settled, Transaction: "0xt"}); got.State != payment.Dead || got.Reason != payment.ReasonOtherCopy {
		w.Errorf("a copy that is not plain ended as %+v", got)
	}
	if got := w.get(good.Key); got.State != payment.Working {
		w.Errorf("the plain one is %+v", got)
	}
}

// An abandoned claim counts as not there, so it owns nothing: neither a later claim nor the money.
func abandonedPlainOwnsNothing(w *world) {
	bad, good := copyOf("a", "1", alice), record("a", gone)
	w.claim(good)
	w.settle(bad)
	if got := w.get(good.Key); got.State != payment.Settled || got.Payment != bad.Payment {
		w.Errorf("the ledger has %+v", got)
	}

	bad, good = copyOf("b", "1", alice), record("b", bob)
	good.Deadline = start.Add(time.Minute)
	w.begin(bad)
	w.claim(good)
	w.advance(2 * time.Minute)
	settled := payment.Verdict(payment.Outcome{State: payment.Settled, Transaction: "0xt"})
	if got, err := w.Apply(context.Background(), bad.Key, settled); err != nil || got.State != payment.Settled {
		w.Errorf("the copy ended as %+v, %v", got, err)
	}
	if got := w.get(good.Key); got.Payment != bad.Payment || got.Answer.IsZero() {
		w.Errorf("the ledger has %+v", got)
	}
	_, _, err := w.Begin(context.Background(), good.Key, bob, settlement(good, 1000))
	if !errors.Is(err, payment.ErrLost) {
		w.Errorf("the former owner began: %v", err)
	}
}

func deadGivesWay(w *world) {
	bad, good := copyOf("a", "1", alice), record("a", bob)
	w.settle(bad)
	if got, won, err := w.Claim(context.Background(), good); err != nil || won || got.State != payment.Settled {
		w.Errorf("claimed %v, %+v, %v; want what was settled", won, got, err)
	}
	w.must(second(w.Apply(context.Background(), good.Key, lost(payment.ReasonVanished))))
	w.finish(good, payment.Outcome{State: payment.Dead, Reason: payment.ReasonExpired})
	dead := w.get(good.Key)
	got := w.claim(good)
	good.State = payment.Working
	w.same(got, good)
	if got = w.get(good.Key); got.Transaction != "" || got.Reason != "" || !got.Answer.IsZero() {
		w.Errorf("it keeps %+v", got)
	}
	dead.Key = bad.Key
	w.same(w.get(bad.Key), dead)
	if got, won, err := w.Claim(context.Background(), bad); err != nil || won || got.State != payment.Dead {
		w.Errorf("the dead copy is claimed: %v, %+v, %v", won, got, err)
	}
}

// What was sold with a copy is not forgotten with the claim that came after it: its money may still come.
func releasedLeavesTheDead(w *world) {
	ctx := context.Background()
	for i, end := range []string{"released", "abandoned", "pruned"} {
		bad, good := copyOf(name(i), "1", alice), record(name(i), bob)
		good.Deadline = start.Add(time.Minute)
		w.settle(bad)
		w.must(second(w.Apply(ctx, good.Key, lost(payment.ReasonVanished))))
		w.finish(good, payment.Outcome{State: payment.Dead, Reason: payment.ReasonReverted})
		w.claim(good)
		if end == "released" {
			w.must(second(w.Apply(ctx, good.Key, release(bob))))
		} else {
			w.advance(2 * time.Minute)
		}
		if end == "pruned" {
			w.must(w.Prune(ctx, start))
		}
		w.wantGone(good.Key)
		if got := w.get(bad.Key); got.State != payment.Dead || got.Payment != bad.Payment {
			w.Errorf("%s: the copy is %+v", end, got)
		}
		w.must(second(w.Apply(ctx, bad.Key, payment.Verdict(payment.Outcome{State: payment.Settled, Transaction: "0xt"}))))
		if got := w.get(good.Key); got.State != payment.Settled || got.Payment != bad.Payment {
			w.Errorf("%s: the money came, and the copy is %+v", end, got)
		}
	}
}

func foundIsSettled(w *world) {
	ctx := context.Background()
	r := record("a", alice)
	if _, err := w.Found(ctx, r, []byte(`{"a":1}`), "0xt"); !errors.Is(err, payment.ErrLost) {
		w.Errorf("without a claim: %v", err)
	}
	w.claim(r)
	other := r
	other.Owner = bob
	if _, err := w.Found(ctx, other, []byte(`{"a":1}`), "0xt"); !errors.Is(err, payment.ErrLost) {
		w.Errorf("with another's claim: %v", err)
	}
	sold, err := w.Found(ctx, r, []byte(`{"a":1}`), "0xt")
	w.must(err)
	got := w.get(r.Key)
	if got.State != payment.Settled || got.Transaction != "0xt" || !got.Answer.Equal(sold) || got.Month != month {
		w.Errorf("the ledger has %+v", got)
	}
	if _, err := w.Found(ctx, r, []byte(`{"a":2}`), "0xt"); !errors.Is(err, payment.ErrLost) {
		w.Errorf("once more: %v", err)
	}
	w.wantReserved(1)
}

func foundTakesOverACopy(w *world) {
	ctx := context.Background()
	bad, good := copyOf("a", "1", alice), record("a", bob)
	w.settle(bad)
	again := copyOf("a", "2", bob)
	again.Key = again.Key.Bare()
	if _, err := w.Found(ctx, again, []byte(`{"a":1}`), "0xt"); !errors.Is(err, payment.ErrLost) {
		w.Errorf("for another that is not plain: %v", err)
	}
	more := good
	more.Amount = "250000"
	if _, err := w.Found(ctx, more, []byte(`{"a":1}`), "0xt"); !errors.Is(err, payment.ErrUsed) {
		w.Errorf("for another amount: %v", err)
	}
	if got := w.get(good.Key); got.Payment != bad.Payment || got.Plain {
		w.Errorf("the ledger has %+v", got)
	}
	sold, err := w.Found(ctx, good, []byte(`{"a":2}`), "0xt")
	w.must(err)
	got := w.get(good.Key)
	if got.Payment != good.Payment || got.Request != good.Request || !got.Plain || !got.Answer.Equal(sold) {
		w.Errorf("the ledger has %+v", got)
	}
	w.wantReserved(1)
}

func othersDoNotCountForThePlain(w *world) {
	ctx := context.Background()
	bad := copyOf("a", "1", alice)
	bad.Identifier = "order_0123456789"
	w.begin(bad)
	good := record("b", bob)
	good.Identifier, good.Request = bad.Identifier, bad.Request
	if r, err := w.Earlier(ctx, payment.Asked{Payer: good.Key.Payer, Identifier: good.Identifier, Plain: true}); !errors.Is(err, payment.ErrNotFound) {
		w.Errorf("the identifier has bought %+v, %v", r, err)
	}
	if r, err := w.Earlier(ctx, payment.Asked{Payer: good.Key.Payer, Request: good.Request, Since: start, Plain: true}); !errors.Is(err, payment.ErrNotFound) {
		w.Errorf("the question was asked by %+v, %v", r, err)
	}
	if _, err := w.Earlier(ctx, payment.Asked{Payer: good.Key.Payer, Request: good.Request, Since: start, Plain: false}); err != nil {
		w.Error(err) // a contract's
	}
	w.begin(good)
}

// oneCopyGetsTheKey: copies that are not plain are settled, and plain ones claimed, at once.
func oneCopyGetsTheKey(w *world) {
	for round := range 5 {
		payment100 := name(round)
		copies := make([]payment.Record, 100)
		for i := range copies {
			copies[i] = copyOf(payment100, fmt.Sprint(i), alice)
			w.begin(copies[i])
		}
		var settled, claimed atomic.Int32
		w.at(100, func(i int, l *ledger.Ledger) {
			if round%2 == 1 && i%10 == 0 {
				if _, won, err := l.Claim(context.Background(), record(payment100, alice)); err != nil {
					w.Error(err)
				} else if won {
					claimed.Add(1)
				}
				return
			}
			ended, err := l.Apply(context.Background(), copies[i].Key, payment.Verdict(payment.Outcome{State: payment.Settled, Transaction: "0xt"}))
			switch {
			case err != nil:
				w.Error(err)
			case ended.State == payment.Settled:
				settled.Add(1)
			case ended.Reason != payment.ReasonOtherCopy:
				w.Errorf("ended as %+v", ended)
			}
		})
		if settled.Load()+claimed.Load() != 1 {
			w.Errorf("round %d: %d copies were settled, %d claimed; want one in all", round, settled.Load(), claimed.Load())
		}
	}
}

// oneGetsTheKeyOfTheDead: plain copies, and the dead one itself, are claimed at once.
func oneGetsTheKeyOfTheDead(w *world) {
	for round := range 2 {
		bad := copyOf(name(round), "1", alice)
		w.settle(bad)
		w.must(second(w.Apply(context.Background(), bad.Key.Bare(), lost(payment.ReasonVanished))))
		w.must(second(w.Apply(context.Background(), bad.Key.Bare(), payment.Verdict(payment.Outcome{State: payment.Dead}))))
		var claimed atomic.Int32
		w.at(100, func(i int, l *ledger.Ledger) {
			r := record(name(round), alice)
			if i%3 == 0 {
				r = bad
			}
			if _, won, err := l.Claim(context.Background(), r); err != nil || won && !r.Plain {
				w.Errorf("claimed %v, %v", won, err)
			} else if won {
				claimed.Add(1)
			}
		})
		if got := w.get(bad.Key); claimed.Load() != 1 || got.State != payment.Dead {
			w.Errorf("round %d: %d plain copies were claimed, the dead one is %+v", round, claimed.Load(), got)
		}
	}
}

// Retries of the copy that is taken over were made, and its settlements used up.
func takenOverReturnsNothingOfTheOther(w *world) {
	ctx := context.Background()
	bad, good := copyOf("a", "1", alice), record("a", bob)
	w.settle(bad)
	w.must(second(w.Apply(ctx, good.Key, lost(payment.ReasonVanished))))
	w.must(second(w.Apply(ctx, good.Key, retry(month, payment.Retry{Limit: 1000}))))
	w.finish(good, payment.Outcome{State: payment.Dead, Reason: payment.ReasonReverted})
	w.wantReserved(2)
	w.begin(good)
	w.wantReserved(3)
	if got := w.get(good.Key); got.Retries != 0 || len(got.RetryMonths) != 0 {
		w.Errorf("it keeps %d retries, %v", got.Retries, got.RetryMonths)
	}
	w.finish(good, payment.Outcome{State: payment.Dead, Reason: payment.ReasonExpired, Unsent: true})
	w.wantReserved(2)
}

// What was refunded is no longer our money, so it buys no other answer.
func refundedIsNotTakenOver(w *world) {
	ctx := context.Background()
	bad, good := copyOf("a", "1", alice), record("a", bob)
	w.settle(bad)
	w.must(w.Refund(ctx, good.Key, payment.Refund{Transaction: "0x1", Amount: "10000", By: "root", Note: "n"}))
	if _, err := w.Found(ctx, good, []byte(`{"a":2}`), "0xt"); !errors.Is(err, payment.ErrUsed) {
		w.Errorf("found: %v", err)
	}
	if got := w.get(good.Key); got.Payment != bad.Payment {
		w.Errorf("the ledger has %+v", got)
	}
	// Nor where a reorganization took its transfer, which may come again.
	w.must(second(w.Apply(ctx, good.Key, lost(payment.ReasonVanished))))
	w.finish(good, payment.Outcome{State: payment.Dead, Reason: payment.ReasonReverted})
	if _, _, err := w.Claim(ctx, good); !errors.Is(err, payment.ErrUsed) {
		w.Errorf("claimed: %v", err)
	}
}
