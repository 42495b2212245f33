package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
)

// ended lists the nonces that a check of at most two gets now.
func (w *world) ended(before time.Time) []string {
	w.Helper()
	list, err := w.Ended(context.Background(), before, 2, w.now.Add(time.Minute))
	w.must(err)
	var nonces []string
	for _, r := range list {
		if !r.Answer.IsZero() {
			w.Errorf("%s comes with its answer", r.Key.Nonce)
		}
		nonces = append(nonces, r.Key.Nonce)
	}
	return nonces
}

func (w *world) want(got []string, want ...string) {
	w.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("differs (-want +got):\n%s", diff)
	}
}

func endedComeOnce(w *world) {
	ctx := context.Background()
	states := []payment.State{payment.Settled, payment.Dead, payment.Unknown, payment.Settled, payment.Settled}
	for i, state := range states {
		w.advance(time.Second)
		r := record(fmt.Sprint(i), alice)
		w.begin(r)
		w.finish(r, payment.Outcome{State: state})
	}
	w.claim(record("working", alice))
	before := start.Add(5 * time.Second) // the last one was claimed then
	w.want(w.ended(before), "0x0", "0x1")
	w.want(w.ended(before)) // they are taken
	w.must(w.Checked(ctx, start.Add(time.Second)))
	w.want(w.ended(before), "0x1", "0x3") // only the first was checked
	w.advance(2 * time.Minute)            // the process that took them is gone
	w.want(w.ended(before), "0x1", "0x3")
	w.must(w.Checked(ctx, start.Add(4*time.Second)))
	w.must(w.Checked(ctx, start)) // what was checked stays so
	w.want(w.ended(before))
	w.must(w.Checked(ctx, start))
	w.want(w.ended(before.Add(time.Second)), "0x4")
}

func endedOfOneMoment(w *world) {
	for i := range 5 {
		if i == 1 || i == 4 {
			w.advance(time.Second)
		}
		r := record(fmt.Sprint(i), alice)
		w.begin(r)
		w.finish(r, payment.Outcome{State: payment.Settled})
	}
	got := w.ended(start.Add(time.Hour))
	if len(got) != 4 {
		w.Errorf("got %v, want the first and the three of the moment after it", got)
	}
	w.must(w.Checked(context.Background(), start.Add(time.Second)))
	w.want(w.ended(start.Add(time.Hour)), "0x4")
}

func settledIsReopened(w *world) {
	ctx := context.Background()
	r := record("a", alice)
	w.begin(r)
	if err := second(w.Apply(ctx, r.Key, lost("gone"))); !errors.Is(err, payment.ErrLost) {
		w.Errorf("what is under way was opened again: %v", err)
	}
	w.finish(r, payment.Outcome{State: payment.Settled, Transaction: "0xtx"})
	w.must(second(w.Apply(ctx, r.Key, lost("gone"))))
	if got := w.get(r.Key); got.State != payment.Unknown || got.Reason != "gone" || got.Transaction != "0xtx" || got.Answer.IsZero() || got.Month == "" {
		w.Errorf("got %+v", got)
	}
	w.wantReserved(1)
	if due := w.due(w.now.Add(time.Minute)); len(due) != 1 {
		w.Errorf("%d are due, want the one that is open again", len(due))
	}
	if got := w.finish(r, payment.Outcome{State: payment.Dead, Reason: "expired", Unsent: true}); got.State != payment.Dead {
		w.Errorf("got %+v", got)
	}
	w.wantReserved(1) // a transaction was made
	if err := second(w.Apply(ctx, record("none", alice).Key, lost("gone"))); !errors.Is(err, payment.ErrLost) {
		w.Errorf("what is not there was opened again: %v", err)
	}
}

func endedConcurrently(w *world) {
	r := record("a", alice)
	w.begin(r)
	w.finish(r, payment.Outcome{State: payment.Settled})
	w.advance(time.Second)
	var got atomic.Int32
	w.at(100, func(_ int, l *ledger.Ledger) {
		list, err := l.Ended(context.Background(), start.Add(time.Second), 10, start.Add(time.Hour))
		if err != nil {
			w.Error(err)
		}
		got.Add(int32(len(list)))
	})
	if got.Load() != 1 {
		w.Errorf("it was given %d times", got.Load())
	}
}
