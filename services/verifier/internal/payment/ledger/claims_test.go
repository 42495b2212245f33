package ledger_test

import (
	"context"
	"errors"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/payment"
)

func claimIsReadBack(w *world) {
	r := record("a", alice)
	r.Identifier = "order_0123456789"
	claimed := w.claim(r)
	r.State = payment.Working
	w.same(claimed, r)
	w.same(w.get(r.Key), r)
	if got := w.get(r.Key); !got.Claimed.Equal(start) || !got.Changed.Equal(start) {
		w.Errorf("written at %v and %v, want %v", got.Claimed, got.Changed, start)
	}
}

func claimedOnce(w *world) {
	first := w.claim(record("a", alice))
	for _, owner := range []string{alice, bob} {
		again := record("a", owner)
		again.Request[0]++
		got, won, err := w.Claim(context.Background(), again)
		w.must(err)
		if won {
			w.Errorf("%s claimed it again", owner)
		}
		w.same(got, first)
	}
}

func releasedIsFree(w *world) {
	r := w.claim(record("a", alice))
	w.must(second(w.Apply(context.Background(), r.Key, release(alice))))
	w.must(second(w.Apply(context.Background(), r.Key, release(alice))))
	w.wantGone(r.Key)
	w.claim(record("a", bob))
}

func onlyOwnerReleases(w *world) {
	r := w.claim(record("a", alice))
	w.must(second(w.Apply(context.Background(), r.Key, release(bob))))
	w.same(w.get(r.Key), r)
	settling := record("b", alice)
	w.begin(settling)
	w.must(second(w.Apply(context.Background(), settling.Key, release(alice))))
	if got := w.get(settling.Key); got.State != payment.Settling {
		w.Errorf("a settling payment was released: %+v", got)
	}
}

func takenOverWhenGone(w *world) {
	w.claim(record("a", gone))
	w.wantGone(record("a", gone).Key)
	taken := record("a", bob)
	taken.Request[0]++
	taken.Amount = "20000"
	got := w.claim(taken)
	taken.State = payment.Working
	w.same(got, taken)

	w.claim(record("b", alice))
	w.must(w.Heartbeat(context.Background(), alice, time.Time{}))
	w.claim(record("b", bob))
	if _, _, err := w.Begin(context.Background(), record("b", alice).Key, alice, settlement(record("b", alice), 1000)); !errors.Is(err, payment.ErrLost) {
		w.Errorf("the former owner began: %v", err)
	}
}

func takenOverWhenSilent(w *world) {
	r := record("a", alice)
	r.Deadline = start.Add(24 * time.Hour)
	w.claim(r)
	w.advance(time.Hour)
	w.must(w.Heartbeat(context.Background(), bob, start.Add(2*time.Hour)))
	w.claim(record("b", bob))
	taken := record("a", bob)
	taken.Deadline = start.Add(24 * time.Hour)
	w.claim(taken)
}

func keptWhenAnotherArrives(w *world) {
	r := w.claim(record("a", alice))
	w.must(w.Register(context.Background(), bob, start.Add(10*time.Second)))
	got, won, err := w.Claim(context.Background(), record("a", bob))
	w.must(err)
	if won {
		w.Error("who arrived took the claim of one who is there")
	}
	w.same(got, r)
}

func takenOverWhenLate(w *world) {
	w.claim(record("a", alice))
	w.advance(30 * time.Minute)
	taken := record("a", bob)
	taken.Deadline = start.Add(45 * time.Minute)
	w.claim(taken)
}

func abandonedSettlingIsUnknown(w *world) {
	for _, r := range []payment.Record{record("a", gone), record("b", alice)} {
		w.begin(r)
	}
	w.advance(30 * time.Minute) // the deadline of b
	for _, name := range []string{"a", "b"} {
		got, won, err := w.Claim(context.Background(), record(name, bob))
		w.must(err)
		if won || got.State != payment.Unknown || got.Answer.IsZero() {
			w.Errorf("%s: won %v, %+v; want it unknown, with its answer", name, won, got)
		}
		w.same(w.get(got.Key), got)
	}
	s, err := w.QuotaStatus(context.Background(), month)
	w.must(err)
	if want := (payment.QuotaStatus{Reserved: 2, Unknown: 2, Oldest: w.get(record("a", gone).Key).Claimed}); s != want {
		w.Errorf("status is %+v, want %+v", s, want)
	}
}
