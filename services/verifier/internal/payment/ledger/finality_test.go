package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
)

const ethereum = "eip155:1"

// digestOf is a digest that its name determines.
func digestOf(name byte) (d payment.Digest) {
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
	for backend, url := range sqldbtest.URLs(t) {
		t.Run(backend, func(t *testing.T) {
			test(t, newWorld(t, func(t *testing.T, now func() time.Time) Store {
				return func() *ledger.Ledger {
					l, err := ledger.Open(t.Context(), url, ledger.Options{Now: now, Finality: []string{ethereum, "eip155:10"}})
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

func (w *world) take() int {
	w.Helper()
	n, err := w.TakeSold(context.Background(), 100)
	w.must(err)
	return n
}

func (w *world) bundle(block byte) payment.Bundle {
	w.Helper()
	b, err := w.Bundle(context.Background(), ethereum, digestOf(block))
	w.must(err)
	return b
}

func (w *world) dueBundles(n int) []payment.Bundle {
	w.Helper()
	due, err := w.DueBundles(context.Background(), ethereum, payment.Makeable{UpTo: 1000}, w.time().Add(time.Minute), 10)
	w.must(err)
	if len(due) != n {
		w.Fatalf("%d bundles are due, want %d", len(due), n)
	}
	return due
}

func (w *world) time() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func TestABlockIsQueuedInTheWriteThatEndsItsSale(t *testing.T) {
	onEachFinal(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		r := record("1", alice)
		w.claim(r)
		s := settlement(r, 1000)
		s.Answer = about(ethereum, 'a', 20)
		_, _, err := w.Begin(ctx, r.Key, r.Owner, s)
		w.must(err)
		if _, err := w.Bundle(ctx, ethereum, digestOf('a')); !errors.Is(err, payment.ErrNotFound) {
			t.Errorf("before the sale has ended: %v", err)
		}
		w.finish(r, payment.Outcome{State: payment.Settled, Transaction: "0xtx"})
		if b := w.bundle('a'); b.State != payment.BundlePending || b.Number != 20 || !b.Queued.Equal(start) {
			t.Errorf("%+v", b)
		}
		w.sell("2", about("eip155:8453", 'b', 1)) // has no proofs
		w.sell("3", []byte(`{"answer":1}`))       // names no block
		if n := w.take(); n != 1 {
			t.Errorf("%d blocks were queued", n)
		}
		if b := w.bundle('a'); b.State != payment.BundlePending || b.Number != 20 || !b.Queued.Equal(start) || !b.Tried.IsZero() {
			t.Errorf("%+v", b)
		}
	})
}

func TestASaleThatBringsNoMoneyQueuesNoBlock(t *testing.T) {
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

func TestAPaymentThatAPersonDecidesQueuesItsBlock(t *testing.T) {
	onEachFinal(t, func(t *testing.T, w *world) {
		r := record("1", alice)
		w.claim(r)
		s := settlement(r, 1000)
		s.Answer = about(ethereum, 'a', 20)
		_, _, err := w.Begin(context.Background(), r.Key, r.Owner, s)
		w.must(err)
		w.finish(r, payment.Outcome{State: payment.Unknown})
		w.must(w.Resolve(context.Background(), r.Key, payment.Resolution{State: payment.Settled, Transaction: "0xtx", By: "op", Why: "seen"}))
		if b := w.bundle('a'); b.State != payment.BundlePending {
			t.Errorf("%+v", b)
		}
	})
}

func TestManySalesOfABlockMakeOneBundle(t *testing.T) {
	onEachFinal(t, func(t *testing.T, w *world) {
		other := w.store()
		var selling sync.WaitGroup
		for i := range 100 {
			selling.Go(func() {
				from := w.Ledger
				if i%2 == 1 {
					from = other
				}
				r := record(fmt.Sprintf("many%d", i), alice)
				if _, _, err := from.Claim(context.Background(), r); err != nil {
					t.Error(err)
				}
				s := settlement(r, 1000)
				s.Answer = about(ethereum, 'a'+byte(i%3), 20)
				if _, _, err := from.Begin(context.Background(), r.Key, r.Owner, s); err != nil {
					t.Error(err)
				}
				if _, err := from.Finish(context.Background(), r.Key, payment.Outcome{State: payment.Settled, Transaction: "0xtx"}); err != nil {
					t.Error(err)
				}
				if _, err := from.TakeSold(context.Background(), 2); err != nil {
					t.Error(err)
				}
			})
		}
		selling.Wait()
		for w.take() > 0 {
		}
		counts, err := w.BundleCounts(context.Background(), ethereum)
		w.must(err)
		if counts.States[payment.BundlePending] != 3 || !counts.Oldest.Equal(start) {
			t.Errorf("%+v", counts)
		}
	})
}

func TestADueBundleIsGivenToOneProcess(t *testing.T) {
	onEachFinal(t, func(t *testing.T, w *world) {
		for i := range 20 {
			w.sell(fmt.Sprint(i), about(ethereum, 'a'+byte(i), i))
		}
		w.take()
		other := w.store()
		var mu sync.Mutex
		given := map[payment.Digest]int{}
		var taking sync.WaitGroup
		for i := range 100 {
			taking.Go(func() {
				from := w.Ledger
				if i%2 == 1 {
					from = other
				}
				due, err := from.DueBundles(context.Background(), ethereum, payment.Makeable{UpTo: 1000}, start.Add(time.Minute), 1)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				for _, b := range due {
					given[b.Hash]++
				}
			})
		}
		taking.Wait()
		for hash, n := range given {
			if n != 1 {
				t.Errorf("%x was given %d times", hash[:1], n)
			}
		}
		if len(given) != 20 {
			t.Errorf("%d of 20 were given", len(given))
		}
		w.dueBundles(0)
		w.advance(time.Minute)
		w.dueBundles(10)
	})
}

func TestABundleOfABlockThatIsNotFinalIsNotGivenUnlessItIsGivenUp(t *testing.T) {
	onEachFinal(t, func(t *testing.T, w *world) {
		w.sell("1", about(ethereum, 'a', 20))
		w.advance(time.Minute)
		w.sell("2", about(ethereum, 'b', 21))
		w.take()
		given := func(can payment.Makeable, want ...byte) {
			t.Helper()
			due, err := w.DueBundles(context.Background(), ethereum, can, w.time(), 10)
			w.must(err)
			var got []byte
			for _, b := range due {
				for _, name := range "ab" {
					if b.Hash == digestOf(byte(name)) {
						got = append(got, byte(name))
					}
				}
			}
			slices.Sort(got)
			if string(got) != string(want) {
				t.Errorf("%+v: got %s, want %s", can, got, want)
			}
		}
		given(payment.Makeable{UpTo: 19, QueuedBefore: start})
		given(payment.Makeable{UpTo: 20, QueuedBefore: start}, 'a')
		given(payment.Makeable{UpTo: 21, QueuedBefore: start}, 'a', 'b')
		given(payment.Makeable{UpTo: 19, QueuedBefore: start.Add(time.Second)}, 'a')
	})
}

func TestTheFirstMadeBundleStays(t *testing.T) {
	onEachFinal(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		w.sell("1", about(ethereum, 'a', 20))
		w.take()
		b := w.dueBundles(1)[0]
		b.Period, b.Slot, b.Content = 3, 200, []byte("first")
		w.must(w.KeepBundle(ctx, b))
		second := b
		second.Period, second.Slot, second.Content = 4, 300, []byte("second")
		w.must(w.KeepBundle(ctx, second))
		second.State = payment.BundleUnavailable
		w.must(w.PutOff(ctx, second, start))
		w.sell("2", about(ethereum, 'a', 20)) // made already
		w.take()
		w.advance(time.Hour)
		w.dueBundles(0)
		if b := w.bundle('a'); b.State != payment.BundleMade || b.Period != 3 || b.Slot != 200 || string(b.Content) != "first" || !b.Made.Equal(start) {
			t.Errorf("%+v", b)
		}
		b.Hash = digestOf('x')
		if err := w.KeepBundle(ctx, b); !errors.Is(err, payment.ErrNotFound) {
			t.Errorf("a bundle of a block that was not sold: %v", err)
		}
	})
}

func TestABundleThatIsGivenUpIsPendingAgainWhenItsBlockIsSoldAgain(t *testing.T) {
	onEachFinal(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		w.sell("1", about(ethereum, 'a', 20))
		w.take()
		b := w.dueBundles(1)[0]
		b.Tried, b.Tries = start, 1
		w.must(w.PutOff(ctx, b, start.Add(time.Second)))
		w.dueBundles(0)
		w.advance(time.Second)
		if again := w.dueBundles(1)[0]; again.Tries != 1 || !again.Tried.Equal(start) {
			t.Errorf("%+v", again)
		}
		b.State = payment.BundleUnavailable
		w.must(w.PutOff(ctx, b, start))
		w.advance(time.Hour)
		w.dueBundles(0)
		if b := w.bundle('a'); b.State != payment.BundleUnavailable {
			t.Errorf("%+v", b)
		}
		w.sell("2", about(ethereum, 'a', 20))
		if b := w.bundle('a'); b.State != payment.BundlePending {
			t.Errorf("queued again: %+v", b)
		}
		w.take()
		if again := w.dueBundles(1)[0]; again.Tries != 0 || !again.Tried.IsZero() || !again.Queued.Equal(w.time()) {
			t.Errorf("%+v", again)
		}
	})
}

func TestBundlesAreKeptAsLongAsAnswers(t *testing.T) {
	onEachFinal(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		w.sell("1", about(ethereum, 'a', 20))
		w.take()
		b := w.dueBundles(1)[0]
		b.Content = []byte("content")
		w.must(w.KeepBundle(ctx, b))
		w.must(w.KeepStep(ctx, payment.FinalityStep{Chain: ethereum, Period: 1, Signers: 400, Step: []byte("s")}))
		w.must(w.KeepCheckpoint(ctx, payment.FinalityCheckpoint{Chain: ethereum, Root: digestOf('r'), Slot: 1, Own: true, Checkpoint: []byte("c")}))
		w.must(w.Prune(ctx, start))
		if b := w.bundle('a'); b.State != payment.BundleMade {
			t.Errorf("%+v", b)
		}
		w.advance(time.Hour)
		w.sell("2", about(ethereum, 'a', 20)) // sold again: kept from then on
		w.take()
		w.must(w.Prune(ctx, start.Add(time.Minute)))
		if b := w.bundle('a'); b.State != payment.BundleMade {
			t.Errorf("%+v", b)
		}
		w.must(w.Prune(ctx, start.Add(2*time.Hour)))
		if b := w.bundle('a'); b.State != payment.BundleExpired || b.Content != nil {
			t.Errorf("%+v", b)
		}
		if steps, err := w.Steps(ctx, ethereum, 1, 1); err != nil || len(steps) != 1 {
			t.Errorf("%v, %v: a proof of a younger block may need it", steps, err)
		}
		w.must(w.Prune(ctx, start.Add(60*24*time.Hour)))
		if steps, err := w.Steps(ctx, ethereum, 1, 1); err != nil || len(steps) != 0 {
			t.Errorf("%v, %v", steps, err)
		}
		if _, err := w.Checkpoint(ctx, ethereum, digestOf('r')); !errors.Is(err, payment.ErrNotFound) {
			t.Errorf("a checkpoint: %v", err)
		}
		if err := w.KeepBundle(ctx, b); !errors.Is(err, payment.ErrNotFound) {
			t.Errorf("a bundle that has expired is written: %v", err)
		}
	})
}

func TestTheStepWithMoreSignersStays(t *testing.T) {
	onEachFinal(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		var keeping sync.WaitGroup
		for i := range 100 {
			keeping.Go(func() {
				signers := 400 + i%50
				if err := w.KeepStep(ctx, payment.FinalityStep{Chain: ethereum, Period: 7, Signers: signers, Step: fmt.Append(nil, signers)}); err != nil {
					t.Error(err)
				}
			})
		}
		keeping.Wait()
		w.must(w.KeepStep(ctx, payment.FinalityStep{Chain: ethereum, Period: 7, Signers: 400, Final: true, Step: []byte("400")}))
		for _, period := range []uint64{8, 10} {
			w.must(w.KeepStep(ctx, payment.FinalityStep{Chain: ethereum, Period: period, Signers: 400, Step: []byte("s")}))
		}
		steps, err := w.Steps(ctx, ethereum, 7, 10)
		w.must(err)
		if len(steps) != 2 || steps[0].Signers != 449 || string(steps[0].Step) != "449" || !steps[0].Final || steps[1].Final {
			t.Errorf("%+v", steps)
		}
		if steps, err := w.Steps(ctx, ethereum, 6, 10); err != nil || len(steps) != 0 {
			t.Errorf("%+v, %v: the first is missing", steps, err)
		}
	})
}

func TestOwnCheckpointsAreListedTheOldestFirst(t *testing.T) {
	onEachFinal(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		keep := func(root byte, slot uint64, own bool) {
			w.must(w.KeepCheckpoint(ctx, payment.FinalityCheckpoint{
				Chain: ethereum, Root: digestOf(root), Slot: slot, Period: slot / 10, Own: own, Checkpoint: []byte(strings.Repeat("c", int(slot))),
			}))
		}
		keep('b', 20, true)
		keep('a', 10, true)
		keep('c', 30, false)
		keep('d', 40, false)
		keep('d', 40, true)
		keep('a', 10, false)
		list, err := w.OwnCheckpoints(ctx, ethereum, 10)
		w.must(err)
		var roots []byte
		for _, c := range list {
			roots = append(roots, c.Root[0])
		}
		if !slices.Equal(roots, []byte("abd")) {
			t.Errorf("%s", roots)
		}
		if list, err := w.OwnCheckpoints(ctx, ethereum, 11); err != nil || len(list) != 2 {
			t.Errorf("%v, %v", list, err)
		}
		if c, err := w.Checkpoint(ctx, ethereum, digestOf('c')); err != nil || c.Slot != 30 || c.Period != 3 || c.Own || len(c.Checkpoint) != 30 {
			t.Errorf("%+v, %v", c, err)
		}
	})
}
