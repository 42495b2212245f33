package ledger_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/payment"
)

func beginKeeps(w *world) {
	r := record("a", alice)
	w.begin(r)
	want := r
	s := settlement(r, 1000)
	want.State, want.Answer, want.Month = payment.Settling, payment.Queued(s.Answer), month
	w.same(w.get(r.Key), want)
	w.wantReserved(1)
}

func beginNeedsTheClaim(w *world) {
	w.begin(record("settling", alice))
	w.claim(record("claimed", alice))
	for name, owner := range map[string]string{"nowhere": alice, "settling": alice, "claimed": bob} {
		r := record(name, owner)
		if _, _, err := w.Begin(context.Background(), r.Key, owner, settlement(r, 1000)); !errors.Is(err, payment.ErrLost) {
			w.Errorf("%s by %s: %v, want ErrLost", name, owner, err)
		}
	}
	w.wantReserved(1)
}

// One process may take over its own claim, when it was silent for too long.
func beginNeedsTheRequest(w *world) {
	first := record("a", alice)
	w.claim(first)
	w.advance(2 * time.Hour)
	w.must(w.Heartbeat(context.Background(), alice, start.Add(4*time.Hour)))
	second := record("a", alice)
	second.Request, second.Deadline = sha256.Sum256([]byte("another request")), start.Add(3*time.Hour)
	w.claim(second)
	if _, _, err := w.Begin(context.Background(), first.Key, alice, settlement(first, 1000)); !errors.Is(err, payment.ErrLost) {
		w.Errorf("got %v, want ErrLost", err)
	}
	w.wantReserved(0)
	_, _, err := w.Begin(context.Background(), second.Key, alice, settlement(second, 1000))
	w.must(err)
	w.wantReserved(1)
}

func beginAtTheLimit(w *world) {
	w.begin(record("a", alice))
	b := w.claim(record("b", alice))
	if _, _, err := w.Begin(context.Background(), b.Key, alice, settlement(b, 1)); !errors.Is(err, payment.ErrLimit) {
		w.Errorf("got %v, want ErrLimit", err)
	}
	w.same(w.get(b.Key), b)
	w.wantReserved(1)
}

func monthsAreSeparate(w *world) {
	w.begin(record("a", alice))
	b := w.claim(record("b", alice))
	s := settlement(b, 1)
	s.Month = "2026-12"
	_, _, err := w.Begin(context.Background(), b.Key, alice, s)
	w.must(err)
	w.wantReserved(1)
	december, err := w.QuotaStatus(context.Background(), "2026-12")
	w.must(err)
	if december.Reserved != 1 {
		w.Errorf("December has %d", december.Reserved)
	}
}

func beginFindsDuplicate(w *world) {
	first, second := record("a", alice), record("b", bob)
	first.Identifier, second.Identifier = "order_0123456789", "order_0123456789"
	w.begin(first)
	w.claim(second)
	states := []payment.State{payment.Settling, payment.Unknown, payment.Settled}
	for _, state := range states {
		if state != payment.Settling {
			w.finish(first, payment.Outcome{State: state})
		}
		_, duplicate, err := w.Begin(context.Background(), second.Key, bob, settlement(second, 1000))
		w.must(err)
		if duplicate == nil {
			w.Fatalf("%s: began beside it", state)
		}
		if duplicate.State != state {
			w.Errorf("duplicate is %s, want %s", duplicate.State, state)
		}
		w.same(*duplicate, w.get(first.Key))
	}
	w.wantReserved(1)
}

func identifiersByPayer(w *world) {
	first, other, died := record("a", alice), record("b", alice), record("c", alice)
	first.Identifier, other.Identifier, died.Identifier = "order_0123456789", "order_0123456789", "order_x0123456789"
	other.Key.Payer = "0xother"
	w.begin(first)
	w.begin(other)
	w.begin(died)
	w.finish(died, payment.Outcome{State: payment.Dead})
	again := record("d", alice)
	again.Identifier = died.Identifier
	w.begin(again)
}

func settledKeeps(w *world) {
	r := record("a", alice)
	w.begin(r)
	w.advance(time.Minute)
	got := w.finish(r, payment.Outcome{State: payment.Settled, Transaction: "0xtx"})
	want := r
	want.State, want.Month, want.Transaction, want.Answer = payment.Settled, month, "0xtx", payment.Queued(settlement(r, 1).Answer)
	w.same(got, want)
	if !got.Changed.Equal(start.Add(time.Minute)) || !got.Claimed.Equal(start) {
		w.Errorf("claimed %v, changed %v", got.Claimed, got.Changed)
	}
	again, won, err := w.Claim(context.Background(), record("a", bob))
	w.must(err)
	if won {
		w.Error("a settled payment was claimed")
	}
	w.same(again, want)
}

