package batch_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pforte/pforte/pkg/batch"
)

type call = batch.Call[int, int]

func square(_ context.Context, calls []*call) {
	for _, c := range calls {
		c.Value = c.Key * c.Key
	}
}

func TestEachCallGetsItsOwnAnswer(t *testing.T) {
	g := batch.New(time.Minute, square)
	var all sync.WaitGroup
	for key := range 100 {
		all.Go(func() {
			if got, err := g.Do(t.Context(), key); err != nil || got != key*key {
				t.Errorf("%d: %d, %v", key, got, err)
			}
		})
	}
	all.Wait()
}

// gate is a store whose trips wait until they are let go, one by one or all.
type gate struct {
	mu    sync.Mutex
	sizes []int // of the trips that began
	let   chan struct{}
}

func newGate() *gate { return &gate{let: make(chan struct{})} }

func (g *gate) travel(ctx context.Context, calls []*call) {
	g.mu.Lock()
	g.sizes = append(g.sizes, len(calls))
	g.mu.Unlock()
	<-g.let
	square(ctx, calls)
}

// world is a group whose clock stands still while anybody works.
type world struct {
	*testing.T
	store *gate
	group *batch.Group[int, int]
}

func within(t *testing.T, test func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, store: newGate()}
		w.group = batch.New(time.Minute, w.store.travel)
		test(w)
	})
}

// ask makes a call that is to end in an error, or in the right answer.
func (w *world) ask(ctx context.Context, key int, want error) {
	go func() {
		if got, err := w.group.Do(ctx, key); !errors.Is(err, want) || (err == nil && got != key*key) {
			w.Errorf("%d: %d, %v", key, got, err)
		}
	}()
}

// wantTrips tells of how many calls the trips were that have begun by now.
func (w *world) wantTrips(sizes ...int) {
	w.Helper()
	synctest.Wait()
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	if !slices.Equal(w.store.sizes, sizes) {
		w.Errorf("trips of %d calls have begun, want %d", w.store.sizes, sizes)
	}
}

func TestCallsThatWaitGoTogether(t *testing.T) {
	within(t, func(w *world) {
		w.ask(w.Context(), 0, nil)
		w.wantTrips(1)
		for key := range 98 {
			w.ask(w.Context(), key, nil)
		}
		w.wantTrips(1)
		w.store.let <- struct{}{}
		w.wantTrips(1, 98)
		close(w.store.let)
		w.ask(w.Context(), 0, nil)
		w.wantTrips(1, 98, 1)
	})
}

func TestThoseWhoAskForTheSameShareTheAnswer(t *testing.T) {
	within(t, func(w *world) {
		ctx, leave := context.WithCancel(w.Context())
		w.ask(w.Context(), 1, nil)
		w.wantTrips(1)
		for range 10 { // the first trip may be older than these
			w.ask(w.Context(), 1, nil)
			w.ask(w.Context(), 2, nil)
			w.ask(ctx, 2, context.Canceled)
			w.ask(ctx, 3, context.Canceled)
		}
		synctest.Wait()
		leave()
		synctest.Wait()
		close(w.store.let)
		w.wantTrips(1, 2) // nobody is left who waits for 3
	})
}

func TestASlowTripHoldsUpFewForLong(t *testing.T) {
	within(t, func(w *world) {
		w.ask(w.Context(), 0, nil)
		synctest.Wait()
		w.ask(w.Context(), 1, nil)
		w.ask(w.Context(), 2, nil)
		time.Sleep(4 * time.Millisecond)
		w.wantTrips(1)
		time.Sleep(time.Millisecond)
		w.wantTrips(1, 2)
		for key := range 10 { // the others become slow as well
			w.ask(w.Context(), key, nil)
			time.Sleep(10 * time.Millisecond)
		}
		w.wantTrips(1, 2, 1, 1)
		w.store.let <- struct{}{} // and who waited meanwhile takes the place
		w.wantTrips(1, 2, 1, 1, 8)
		close(w.store.let)
		w.ask(w.Context(), 7, nil)
		w.wantTrips(1, 2, 1, 1, 8, 1)
	})
}

func TestATripIsBounded(t *testing.T) {
	within(t, func(w *world) {
		for key := range 601 {
			w.ask(w.Context(), key, nil)
			if key == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		close(w.store.let)
		w.wantTrips(1, 256, 256, 88)
	})
}

func TestACallerWhoLeavesEndsOnlyHisOwnWaiting(t *testing.T) {
	within(t, func(w *world) {
		ctx, leave := context.WithCancel(w.Context())
		w.ask(ctx, 1, context.Canceled) // this one travels
		synctest.Wait()
		w.ask(ctx, 1, context.Canceled)
		w.ask(ctx, 2, context.Canceled)
		w.ask(w.Context(), 2, nil)
		synctest.Wait()
		leave()
		synctest.Wait()
		close(w.store.let)
		w.wantTrips(1, 1)
	})
}

func TestATripEndsWithItsTimeout(t *testing.T) {
	g := batch.New(20*time.Millisecond, func(ctx context.Context, calls []*call) {
		<-ctx.Done()
		for _, c := range calls {
			c.Err = ctx.Err()
		}
	})
	if _, err := g.Do(t.Context(), 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestAPanicFailsTheCallsOfItsTrip(t *testing.T) {
	g := batch.New(time.Minute, func(_ context.Context, calls []*call) {
		if calls[0].Key == 0 {
			panic("oh")
		}
		square(context.Background(), calls)
	})
	if _, err := g.Do(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "panic: oh") {
		t.Errorf("got %v", err)
	}
	if got, err := g.Do(t.Context(), 3); got != 9 || err != nil {
		t.Errorf("after a panic: %d, %v", got, err)
	}
}
