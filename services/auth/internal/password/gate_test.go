package password_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/pforte/pforte/services/auth/internal/password"
)

// busy returns a hasher whose one slot is taken until done is called.
func busy(t *testing.T, queue int) (h *password.Hasher, done func()) {
	t.Helper()
	h = newHasher(t, password.Options{Cost: bcrypt.MinCost, Concurrency: 1, Queue: queue})
	done, err := h.Occupy(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h, done
}

func await(t *testing.T, condition func() bool) {
	t.Helper()
	for range 10_000 {
		if condition() {
			return
		}
		time.Sleep(100 * time.Microsecond)
	}
	t.Fatal("it does not come to pass")
}

func TestGate_AFullQueueRefusesAtOnce(t *testing.T) {
	h, done := busy(t, 1)
	waiting := make(chan error, 1)
	go func() { waiting <- h.VerifyDummy(context.WithoutCancel(t.Context()), "password") }()
	await(t, func() bool { return h.Stats().Waiting == 1 })
	start := time.Now()
	if err := h.VerifyDummy(t.Context(), "password"); !errors.Is(err, password.ErrBusy) {
		t.Errorf("verify: %v", err)
	}
	if _, err := h.Hash(t.Context(), "password"); !errors.Is(err, password.ErrBusy) {
		t.Errorf("hash: %v", err)
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("the refusals took %v", took)
	}
	if stats := h.Stats(); stats.Refused != 2 {
		t.Errorf("stats %+v", stats)
	}
	done()
	if err := <-waiting; !errors.Is(err, password.ErrMismatch) {
		t.Errorf("the waiting caller: %v", err)
	}
	if stats := h.Stats(); stats != (password.Stats{Refused: 2}) {
		t.Errorf("stats afterwards %+v", stats)
	}
}

func TestGate_AStormFromOneNetworkLeavesSlots(t *testing.T) {
	const queue = 8
	h, done := busy(t, queue)
	ended := make(chan string, 2*queue)
	wait := func(network string) {
		waiting := h.Stats().Waiting
		refused := h.Stats().Refused
		go func() {
			leave, err := h.Occupy(password.From(context.WithoutCancel(t.Context()), network))
			if err != nil {
				ended <- network + ": " + err.Error()
				return
			}
			ended <- network // the next one has no turn before it leaves
			leave()
		}()
		await(t, func() bool { return h.Stats().Waiting > waiting || h.Stats().Refused > refused })
	}
	for range queue {
		wait("storm")
	}
	for _, network := range []string{"a", "b", "a"} {
		wait(network)
		if got, want := <-ended, "storm: "+password.ErrBusy.Error(); got != want {
			t.Errorf("%s came, and %q left; want %q", network, got, want)
		}
	}
	wait("storm")
	if got, want := <-ended, "storm: "+password.ErrBusy.Error(); got != want {
		t.Errorf("one more of the storm: got %q, want %q", got, want)
	}
	if stats := h.Stats(); stats.Waiting != queue || stats.Refused != 4 {
		t.Errorf("stats %+v", stats)
	}
	done()
	var order []string
	for range queue {
		order = append(order, <-ended)
	}
	if want := []string{"storm", "a", "b", "storm", "a", "storm", "storm", "storm"}; !slices.Equal(order, want) {
		t.Errorf("the order is %q, want %q", order, want)
	}
	await(t, func() bool { return h.Stats().Computing == 0 })
	if stats := h.Stats(); stats != (password.Stats{Refused: 4}) {
		t.Errorf("stats afterwards %+v", stats)
	}
}

// TestGate_ANetworkThatComesBackWaitsItsTurn: the second caller of a home is not overtaken by a network that has one at
// a time, and comes back at once.
func TestGate_ANetworkThatComesBackWaitsItsTurn(t *testing.T) {
	h, done := busy(t, 8)
	type turn struct {
		network string
		leave   func()
	}
	turns := make(chan turn, 8)
	wait := func(network string) {
		waiting := h.Stats().Waiting
		go func() {
			leave, err := h.Occupy(password.From(context.WithoutCancel(t.Context()), network))
			if err != nil {
				t.Error(err)
				return
			}
			turns <- turn{network, leave}
		}()
		await(t, func() bool { return h.Stats().Waiting > waiting })
	}
	wait("home")
	wait("home")
	wait("storm")
	done()
	var order []string
	for back := false; len(order) < 4; {
		next := <-turns
		order = append(order, next.network)
		if next.network == "storm" && !back {
			back = true
			wait("storm")
		}
		next.leave()
	}
	if want := []string{"home", "storm", "home", "storm"}; !slices.Equal(order, want) {
		t.Errorf("the order is %q, want %q", order, want)
	}
}

func TestGate_AsManyNetworksAsPlacesRefuseOneMore(t *testing.T) {
	h, done := busy(t, 2)
	defer done()
	for i, network := range []string{"a", "b"} {
		go func() { _ = h.VerifyDummy(password.From(t.Context(), network), "password") }()
		await(t, func() bool { return h.Stats().Waiting == i+1 })
	}
	if err := h.VerifyDummy(password.From(t.Context(), "c"), "password"); !errors.Is(err, password.ErrBusy) {
		t.Errorf("got %v", err)
	}
}

func TestGate_ACallerThatHangsUpLeavesTheQueue(t *testing.T) {
	h, done := busy(t, 1)
	ctx, hangUp := context.WithCancel(t.Context())
	waiting := make(chan error, 1)
	go func() { waiting <- h.VerifyDummy(ctx, "password") }()
	await(t, func() bool { return h.Stats().Waiting == 1 })
	hangUp()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Errorf("verify: %v", err)
	}
	if stats := h.Stats(); stats.Waiting != 0 {
		t.Errorf("stats %+v", stats)
	}
	if err := h.VerifyDummy(ctx, "password"); !errors.Is(err, context.Canceled) {
		t.Errorf("after hanging up: %v", err)
	}
	done()
	if err := h.VerifyDummy(t.Context(), "password"); !errors.Is(err, password.ErrMismatch) {
		t.Errorf("after the slot was free: %v", err)
	}
}