func deadReturnsSettlement(w *world) {
	r := record("a", alice)
	w.begin(r)
	for range 2 {
		got := w.finish(r, payment.Outcome{State: payment.Dead, Reason: "insufficient_funds", Unsent: true})
		if got.State != payment.Dead || got.Reason != "insufficient_funds" || got.Month != "" {
			w.Errorf("got %+v", got)
		}
		w.wantReserved(0)
	}
	if got := w.get(r.Key); !got.Answer.IsZero() {
		w.Errorf("a dead payment has the answer %q", got.Answer)
	}
	if got := w.finish(r, payment.Outcome{State: payment.Unknown}); got.State != payment.Dead {
		w.Errorf("a dead payment became %s", got.State)
	}
}

// A transaction that failed on the chain was made all the same, and is one of
// the facilitator's free ones.
func deadKeepsWhatWasMade(w *world) {
	failed, open, perhaps := record("a", alice), record("b", alice), record("c", alice)
	w.begin(failed)
	w.finish(failed, payment.Outcome{State: payment.Dead, Transaction: "0xtx", Reason: "transaction_reverted", Unsent: true})
	w.begin(open)
	w.finish(open, payment.Outcome{State: payment.Unknown, Transaction: "0xother", Reason: "settlement_pending"})
	w.finish(open, payment.Outcome{State: payment.Dead, Reason: "authorization_expired_unspent", Unsent: true})
	w.begin(perhaps)
	w.finish(perhaps, payment.Outcome{State: payment.Dead, Reason: "authorization_spent_elsewhere"})
	w.wantReserved(3)
	for _, r := range []payment.Record{failed, open, perhaps} {
		if got := w.finish(r, payment.Outcome{State: payment.Settled, Transaction: "0xthird"}); got.State != payment.Settled || got.Month != month {
			w.Errorf("got %+v", got)
		}
	}
	w.wantReserved(3) // none is counted twice
}

func unknownKeeps(w *world) {
	r := record("a", alice)
	w.begin(r)
	w.finish(r, payment.Outcome{State: payment.Unknown, Transaction: "0xtx", Reason: "timeout"})
	got := w.finish(r, payment.Outcome{State: payment.Unknown, Reason: "settlement_pending"})
	if got.State != payment.Unknown || got.Transaction != "0xtx" || got.Reason != "settlement_pending" {
		w.Errorf("got %+v", got)
	}
	w.wantReserved(1)
	w.wantAnswer(r)
}

func settledStays(w *world) {
	r := record("a", alice)
	w.begin(r)
	w.finish(r, payment.Outcome{State: payment.Settled, Transaction: "0xtx"})
	for _, state := range []payment.State{payment.Unknown, payment.Dead, payment.Settled} {
		if got := w.finish(r, payment.Outcome{State: state, Transaction: "0xother"}); got.State != payment.Settled || got.Transaction != "0xtx" {
			w.Errorf("after %s: %+v", state, got)
		}
	}
	w.wantReserved(1)
}

func deadMaySettle(w *world) {
	r := record("a", alice)
	w.begin(r)
	w.finish(r, payment.Outcome{State: payment.Dead, Unsent: true})
	w.wantReserved(0)
	got := w.finish(r, payment.Outcome{State: payment.Settled, Transaction: "0xtx"})
	if got.State != payment.Settled || got.Month != month {
		w.Errorf("got %+v", got)
	}
	w.wantReserved(1)
}

// retry reserves one more for a record that was read, in the month.
func (w *world) retry(r payment.Record, name string, limit int) error {
	return second(w.Apply(context.Background(), r.Key, retry(name, payment.Retry{Retries: w.get(r.Key).Retries, Limit: limit})))
}

func retriesAreReserved(w *world) {
	r := record("a", alice)
	w.begin(r)
	w.advance(time.Minute)
	w.must(w.retry(r, month, 1000))
	w.finish(r, payment.Outcome{State: payment.Unknown})
	w.must(w.retry(r, "2026-12", 1))
	w.wantReserved(2)
	if got := w.get(r.Key); got.Retries != 2 || len(got.RetryMonths) != 2 || got.RetryMonths[1] != "2026-12" || got.Month != month || !got.Changed.Equal(start.Add(time.Minute)) {
		w.Errorf("got %+v", got)
	}
	if err := w.retry(r, "2026-12", 1); !errors.Is(err, payment.ErrLimit) {
		w.Errorf("got %v, want ErrLimit", err)
	}
	// The one in December was an echo, and is given back once.
	for range 2 {
		w.finish(r, payment.Outcome{State: payment.Unknown, Echo: len(w.get(r.Key).RetryMonths) == 2})
	}
	w.must(w.retry(r, "2026-12", 1))
	w.finish(r, payment.Outcome{State: payment.Dead, Unsent: true})
	w.wantReserved(0)
	if got := w.get(r.Key); got.Month != "" || got.RetryMonths != nil || got.Retries != 3 {
		w.Errorf("got %+v", got)
	}
	w.finish(r, payment.Outcome{State: payment.Settled, Transaction: "0xtx"})
	w.wantReserved(1)
}

