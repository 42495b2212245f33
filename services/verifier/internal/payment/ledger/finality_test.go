package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
	"github.com/pforte/pforte/services/verifier/internal/beaconchain"
	"github.com/pforte/pforte/services/verifier/internal/beaconchain/bundlesql"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
)

const ethereum = "eip155:1"

// digestOf is a digest that its name determines.
func digestOf(name byte) (d finality.Root) {
	for i := range d {
		d[i] = name
	}
	return d
}

// about is an answer about a block.
func about(chain string, block byte, number int) []byte {
	hash := digestOf(block)
	return fmt.Appendf(nil, `{"receipt":{"chain":{"id":%q,"name":"c"},"block":{"number":"%d","hash":"0x%x"}},"signature":{}}`, chain, number, hash[:])
}

// onEachFinal runs a test on SQLite and Postgres, with a ledger that queues sold blocks.
func onEachFinal(t *testing.T, test func(t *testing.T, w *world)) {
	onEachOpened(t, []string{ethereum, "eip155:10"}, test)
}

// onEachOpened runs a test on SQLite and Postgres, with a ledger that is told which chains have proofs of finality.
func onEachOpened(t *testing.T, chains []string, test func(t *testing.T, w *world)) {
	for backend, url := range sqldbtest.URLs(t) {
		t.Run(backend, func(t *testing.T) {
			test(t, newWorld(t, func(t *testing.T, now func() time.Time) Store {
				return func() *ledger.Ledger {
					l, err := ledger.Open(t.Context(), url, ledger.Options{Now: now, Finality: chains})
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = l.Close() })
					return l
				}
			}))
		})
	}
}

// sell sells an answer, with a payment of that name.
func (w *world) sell(name string, answer []byte) payment.Record {
	w.Helper()
	r := record(name, alice)
	w.claim(r)
	s := settlement(r, 1000)
	s.Answer = answer
	_, duplicate, err := w.Begin(context.Background(), r.Key, r.Owner, s)
	w.must(err)
	if duplicate != nil {
		w.Fatal("a duplicate")
	}
	w.finish(r, payment.Outcome{State: payment.Settled, Transaction: "0xtx"})
	return r
}

// bundles is the store of proofs of finality, which takes what the ledger has queued.
func (w *world) bundles() *bundlesql.Store {
	return bundlesql.New(w.DB(), func() time.Time { return start })
}

func (w *world) take() int {
	w.Helper()
	n, err := w.bundles().TakeSold(context.Background(), 100)
	w.must(err)
	return n
}

func (w *world) bundle(block byte) beaconchain.Bundle {
	w.Helper()
	b, err := w.bundles().Bundle(context.Background(), ethereum, digestOf(block))
	w.must(err)
	return b
}

func TestFinality_EachBlockOfABatchIsQueuedOnce(t *testing.T) {
	onEachFinal(t, func(t *testing.T, w *world) {
		w.sell("1", receipt.JoinAnswers([][]byte{
			about(ethereum, 'a', 20), about(ethereum, 'b', 21), about(ethereum, 'a', 20), about("eip155:8453", 'c', 1),
		}))
		if b := w.bundle('b'); b.State != beaconchain.BundlePending || b.Number != 21 {
			t.Errorf("%+v", b)
		}
		if n := w.take(); n != 2 {
			t.Errorf("%d blocks were queued", n)
		}
	})
}

