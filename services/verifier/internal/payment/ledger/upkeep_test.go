package ledger_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/services/verifier/internal/payment"
)

func dueOnce(w *world) {
	ctx := context.Background()
	for name, owner := range map[string]string{"abandoned": gone, "unknown": alice, "alive": alice, "settled": alice, "dead": alice} {
		w.begin(record(name, owner))
	}
	w.claim(record("claimed", gone))
	for name, state := range map[string]payment.State{"unknown": payment.Unknown, "settled": payment.Settled, "dead": payment.Dead} {
		w.finish(record(name, alice), payment.Outcome{State: state})
	}
	next := start.Add(time.Minute)
	for _, want := range []int{2, 0} {
		due := w.due(next)
		if len(due) != want {
			w.Errorf("%d are due, want %d: %+v", len(due), want, due)
		}
		for _, r := range due {
			if r.State != payment.Unknown || !r.Answer.IsZero() {
				w.Errorf("due is %+v", r)
			}
		}
	}
	w.finish(record("unknown", alice), payment.Outcome{State: payment.Unknown})
	w.advance(time.Minute)
	if due, err := w.Due(ctx, next.Add(time.Minute)); err != nil || due.State != payment.Unknown {
		w.Errorf("due again is %+v, %v", due, err)
	}
}

// What was taken while the clock was ahead is taken again once it is right, and not when it gets there.
func takenAhead(w *world) {
	ctx := context.Background()
	for name, state := range map[string]payment.State{"open": payment.Unknown, "ended": payment.Settled} {
		w.begin(record(name, alice))
		w.finish(record(name, alice), payment.Outcome{State: state})
	}
	take := func(want int) {
		w.Helper()
		ended, err := w.Ended(ctx, w.now.Add(-time.Second), 10, w.now.Add(20*time.Minute))
		w.must(err)
		if due := w.due(w.now.Add(time.Minute)); len(due) != want || len(ended) != want {
			w.Errorf("%d are due and %d to be checked, want %d of each", len(due), len(ended), want)
		}
	}
	w.advance(24 * time.Hour)
	take(1)
	w.advance(-23 * time.Hour)
	take(0)
	w.must(w.Prune(ctx, start))
	take(1)
	w.must(w.Prune(ctx, start))
	take(0)
}

// due takes all that are due.
func (w *world) due(next time.Time) (due []payment.Record) {
	w.Helper()
	for {
		r, err := w.Due(context.Background(), next)
		if errors.Is(err, payment.ErrNotFound) {
			return due
		}
		w.must(err)
		due = append(due, r)
	}
}

func pruneDrops(w *world) {
	ctx := context.Background()
	w.begin(record("old", alice))
	w.finish(record("old", alice), payment.Outcome{State: payment.Settled})
	w.begin(record("unknown", alice))
	w.finish(record("unknown", alice), payment.Outcome{State: payment.Unknown})
	w.claim(record("claimed", alice))
	w.claim(record("abandoned", gone))
	w.advance(time.Minute)
	w.begin(record("new", alice))
	w.finish(record("new", alice), payment.Outcome{State: payment.Settled})
	w.must(w.Prune(ctx, start.Add(time.Second)))
	for name, kept := range map[string]bool{"old": false, "unknown": true, "new": true} {
		if r := w.get(record(name, alice).Key); r.Answer.IsZero() == kept {
			w.Errorf("%s has the answer %q", name, r.Answer)
		}
	}
	w.get(record("claimed", alice).Key)
	list, err := w.List(ctx, payment.Filter{State: payment.Working})
	w.must(err)
	if len(list) != 1 {
		w.Errorf("%d claims are left, want 1", len(list))
	}
}

// Two payers buy one answer, the second a minute later.
func answerByHash(w *world) {
	ctx := context.Background()
	first, second := record("first", alice), record("second", alice)
	w.begin(first)
	w.finish(first, payment.Outcome{State: payment.Settled})
	w.advance(time.Minute)
	w.begin(second)
	w.finish(second, payment.Outcome{State: payment.Settled})
	answer := w.get(second.Key).Answer
	if !w.get(first.Key).Answer.Equal(answer) {
		w.Fatal("they bought different answers")
	}
	hash := payment.Digest(sha256.Sum256(answer.Bytes()))
	for _, before := range []time.Time{start, start.Add(time.Second)} {
		w.must(w.Prune(ctx, before))
		if got, err := w.Ledger.Answer(ctx, hash); err != nil || !got.Equal(answer) {
			w.Errorf("got %q, %v", got, err)
		}
	}
	w.must(w.Prune(ctx, start.Add(2*time.Minute)))
	for _, unknown := range []payment.Digest{hash, {}} {
		if got, err := w.Ledger.Answer(ctx, unknown); !errors.Is(err, payment.ErrNotFound) {
			w.Errorf("got %q, %v", got, err)
		}
	}
}