func TestGate_NoMoreAreComputedThanAllowed(t *testing.T) {
	h := newHasher(t, password.Options{Cost: bcrypt.MinCost, Concurrency: 2, Queue: 100})
	var most atomic.Int64
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			if err := h.VerifyDummy(t.Context(), "password"); !errors.Is(err, password.ErrMismatch) {
				t.Error(err)
			}
			for {
				now, seen := int64(h.Stats().Computing), most.Load()
				if now <= seen || most.CompareAndSwap(seen, now) {
					return
				}
			}
		})
	}
	all.Wait()
	if most.Load() > 2 || h.Stats() != (password.Stats{}) {
		t.Errorf("%d at once, afterwards %+v", most.Load(), h.Stats())
	}
}

func TestGate_HalfOfTheProcessorsAreForOtherRequests(t *testing.T) {
	h := newHasher(t, password.Options{Cost: bcrypt.MinCost})
	for range max(1, runtime.GOMAXPROCS(0)/2) {
		release, err := h.Occupy(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer release()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := h.Occupy(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one more: %v", err)
	}
}

func TestGate_OnASingleProcessorOneIsComputed(t *testing.T) {
	all := runtime.GOMAXPROCS(1)
	h := newHasher(t, password.Options{Cost: bcrypt.MinCost})
	runtime.GOMAXPROCS(all)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	release, err := h.Occupy(ctx)
	if err != nil {
		t.Fatal(err)
	}
	release()
}

func TestGate_AStormIsShedAndMemoryStaysFlat(t *testing.T) {
	h := newHasher(t, password.Options{Cost: bcrypt.MinCost, Concurrency: 1, Queue: 8})
	var computed, refused atomic.Int64
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			switch err := h.VerifyDummy(t.Context(), "password"); {
			case errors.Is(err, password.ErrBusy):
				refused.Add(1)
			case errors.Is(err, password.ErrMismatch):
				computed.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	runtime.GC()
	runtime.ReadMemStats(&after)
	if refused.Load() == 0 || computed.Load() < 9 || refused.Load()+computed.Load() != 200 || h.Stats().Refused != uint64(refused.Load()) {
		t.Errorf("%d computed, %d refused, %+v", computed.Load(), refused.Load(), h.Stats())
	}
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 4<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
}

func BenchmarkVerify(b *testing.B) {
	h := newHasher(b, password.Options{})
	stored := hash(b, h, "password")
	for b.Loop() {
		if _, err := h.Verify(b.Context(), stored, "password"); err != nil {
			b.Fatal(err)
		}
	}
}
