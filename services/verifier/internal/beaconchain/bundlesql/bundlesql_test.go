package bundlesql_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
	"github.com/pforte/pforte/services/verifier/internal/beaconchain"
	"github.com/pforte/pforte/services/verifier/internal/beaconchain/bundlesql"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
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

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// process is a ledger, which queues sold blocks, and the store on its database.
type process struct {
	*bundlesql.Store
	ledger *ledger.Ledger
}

// world is a process, and more of them on its database, with a clock that tests move.
type world struct {
	*testing.T
	process
	another func() process

	mu  sync.Mutex
	now time.Time
}

// onEach runs a test on SQLite and Postgres.
func onEach(t *testing.T, test func(t *testing.T, w *world)) {
	for backend, url := range sqldbtest.URLs(t) {
		t.Run(backend, func(t *testing.T) {
			w := &world{T: t, now: start}
			w.another = func() process {
				l, err := ledger.Open(t.Context(), url, ledger.Options{Now: w.time, Finality: []string{ethereum}})
				w.must(err)
				t.Cleanup(func() { _ = l.Close() })
				return process{bundlesql.New(l.DB(), w.time), l}
			}
			w.process = w.another()
			test(t, w)
		})
	}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// sell sells an answer, with a payment of that name.
func (w *world) sell(name string, answer []byte) {
	w.Helper()
	w.must(w.process.sell(name, answer, w.time()))
}

func (p process) sell(name string, answer []byte, now time.Time) error {
	return paymenttest.Sell(p.ledger, now, name, answer, payment.Outcome{State: payment.Settled, Transaction: "0xtx"})
}

func (w *world) take() int {
	w.Helper()
	n, err := w.TakeSold(context.Background(), 100)
	w.must(err)
	return n
}

func (w *world) bundle(block byte) beaconchain.Bundle {
	w.Helper()
	b, err := w.Bundle(context.Background(), ethereum, digestOf(block))
	w.must(err)
	return b
}

func (w *world) dueBundles(n int) []beaconchain.Bundle {
	w.Helper()
	due, err := w.DueBundles(context.Background(), ethereum, beaconchain.Makeable{UpTo: 1000}, w.time().Add(time.Minute), 10)
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

func TestBundle_ManySalesOfABlockMakeOne(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		other := w.another()
		var selling sync.WaitGroup
		for i := range 100 {
			selling.Go(func() {
				from := []process{w.process, other}[i%2]
				if err := from.sell(fmt.Sprintf("many%d", i), about(ethereum, 'a'+byte(i%3), 20), start); err != nil {
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
		if counts.States[beaconchain.BundlePending] != 3 || !counts.Oldest.Equal(start) {
			t.Errorf("%+v", counts)
		}
	})
}

func TestBundle_OfASoldBlockIsKnownWhileItIsTaken(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for block := byte(1); block <= 30; block++ {
			w.sell(fmt.Sprint(block), about(ethereum, block, int(block)))
			taken := make(chan error, 1)
			go func() { _, err := w.TakeSold(context.Background(), 100); taken <- err }()
			for isTaken := false; !isTaken; {
				select {
				case err := <-taken:
					w.must(err)
					isTaken = true
				default:
				}
				if b := w.bundle(block); b.State != beaconchain.BundlePending || b.Number != uint64(block) {
					t.Fatalf("block %d: %+v", block, b)
				}
			}
		}
	})
}

func TestBundle_ThatIsDueIsGivenToOneProcess(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for i := range 20 {
			w.sell(fmt.Sprint(i), about(ethereum, 'a'+byte(i), i))
		}
		w.take()
		other := w.another()
		var mu sync.Mutex
		given := map[finality.Root]int{}
		var taking sync.WaitGroup
		for i := range 100 {
			taking.Go(func() {
				from := []process{w.process, other}[i%2]
				due, err := from.DueBundles(context.Background(), ethereum, beaconchain.Makeable{UpTo: 1000}, start.Add(time.Minute), 1)
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

func TestBundle_OfANonFinalBlockWaitsUnlessGivenUp(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.sell("1", about(ethereum, 'a', 20))
		w.advance(time.Minute)
		w.sell("2", about(ethereum, 'b', 21))
		w.take()
		given := func(can beaconchain.Makeable, want ...byte) {
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
		given(beaconchain.Makeable{UpTo: 19, QueuedBefore: start})
		given(beaconchain.Makeable{UpTo: 20, QueuedBefore: start}, 'a')
		given(beaconchain.Makeable{UpTo: 21, QueuedBefore: start}, 'a', 'b')
		given(beaconchain.Makeable{UpTo: 19, QueuedBefore: start.Add(time.Second)}, 'a')
	})
}

func TestBundle_TheFirstMadeStays(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		w.sell("1", about(ethereum, 'a', 20))
		w.take()
		b := w.dueBundles(1)[0]
		b.Period, b.Slot, b.Content = 3, 200, []byte("first")
		w.must(w.KeepBundle(ctx, b))
		second := b
		second.Period, second.Slot, second.Content = 4, 300, []byte("second")
		w.must(w.KeepBundle(ctx, second))
		second.State = beaconchain.BundleUnavailable
		w.must(w.PutOff(ctx, second, start))
		w.sell("2", about(ethereum, 'a', 20)) // made already
		w.take()
		w.advance(time.Hour)
		w.dueBundles(0)
		if b := w.bundle('a'); b.State != beaconchain.BundleMade || b.Period != 3 || b.Slot != 200 || string(b.Content) != "first" || !b.Made.Equal(start) {
			t.Errorf("%+v", b)
		}
		b.Hash = digestOf('x')
		if err := w.KeepBundle(ctx, b); !errors.Is(err, beaconchain.ErrNotFound) {
			t.Errorf("a bundle of a block that was not sold: %v", err)
		}
	})
}

func TestBundle_GivenUpIsPendingWhenSoldAgain(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
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
		b.State = beaconchain.BundleUnavailable
		w.must(w.PutOff(ctx, b, start))
		w.advance(time.Hour)
		w.dueBundles(0)
		if b := w.bundle('a'); b.State != beaconchain.BundleUnavailable {
			t.Errorf("%+v", b)
		}
		w.sell("2", about(ethereum, 'a', 20))
		if b := w.bundle('a'); b.State != beaconchain.BundlePending {
			t.Errorf("queued again: %+v", b)
		}
		w.take()
		if again := w.dueBundles(1)[0]; again.Tries != 0 || !again.Tried.IsZero() || !again.Queued.Equal(w.time()) {
			t.Errorf("%+v", again)
		}
	})
}

func TestBundle_IsKeptAsLongAsAnswers(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		w.sell("1", about(ethereum, 'a', 20))
		w.take()
		b := w.dueBundles(1)[0]
		b.Content = []byte("content")
		w.must(w.KeepBundle(ctx, b))
		w.must(w.KeepStep(ctx, beaconchain.Step{Chain: ethereum, Period: 1, Signers: 400, Step: []byte("s")}))
		w.must(w.KeepCheckpoint(ctx, beaconchain.Checkpoint{Chain: ethereum, Root: digestOf('r'), Slot: 1, Own: true, Checkpoint: []byte("c")}))
		w.must(w.Prune(ctx, start))
		if b := w.bundle('a'); b.State != beaconchain.BundleMade {
			t.Errorf("%+v", b)
		}
		w.advance(time.Hour)
		w.sell("2", about(ethereum, 'a', 20)) // sold again: kept from then on
		w.take()
		w.must(w.Prune(ctx, start.Add(time.Minute)))
		if b := w.bundle('a'); b.State != beaconchain.BundleMade {
			t.Errorf("%+v", b)
		}
		w.must(w.Prune(ctx, start.Add(2*time.Hour)))
		if b := w.bundle('a'); b.State != beaconchain.BundleExpired || b.Content != nil {
			t.Errorf("%+v", b)
		}
		if steps, err := w.Steps(ctx, ethereum, 1, 1); err != nil || len(steps) != 1 {
			t.Errorf("%v, %v: a proof of a younger block may need it", steps, err)
		}
		w.must(w.Prune(ctx, start.Add(60*24*time.Hour)))
		if steps, err := w.Steps(ctx, ethereum, 1, 1); err != nil || len(steps) != 0 {
			t.Errorf("%v, %v", steps, err)
		}
		if _, err := w.Checkpoint(ctx, ethereum, digestOf('r')); !errors.Is(err, beaconchain.ErrNotFound) {
			t.Errorf("a checkpoint: %v", err)
		}
		if err := w.KeepBundle(ctx, b); !errors.Is(err, beaconchain.ErrNotFound) {
			t.Errorf("a bundle that has expired is written: %v", err)
		}
	})
}

func TestFinality_TheStepWithMoreSignersStays(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		var keeping sync.WaitGroup
		for i := range 100 {
			keeping.Go(func() {
				signers := 400 + i%50
				if err := w.KeepStep(ctx, beaconchain.Step{Chain: ethereum, Period: 7, Signers: signers, Step: fmt.Append(nil, signers)}); err != nil {
					t.Error(err)
				}
			})
		}
		keeping.Wait()
		w.must(w.KeepStep(ctx, beaconchain.Step{Chain: ethereum, Period: 7, Signers: 400, Final: true, Step: []byte("400")}))
		for _, period := range []uint64{8, 10} {
			w.must(w.KeepStep(ctx, beaconchain.Step{Chain: ethereum, Period: period, Signers: 400, Step: []byte("s")}))
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

func TestFinality_OwnCheckpointsAreListedOldestFirst(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		keep := func(root byte, slot uint64, own bool) {
			w.must(w.KeepCheckpoint(ctx, beaconchain.Checkpoint{
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