func TestFinality_ABlockIsQueuedAsItsSaleEnds(t *testing.T) {
	onEachFinal(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		r := record("1", alice)
		w.claim(r)
		s := settlement(r, 1000)
		s.Answer = about(ethereum, 'a', 20)
		_, _, err := w.Begin(ctx, r.Key, r.Owner, s)
		w.must(err)
		if _, err := w.bundles().Bundle(ctx, ethereum, digestOf('a')); !errors.Is(err, beaconchain.ErrNotFound) {
			t.Errorf("before the sale has ended: %v", err)
		}
		w.finish(r, payment.Outcome{State: payment.Settled, Transaction: "0xtx"})
		if b := w.bundle('a'); b.State != beaconchain.BundlePending || b.Number != 20 || !b.Queued.Equal(start) {
			t.Errorf("%+v", b)
		}
		w.sell("2", about("eip155:8453", 'b', 1)) // has no proofs
		w.sell("3", []byte(`{"answer":1}`))       // names no block
		if n := w.take(); n != 1 {
			t.Errorf("%d blocks were queued", n)
		}
		if b := w.bundle('a'); b.State != beaconchain.BundlePending || b.Number != 20 || !b.Queued.Equal(start) || !b.Tried.IsZero() {
			t.Errorf("%+v", b)
		}
	})
}

func TestFinality_ASaleWithoutMoneyQueuesNoBlock(t *testing.T) {
	onEachFinal(t, func(t *testing.T, w *world) {
		for name, o := range map[string]payment.Outcome{
			"1": {State: payment.Dead, Reason: "r", Unsent: true}, "2": {State: payment.Unknown, Reason: "r"},
		} {
			r := record(name, alice)
			w.claim(r)
			s := settlement(r, 1000)
			s.Answer = about(ethereum, 'a', 20)
			_, _, err := w.Begin(context.Background(), r.Key, r.Owner, s)
			w.must(err)
			w.finish(r, o)
		}
		if n := w.take(); n != 0 {
			t.Errorf("%d blocks were queued", n)
		}
		// What is found out or decided later queues it.
		w.finish(record("2", alice), payment.Outcome{State: payment.Settled, Transaction: "0xtx", Reason: "found"})
		if n := w.take(); n != 1 {
			t.Errorf("%d blocks were queued", n)
		}
	})
}

func TestDecide_QueuesTheBlockOfASettledPayment(t *testing.T) {
	if n, backends := blocksOfADecision(t), len(sqldbtest.URLs(t)); n != backends {
		t.Errorf("%d blocks were queued on %d databases, want one on each", n, backends)
	}
}

// blocksOfADecision returns how many blocks are queued when an operator decides that an unknown
// payment was settled, by a command, which is told of no chains.
func blocksOfADecision(t *testing.T) (queued int) {
	onEachOpened(t, nil, func(t *testing.T, w *world) {
		r := record("1", alice)
		w.claim(r)
		s := settlement(r, 1000)
		s.Answer = about(ethereum, 'a', 20)
		_, _, err := w.Begin(context.Background(), r.Key, r.Owner, s)
		w.must(err)
		w.finish(r, payment.Outcome{State: payment.Unknown})
		o := payment.Outcome{State: payment.Settled, Transaction: "0xtx", Reason: payment.DecidedReason("seen")}
		w.must(second(w.Apply(context.Background(), r.Key, decide(payment.Unknown, o, "seen"))))
		queued += w.take()
	})
	return queued
}

// A dead payment has lost its answer, so its block is queued with the answer that is made anew.
func TestAnew_QueuesTheBlockOfAPaymentThatWasDead(t *testing.T) {
	onEachFinal(t, func(t *testing.T, w *world) {
		r := record("1", alice)
		w.claim(r)
		s := settlement(r, 1000)
		s.Answer = about(ethereum, 'a', 20)
		_, _, err := w.Begin(context.Background(), r.Key, r.Owner, s)
		w.must(err)
		w.finish(r, payment.Outcome{State: payment.Dead, Reason: "refused"})
		w.finish(r, payment.Outcome{State: payment.Settled, Transaction: "0xtx", Reason: "found"})
		if n := w.take(); n != 0 {
			t.Errorf("%d blocks were queued without an answer", n)
		}
		for _, answer := range [][]byte{s.Answer, about("eip155:8453", 'b', 1), []byte(`{"answer":1}`)} {
			_, err = w.Anew(context.Background(), r.Key, answer)
			w.must(err)
		}
		if n := w.take(); n != 1 {
			t.Errorf("%d blocks were queued, want 1", n)
		}
	})
}