// Its record is read many times, and by many calls at once.
func largeByHash(w *world) {
	ctx := context.Background()
	for size, large := range map[int]bool{payment.LargeAnswer - 1: false, payment.LargeAnswer: true} {
		r := record(strconv.Itoa(size), alice)
		w.claim(r)
		s := settlement(r, 10)
		s.Answer = bytes.Repeat([]byte("a"), size)
		_, _, err := w.Begin(ctx, r.Key, r.Owner, s)
		w.must(err)
		w.finish(r, payment.Outcome{State: payment.Settled})
		claimed, won, err := w.Claim(ctx, r)
		if err != nil || won {
			w.Fatalf("claimed again: %v, %v", won, err)
		}
		for _, got := range []payment.Answer{w.get(r.Key).Answer, claimed.Answer} {
			hash, unread := got.Hash()
			if unread != large || (got.Bytes() == nil) != large || got.IsZero() || got.Size() != size {
				w.Errorf("%d bytes: unread %v, %d bytes are here, %d said", size, unread, len(got.Bytes()), got.Size())
			}
			if !unread {
				continue
			}
			if whole, err := w.Ledger.Answer(ctx, hash); err != nil || !bytes.Equal(whole.Bytes(), s.Answer) {
				w.Errorf("by its hash: %d bytes, %v", whole.Size(), err)
			}
		}
	}
}

// A clock that was ahead, and a claim that was made anew.
func pruneGoesByAge(w *world) {
	ctx := context.Background()
	settle := func(name string) {
		w.begin(record(name, alice))
		w.finish(record(name, alice), payment.Outcome{State: payment.Settled})
	}
	w.claim(record("anew", gone))
	settle("first")
	w.advance(10 * time.Minute)
	settle("ahead")
	w.advance(-8 * time.Minute)
	settle("second")
	w.advance(time.Minute)
	settle("anew")
	w.must(w.Prune(ctx, start.Add(4*time.Minute)))
	for name, kept := range map[string]bool{"first": false, "ahead": true, "second": false, "anew": false} {
		if r := w.get(record(name, alice).Key); r.Answer.IsZero() == kept {
			w.Errorf("%s has the answer %q", name, r.Answer)
		}
	}
}

// Most were claimed while the clock was ahead, and the last after it was set.
func pruneWhenNothingIsSold(w *world) {
	w.advance(10 * time.Minute)
	for i := range 101 {
		w.claim(record(fmt.Sprint("ahead ", i), alice))
	}
	w.advance(-10 * time.Minute)
	w.begin(record("last", alice))
	w.finish(record("last", alice), payment.Outcome{State: payment.Settled})
	w.must(w.Prune(context.Background(), start.Add(11*time.Minute)))
	if r := w.get(record("last", alice).Key); !r.Answer.IsZero() {
		w.Errorf("the last has the answer %q", r.Answer)
	}
}

func listFilters(w *world) {
	ctx := context.Background()
	for _, name := range []string{"a", "b", "c"} {
		r := record(name, alice)
		if name == "c" {
			r.Operation, r.Transport, r.Key.Payer = "base-token-transfer", payment.TransportMCP, "0xother"
		}
		w.begin(r)
		w.advance(time.Minute)
	}
	w.begin(record("d", gone))
	w.finish(record("b", alice), payment.Outcome{State: payment.Settled})
	tests := []struct {
		filter payment.Filter
		want   []string
	}{
		{payment.Filter{}, []string{"0xd", "0xc", "0xb", "0xa"}},
		{payment.Filter{Oldest: true, Limit: 2}, []string{"0xa", "0xb"}},
		{payment.Filter{Operation: "base-token-transfer"}, []string{"0xc"}},
		{payment.Filter{Operation: "base-transaction", Transport: payment.TransportHTTP}, []string{"0xd", "0xb", "0xa"}},
		{payment.Filter{Transport: payment.TransportMCP}, []string{"0xc"}},
		{payment.Filter{Payer: "0xother"}, []string{"0xc"}},
		{payment.Filter{Limit: 2}, []string{"0xd", "0xc"}},
		{payment.Filter{State: payment.Settled}, []string{"0xb"}},
		{payment.Filter{State: payment.Settling}, []string{"0xc", "0xa"}},
		{payment.Filter{State: payment.Unknown}, []string{"0xd"}},
		{payment.Filter{From: start.Add(time.Minute), Before: start.Add(3 * time.Minute)}, []string{"0xc", "0xb"}},
	}
	for _, tt := range tests {
		list, err := w.List(ctx, tt.filter)
		w.must(err)
		var got []string
		for _, r := range list {
			if !r.Answer.IsZero() {
				w.Errorf("%+v: the answer is listed", tt.filter)
			}
			got = append(got, r.Key.Nonce)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			w.Errorf("%+v (-want +got):\n%s", tt.filter, diff)
		}
	}
}

