package ledger_test

import (
	"context"
	"errors"
	"math/big"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
)

func decisionsAreKept(w *world) {
	ctx := context.Background()
	r := record("a", alice)
	w.begin(r)
	dead := decide(payment.Unknown, payment.Outcome{State: payment.Dead, Reason: payment.DecidedReason("never came")}, "never came")
	if _, err := w.Apply(ctx, r.Key, dead); !errors.Is(err, payment.ErrLost) {
		w.Errorf("one that is settling is decided: %v", err)
	}
	w.finish(r, payment.Outcome{State: payment.Unknown})
	w.must(second(w.Apply(ctx, r.Key, dead)))
	w.wantReserved(1) // its settlement is not returned
	w.must(second(w.Apply(ctx, r.Key, decide(payment.Dead, payment.Outcome{State: payment.Settled, Transaction: "0xt"}, "the chain: paid"))))
	if got := w.get(r.Key); got.State != payment.Settled || got.Transaction != "0xt" {
		w.Errorf("the record is %+v", got)
	}
	decisions, _, err := w.Books(ctx, r.Key)
	w.must(err)
	want := []payment.Decision{
		{At: start, From: payment.Unknown, To: payment.Dead, By: "root", Note: "never came"},
		{At: start, From: payment.Dead, To: payment.Settled, Transaction: "0xt", By: "root", Note: "the chain: paid"},
	}
	if diff := cmp.Diff(want, decisions); diff != "" {
		w.Error(diff)
	}
	if settled, dead, err := w.Decided(ctx); err != nil || settled != 1 || dead != 1 {
		w.Errorf("decided are %d settled, %d dead, %v", settled, dead, err)
	}
	for _, text := range []string{"0xA", "0xT"} {
		if found, err := w.Find(ctx, text); err != nil || len(found) != 1 || found[0].Key != r.Key || !found[0].Answer.IsZero() {
			w.Errorf("%s finds %+v, %v", text, found, err)
		}
	}
	if found, err := w.Find(ctx, ""); err != nil || len(found) != 0 {
		w.Errorf("nothing finds %+v, %v", found, err)
	}
}

func refundsAreKept(w *world) {
	ctx := context.Background()
	r, other := record("a", alice), record("b", alice)
	refund := func(of payment.Record, transaction, amount string, moved int64) error {
		refund := payment.Refund{Transaction: transaction, Amount: amount, By: "root", Note: "sold twice"}
		if moved > 0 {
			refund.Proven, refund.Moved = true, big.NewInt(moved)
		}
		return w.Refund(ctx, of.Key, refund)
	}
	for _, r := range []payment.Record{r, other} {
		w.begin(r)
		if err := refund(r, "0x1", "1", 0); !errors.Is(err, payment.ErrLost) {
			w.Errorf("one that is settling is refunded: %v", err)
		}
		w.finish(r, payment.Outcome{State: payment.Settled, Transaction: "0xt"})
	}
	for _, step := range []struct {
		of                  payment.Record
		transaction, amount string
		moved               int64
		want                error
	}{
		{r, "0x1", "10001", 0, payment.ErrTooMuch},
		{r, "0x1", "4000", 3999, payment.ErrTooMuch},
		{r, "0x1", "4000", 5000, nil},
		{r, "0x1", "1000", 5000, payment.ErrBooked},
		{other, "0x1", "1001", 5000, payment.ErrTooMuch}, // the transaction moved no more
		{other, "0x1", "1000", 5000, nil},
		{r, "0x2", "6001", 0, payment.ErrTooMuch},
		{r, "0x2", "6000", 0, nil},
		{r, "0x2", "6000", 0, payment.ErrBooked}, // all is refunded, and the operator is told that this one counts
		{r, "0x3", "1", 0, payment.ErrTooMuch},
	} {
		if err := refund(step.of, step.transaction, step.amount, step.moved); !errors.Is(err, step.want) || (err == nil) != (step.want == nil) {
			w.Errorf("refund %+v: %v", step, err)
		}
	}
	_, refunds, err := w.Books(ctx, r.Key)
	w.must(err)
	want := []payment.Refund{
		{At: start, Transaction: "0x1", Amount: "4000", Proven: true, By: "root", Note: "sold twice"},
		{At: start, Transaction: "0x2", Amount: "6000", By: "root", Note: "sold twice"},
	}
	if diff := cmp.Diff(want, refunds); diff != "" {
		w.Error(diff)
	}
	if got := w.get(r.Key); got.State != payment.Settled {
		w.Errorf("a refund made it %s", got.State)
	}
	total := payment.Total{Month: month, State: payment.Settled, Network: "eip155:8453", Asset: "0xasset", Payments: 2, Amount: "20000", Refunded: "11000", Net: "9000"}
	totals, err := w.Totals(ctx, payment.Filter{})
	if err != nil || !cmp.Equal(totals, []payment.Total{total}) {
		w.Errorf("the totals are %+v, %v", totals, err)
	}
	for by, mark := range map[string]func(*payment.Total){
		"operation": func(t *payment.Total) { t.Operation = "base-transaction" },
		"transport": func(t *payment.Total) { t.Transport = "http" },
		"day":       func(t *payment.Total) { t.Day = "2026-11-21" },
	} {
		want := total
		mark(&want)
		if got, err := w.Grouped(ctx, payment.Filter{}, by); err != nil || !cmp.Equal(got, []payment.Total{want}) {
			w.Errorf("by %s the totals are %+v, %v", by, got, err)
		}
	}
}

