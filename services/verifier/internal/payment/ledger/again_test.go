package ledger_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
)

// question is what two payments buy.
var question = payment.Digest(sha256.Sum256([]byte("question")))

func beginFindsEarlier(w *world) {
	first, second := record("a", alice), record("b", bob)
	first.Request, second.Request = question, question
	w.begin(first)
	w.claim(second)
	s := settlement(second, 1000)
	begin := func() *payment.Record {
		_, earlier, err := w.Begin(context.Background(), second.Key, bob, s)
		w.must(err)
		return earlier
	}
	for _, state := range []payment.State{payment.Settling, payment.Unknown, payment.Settled} {
		if state != payment.Settling {
			w.finish(first, payment.Outcome{State: state})
		}
		s.EarlierSince = start
		earlier := begin()
		if earlier == nil || earlier.State != state {
			w.Fatalf("%s: began beside it: %+v", state, earlier)
		}
		w.same(*earlier, w.get(first.Key))
	}
	w.wantReserved(1)
	s.EarlierSince = start.Add(time.Millisecond)
	if earlier := begin(); earlier != nil {
		w.Errorf("outside of the window it finds %+v", earlier)
	}
	w.wantReserved(2)
	third := record("c", alice)
	third.Request, third.Identifier = question, "order_0123456789"
	w.claim(third)
	s.EarlierSince = start
	if _, earlier, err := w.Begin(context.Background(), third.Key, alice, s); err != nil || earlier != nil {
		w.Errorf("with an identifier of its own it finds %+v, %v", earlier, err)
	}
}

func earlierIsFound(w *world) {
	ctx := context.Background()
	find := func(payer string, request payment.Digest, since time.Time) string {
		r, err := w.Earlier(ctx, payment.Asked{Payer: payer, Request: request, Since: since, Plain: true})
		if err != nil && !errors.Is(err, payment.ErrNotFound) {
			w.Fatal(err)
		}
		return r.Key.Nonce
	}
	r := record("a", alice)
	r.Request = question
	w.claim(r)
	if got := find("0xpayer", question, start); got != "" {
		w.Errorf("it finds %s, which may vanish", got)
	}
	_, _, err := w.Begin(ctx, r.Key, alice, settlement(r, 1000))
	w.must(err)
	for _, state := range []payment.State{payment.Settling, payment.Unknown, payment.Settled} {
		if state != payment.Settling {
			w.finish(r, payment.Outcome{State: state})
		}
		if got := find("0xpayer", question, start); got != "0xa" {
			w.Errorf("%s: it finds %q", state, got)
		}
	}
	w.advance(time.Minute)
	later := record("b", alice)
	later.Request = question
	w.begin(later)
	dead := record("c", alice)
	dead.Request = payment.Digest{1}
	w.begin(dead)
	w.finish(dead, payment.Outcome{State: payment.Dead})
	for got, want := range map[string]string{
		find("0xpayer", question, start):                       "0xa",
		find("0xpayer", question, start.Add(time.Millisecond)): "0xb",
		find("0xother", question, start):                       "",
		find("0xpayer", payment.Digest{}, start):               "",
		find("0xpayer", dead.Request, start):                   "",
	} {
		if got != want {
			w.Errorf("it finds %q, want %q", got, want)
		}
	}
}

func askedAgainIsCounted(w *world) {
	ctx, day := context.Background(), payment.Day(start)
	of := func(payer string) payment.Key { return of("question", payer, "").Key }
	count := func(payer string, day time.Time) bool {
		counted, err := w.Reuse(ctx, of(payer), day, 2, true)
		w.must(err)
		return counted
	}
	want := func(payer string, want int, wantOwed bool) {
		w.Helper()
		for limit, wantMay := range map[int]bool{want: wantOwed, want + 1: true} {
			if may, err := w.Reuse(ctx, of(payer), day, limit, false); err != nil || may != wantMay {
				w.Errorf("%s, at most %d times: may %v, %v", payer, limit, may, err)
			}
		}
	}
	tomorrow := day.Add(24 * time.Hour)
	got := []bool{count("a", day), count("a", day), count("a", day), count("b", day), count("a", tomorrow)}
	if want := []bool{true, true, false, true, true}; !slices.Equal(got, want) {
		w.Errorf("counted are %v, want %v", got, want)
	}
	want("a", 2, false)
	want("c", 0, false)
	paid := record("question", alice)
	paid.Key = of("a")
	w.begin(paid)
	want("a", 2, false) // it is not settled
	w.must(second(w.Apply(ctx, paid.Key, payment.Event{
		Kind: payment.EventChain, By: payment.ByService, Outcome: payment.Outcome{State: payment.Settled, Transaction: "0xtx"},
	})))
	want("a", 2, true)
	if got := []bool{count("a", day), count("a", day)}; !slices.Equal(got, []bool{true, false}) {
		w.Errorf("of an answer that is owed counted are %v", got)
	}
	want("a", 2, false)
	w.must(w.Prune(ctx, day.Add(time.Hour)))
	want("a", 0, false)
}

func oneQuestion(w *world) {
	var began atomic.Int32
	w.at(100, func(i int, l *ledger.Ledger) {
		r := record(name(i), alice)
		r.Request = question
		if _, won, err := l.Claim(context.Background(), r); err != nil || !won {
			w.Errorf("claim %d: %v, %v", i, won, err)
			return
		}
		s := settlement(r, 1000)
		s.EarlierSince = start
		_, earlier, err := l.Begin(context.Background(), r.Key, alice, s)
		if err != nil {
			w.Error(err)
		} else if earlier == nil {
			began.Add(1)
		}
	})
	if began.Load() != 1 {
		w.Errorf("%d settlements began for one question", began.Load())
	}
	w.wantReserved(1)
}

func askedAgainConcurrently(w *world) {
	var counted atomic.Int32
	w.at(100, func(_ int, l *ledger.Ledger) {
		ok, err := l.Reuse(context.Background(), of("question", "payer", "").Key, payment.Day(start), 20, true)
		if err != nil {
			w.Error(err)
		}
		if ok {
			counted.Add(1)
		}
	})
	if counted.Load() != 20 {
		w.Errorf("%d were counted, want 20", counted.Load())
	}
}
