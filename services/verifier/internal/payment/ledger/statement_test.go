package ledger_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// A month is closed with one payment settled, one refunded in part and two open; afterwards an
// operator decides one of these, the chain the other, and more is refunded.
func statementKeeps(w *world) {
	ctx := context.Background()
	november := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for _, name := range []string{"settled", "refunded", "decided", "shown", "dead"} {
		w.begin(record(name, alice))
	}
	for name, state := range map[string]payment.State{
		"settled": payment.Settled, "refunded": payment.Settled, "decided": payment.Unknown, "shown": payment.Unknown, "dead": payment.Dead,
	} {
		w.finish(record(name, alice), payment.Outcome{State: state, Transaction: "0x" + name})
	}
	refund := func(transaction, amount string) {
		w.Helper()
		w.must(w.Refund(ctx, record("refunded", alice).Key, payment.Refund{Transaction: transaction, Amount: amount, By: "root", Note: "sold by mistake"}))
	}
	refund("0x1", "1000")
	line := payment.StatementLine{Network: "eip155:8453", Asset: "0xasset", Payments: 2, Amount: "20000", Refunded: "1000", Net: "19000"}
	want := payment.Statement{Month: month, Lines: []payment.StatementLine{line}, Corrections: []payment.Correction{}, Open: 2}
	check := func() {
		w.Helper()
		got, err := w.Statement(ctx, november)
		w.must(err)
		if diff := cmp.Diff(want, got); diff != "" {
			w.Error(diff)
		}
	}
	check()
	w.advance(time.Minute)
	w.must(w.CloseMonth(ctx, november, "root"))
	want.Closed, want.By = start.Add(time.Minute), "root"
	check()
	w.advance(time.Minute)
	refund("0x2", "500")
	w.must(second(w.Apply(ctx, record("decided", alice).Key, decide(payment.Unknown, payment.Outcome{State: payment.Settled, Transaction: "0xd"}, "seen"))))
	w.finish(record("shown", alice), payment.Outcome{State: payment.Settled, Transaction: "0xs"})
	at := start.Add(2 * time.Minute)
	of := payment.Correction{Network: line.Network, Asset: line.Asset}
	refunded, decided, shown := of, of, of
	refunded.At, refunded.Amount, refunded.Why, refunded.Nonce, refunded.By, refunded.Note = at, "-500", payment.CorrectedByRefund, "0xrefunded", "root", "sold by mistake"
	decided.At, decided.Amount, decided.Why, decided.Nonce, decided.By, decided.Note = at, "10000", payment.CorrectedByDecision, "0xdecided", "root", "seen"
	shown.Amount, shown.Why = "10000", payment.CorrectedByChain
	got, err := w.Statement(ctx, november)
	w.must(err)
	if len(got.Corrections) > 1 && got.Corrections[0].Why == payment.CorrectedByDecision { // both are of one moment
		got.Corrections[0], got.Corrections[1] = got.Corrections[1], got.Corrections[0]
	}
	want.Corrections, want.Open = []payment.Correction{refunded, decided, shown}, 0
	if diff := cmp.Diff(want, got); diff != "" {
		w.Error(diff)
	}
	if err := w.CloseMonth(ctx, november, "other"); !errors.Is(err, payment.ErrClosed) {
		w.Errorf("closed again: %v", err)
	}
	empty := november.AddDate(0, -1, 0)
	w.must(w.CloseMonth(ctx, empty, "root"))
	if got, err := w.Statement(ctx, empty); err != nil || got.Closed.IsZero() || len(got.Lines) != 0 || len(got.Corrections) != 0 {
		w.Errorf("of a month without sales: %+v, %v", got, err)
	}
}

// What an operator refunds while the statement is read is a correction of theirs, or none yet.
func statementIsOfOneMoment(w *world) {
	ctx := context.Background()
	november := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	const sales = 100
	for i := range sales {
		w.begin(record(name(i), alice))
		w.finish(record(name(i), alice), payment.Outcome{State: payment.Settled, Transaction: "0x" + name(i)})
	}
	w.must(w.CloseMonth(ctx, november, "root"))
	other := w.store()
	var refunding sync.WaitGroup
	refunding.Go(func() {
		for i := range sales {
			r := payment.Refund{Transaction: "0x" + name(i), Amount: "1", By: "root", Note: "n"}
			if err := other.Refund(ctx, record(name(i), alice).Key, r); err != nil {
				w.Error(err)
			}
		}
	})
	for done := 0; done < sales && !w.Failed(); {
		s, err := w.Statement(ctx, november)
		w.must(err)
		done = len(s.Corrections)
		for _, c := range s.Corrections {
			if c.Why == payment.CorrectedByChain {
				w.Errorf("with %d corrections one is by the chain: %+v", done, c)
			}
		}
	}
	refunding.Wait()
}

func monthIsClosedOnce(w *world) {
	var closed atomic.Int64
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			switch err := w.CloseMonth(context.Background(), time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), "root"); {
			case err == nil:
				closed.Add(1)
			case !errors.Is(err, payment.ErrClosed):
				w.Error(err)
			}
		})
	}
	all.Wait()
	if closed.Load() != 1 {
		w.Errorf("it was closed %d times", closed.Load())
	}
}