func totalsAreSplit(w *world) {
	for i, operation := range []string{"base-transaction", "base-token-transfer", "base-transaction"} {
		r := record(name(i), alice)
		if r.Operation = operation; i == 1 {
			r.Transport = payment.TransportMCP
		}
		w.begin(r)
		w.finish(r, payment.Outcome{State: payment.Settled})
		w.advance(24 * time.Hour)
	}
	for by, want := range map[string][]int{"operation": {1, 2}, "transport": {2, 1}, "day": {1, 1, 1}} {
		totals, err := w.Grouped(context.Background(), payment.Filter{State: payment.Settled}, by)
		w.must(err)
		var got []int
		for _, t := range totals {
			got = append(got, t.Payments)
		}
		if !cmp.Equal(got, want) {
			w.Errorf("by %s: %+v", by, totals)
		}
	}
}

func decidedOnce(w *world) {
	r := record("a", alice)
	w.begin(r)
	w.finish(r, payment.Outcome{State: payment.Unknown})
	var decided atomic.Int32
	w.at(100, func(i int, l *ledger.Ledger) {
		o := payment.Outcome{State: []payment.State{payment.Settled, payment.Dead}[i%2], Transaction: []string{"0xt", ""}[i%2]}
		_, err := l.Apply(context.Background(), r.Key, decide(payment.Unknown, o, "n"))
		switch {
		case err == nil:
			decided.Add(1)
		case !errors.Is(err, payment.ErrLost):
			w.Error(err)
		}
	})
	decisions, _, err := w.Books(context.Background(), r.Key)
	if err != nil || decided.Load() != 1 || len(decisions) != 1 || decisions[0].To != w.get(r.Key).State {
		w.Errorf("%d decided, %+v, %v", decided.Load(), decisions, err)
	}
}

func refundedOnce(w *world) {
	r := record("a", alice)
	w.begin(r)
	w.finish(r, payment.Outcome{State: payment.Settled, Transaction: "0xt"})
	var booked atomic.Int32
	w.at(100, func(i int, l *ledger.Ledger) {
		err := l.Refund(context.Background(), r.Key, payment.Refund{Transaction: "0x" + name(i), Amount: "3000", By: "root", Note: "n"})
		switch {
		case err == nil:
			booked.Add(1)
		case !errors.Is(err, payment.ErrTooMuch):
			w.Error(err)
		}
	})
	if booked.Load() != 3 {
		w.Errorf("%d refunds of 3000 were booked for 10000", booked.Load())
	}
}