func totalsAddUp(w *world) {
	ctx := context.Background()
	for name, amount := range map[string]string{"a": "10000", "b": "10000", "c": "9223372036854775807", "d": "5"} {
		r := record(name, alice)
		r.Amount = amount
		w.begin(r)
		if name != "d" {
			w.finish(r, payment.Outcome{State: payment.Settled})
		}
	}
	w.advance(20 * 24 * time.Hour)
	w.must(w.Heartbeat(ctx, alice, start.Add(21*24*time.Hour)))
	december := record("e", alice)
	december.Deadline = start.Add(21 * 24 * time.Hour)
	w.claim(december)
	got, err := w.Totals(ctx, payment.Filter{})
	w.must(err)
	usd := payment.Total{Month: month, Network: "eip155:8453", Asset: "0xasset"}
	settled, unknown, claimed := usd, usd, usd
	settled.State, settled.Payments, settled.Amount = payment.Settled, 3, "9223372036854795807"
	unknown.State, unknown.Payments, unknown.Amount = payment.Unknown, 1, "5" // its deadline is long past
	claimed.Month, claimed.State, claimed.Payments, claimed.Amount = "2026-12", payment.Working, 1, "10000"
	if diff := cmp.Diff([]payment.Total{settled, unknown, claimed}, got); diff != "" {
		w.Errorf("totals (-want +got):\n%s", diff)
	}
	got, err = w.Totals(ctx, payment.Filter{State: payment.Settled, Before: start.Add(time.Hour)})
	w.must(err)
	if diff := cmp.Diff([]payment.Total{settled}, got); diff != "" {
		w.Errorf("filtered totals (-want +got):\n%s", diff)
	}
}

func totalsByMonth(w *world) {
	ctx := context.Background()
	for i := range 40 { // a day each, from the 21st of November to the 30th of December
		r := record(name(i), alice)
		r.Deadline = w.now.Add(time.Hour)
		w.must(w.Heartbeat(ctx, alice, r.Deadline))
		w.begin(r)
		outcome := payment.Outcome{State: payment.Settled, Transaction: "0xtx"}
		if i%4 == 3 {
			outcome = payment.Outcome{State: payment.Dead, Reason: "expired"}
		}
		w.finish(r, outcome)
		w.advance(24 * time.Hour)
	}
	total := func(month string, state payment.State, payments int) payment.Total {
		return payment.Total{
			Month: month, Network: "eip155:8453", Asset: "0xasset", State: state, Payments: payments, Amount: fmt.Sprint(payments * 10000),
		}
	}
	day := func(n int) time.Time { return start.Add(time.Duration(n) * 24 * time.Hour) }
	for name, c := range map[string]struct {
		filter payment.Filter
		want   []payment.Total
	}{
		"all": {payment.Filter{}, []payment.Total{
			total("2026-11", payment.Dead, 2), total("2026-11", payment.Settled, 8), total("2026-12", payment.Dead, 8), total("2026-12", payment.Settled, 22),
		}},
		"a state":              {payment.Filter{State: payment.Dead}, []payment.Total{total("2026-11", payment.Dead, 2), total("2026-12", payment.Dead, 8)}},
		"from within a month":  {payment.Filter{From: day(8)}, []payment.Total{total("2026-11", payment.Settled, 2), total("2026-12", payment.Dead, 8), total("2026-12", payment.Settled, 22)}},
		"until within a month": {payment.Filter{Before: day(12)}, []payment.Total{total("2026-11", payment.Dead, 2), total("2026-11", payment.Settled, 8), total("2026-12", payment.Dead, 1), total("2026-12", payment.Settled, 1)}},
		"a later year":         {payment.Filter{From: day(400)}, nil},
	} {
		got, err := w.Totals(ctx, c.filter)
		w.must(err)
		if diff := cmp.Diff(c.want, got); diff != "" {
			w.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