func retryNeedsTheRecordAsRead(w *world) {
	claimed, dead, settled, open := record("a", alice), record("b", alice), record("c", alice), record("d", alice)
	w.claim(claimed)
	for _, r := range []payment.Record{dead, settled, open} {
		w.begin(r)
	}
	w.finish(dead, payment.Outcome{State: payment.Dead})
	w.finish(settled, payment.Outcome{State: payment.Settled})
	for _, r := range []payment.Record{claimed, dead, settled} {
		if err := w.retry(r, month, 1000); !errors.Is(err, payment.ErrLost) {
			w.Errorf("%s: got %v, want ErrLost", r.Key.Nonce, err)
		}
	}
	for _, retries := range []int{1, -1} {
		if err := second(w.Apply(context.Background(), open.Key, retry(month, payment.Retry{Retries: retries, Limit: 1000}))); !errors.Is(err, payment.ErrLost) {
			w.Errorf("got %v, want ErrLost", err)
		}
	}
	if err := second(w.Apply(context.Background(), record("nowhere", alice).Key, retry(month, payment.Retry{Limit: 1000}))); !errors.Is(err, payment.ErrLost) {
		w.Errorf("got %v, want ErrLost", err)
	}
	w.wantReserved(3)
}

func onlyUnknownIsDecided(w *world) {
	settled, dead, claimed, settling, open := record("a", alice), record("b", alice), record("c", alice), record("d", alice), record("e", gone)
	for _, r := range []payment.Record{settled, dead, settling, open} {
		w.begin(r)
	}
	w.claim(claimed)
	w.finish(settled, payment.Outcome{State: payment.Unknown})
	w.finish(dead, payment.Outcome{State: payment.Unknown})
	apply := func(r payment.Record, o payment.Outcome) error {
		return second(w.Apply(context.Background(), r.Key, decide(payment.Unknown, o, "seen")))
	}
	paid := payment.Outcome{State: payment.Settled, Transaction: "0xtx", Reason: payment.DecidedReason("seen")}
	w.must(apply(settled, paid))
	w.must(apply(dead, payment.Outcome{State: payment.Dead, Reason: payment.DecidedReason("expired")}))
	w.must(apply(open, payment.Outcome{State: payment.Dead, Unsent: true})) // its owner is gone
	for _, r := range []payment.Record{settled, dead, claimed, settling, open, record("nowhere", alice)} {
		if err := apply(r, paid); !errors.Is(err, payment.ErrLost) {
			w.Errorf("%s: got %v, want ErrLost", r.Key.Nonce, err)
		}
	}
	if got := w.get(settled.Key); got.State != payment.Settled || got.Transaction != "0xtx" || got.Reason != "decided: seen" || got.Answer.IsZero() {
		w.Errorf("got %+v", got)
	}
	if got := w.get(dead.Key); got.State != payment.Dead || got.Reason != "decided: expired" || got.Month != month {
		w.Errorf("got %+v", got)
	}
	w.wantReserved(3)
}

func deadIsLookedAtSeldom(w *world) {
	r, settled := record("a", alice), record("b", alice)
	w.begin(r)
	w.begin(settled)
	w.finish(r, payment.Outcome{State: payment.Dead})
	w.finish(settled, payment.Outcome{State: payment.Settled})
	look := func(r payment.Record) bool {
		now, err := w.Look(context.Background(), r.Key, w.now.Add(-time.Minute))
		w.must(err)
		return now
	}
	for i, want := range []bool{true, false, true, false} {
		if got := look(r); got != want {
			w.Errorf("look %d: %v, want %v", i, got, want)
		}
		w.advance(31 * time.Second)
	}
	w.advance(time.Hour)
	look(r)
	if w.advance(-time.Hour); !look(r) || look(r) {
		w.Error("a look whose moment is still to come puts off the next one, or that puts off none")
	}
	if look(settled) || look(record("nowhere", alice)) {
		w.Error("what is not dead was looked at")
	}
}

// wantAnswer checks that a record still has what was sold.
func (w *world) wantAnswer(r payment.Record) {
	w.Helper()
	if got := w.get(r.Key); got.Answer.String() != string(settlement(r, 1).Answer) {
		w.Errorf("the answer is %q", got.Answer)
	}
}

func workingCannotFinish(w *world) {
	r := w.claim(record("a", alice))
	for _, key := range []payment.Key{r.Key, record("nowhere", alice).Key} {
		if _, err := w.Apply(context.Background(), key, payment.Verdict(payment.Outcome{State: payment.Settled})); !errors.Is(err, payment.ErrNotFound) {
			w.Errorf("got %v, want ErrNotFound", err)
		}
	}
	w.wantReserved(0)
}
