package batch_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
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

// gate is a store whose trips wait until they are let go.
type gate struct {
	trips  atomic.Int64
	begun  chan int
	let    chan struct{}
	atOnce atomic.Int64
	most   atomic.Int64
}

func newGate() *gate { return &gate{begun: make(chan int, 1000), let: make(chan struct{})} }

func (g *gate) travel(ctx context.Context, calls []*call) {
	g.trips.Add(1)
	now := g.atOnce.Add(1)
	for most := g.most.Load(); now > most && !g.most.CompareAndSwap(most, now); most = g.most.Load() {
		continue
	}
	g.begun <- len(calls)
	<-g.let
	g.atOnce.Add(-1)
	square(ctx, calls)
}

func TestCallsThatWaitGoTogether(t *testing.T) {
	store := newGate()
	g := batch.New(time.Minute, store.travel)
	var all sync.WaitGroup
	do := func(key int) {
		all.Go(func() {
			if _, err := g.Do(t.Context(), key); err != nil {
				t.Error(err)
			}
		})
	}
	for lane := range 2 { // one in each
		do(lane)
		if n := <-store.begun; n != 1 {
			t.Fatalf("a call that found a free lane went with %d", n)
		}
	}
	for key := range 98 {
		do(key)
	}
	time.Sleep(100 * time.Millisecond) // they wait, and nothing else happens
	if n := store.trips.Load(); n != 2 {
		t.Fatalf("%d trips", n)
	}
	close(store.let)
	all.Wait()
	if n := store.trips.Load(); n > 10 {
		t.Errorf("100 calls made %d trips", n)
	}
	if n := store.most.Load(); n > 2 {
		t.Errorf("%d trips at once", n)
	}
}

func TestThoseWhoAskForTheSameShareTheAnswer(t *testing.T) {
	store := newGate()
	g := batch.New(time.Minute, store.travel)
	ctx, leave := context.WithCancel(t.Context())
	var all sync.WaitGroup
	do := func(ctx context.Context, key int, want error) {
		all.Go(func() {
			if got, err := g.Do(ctx, key); !errors.Is(err, want) || (err == nil && got != key*key) {
				t.Errorf("%d: %d, %v", key, got, err)
			}
		})
	}
	for lane := range 2 {
		do(t.Context(), lane, nil)
		<-store.begun
	}
	for range 10 { // the first trip for 1 has begun: it may be older than these
		do(t.Context(), 1, nil)
		do(t.Context(), 2, nil)
		do(ctx, 2, context.Canceled)
		do(ctx, 3, context.Canceled)
	}
	time.Sleep(50 * time.Millisecond)
	leave()
	time.Sleep(50 * time.Millisecond)
	close(store.let)
	all.Wait()
	close(store.begun)
	keys := 0
	for n := range store.begun {
		keys += n
	}
	if keys != 2 {
		t.Errorf("%d keys were asked for, want 1 and 2 once each", keys)
	}
}

func TestATripIsBounded(t *testing.T) {
	store := newGate()
	g := batch.New(time.Minute, store.travel)
	var all sync.WaitGroup
	for key := range 1000 {
		all.Go(func() { _, _ = g.Do(t.Context(), key) })
	}
	time.Sleep(100 * time.Millisecond)
	close(store.let)
	all.Wait()
	close(store.begun)
	for n := range store.begun {
		if n > 256 {
			t.Errorf("%d calls on one trip", n)
		}
	}
}

func TestACallerWhoLeavesEndsOnlyHisOwnWaiting(t *testing.T) {
	store := newGate()
	g := batch.New(time.Minute, store.travel)
	ctx, leave := context.WithCancel(t.Context())
	left, stayed := make(chan error, 3), make(chan error, 1)
	for i := range 3 { // two travel, one waits
		go func() { _, err := g.Do(ctx, 1); left <- err }()
		if i < 2 {
			<-store.begun
		}
	}
	time.Sleep(20 * time.Millisecond)
	leave()
	for range 3 {
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("who leaves gets %v", err)
		}
	}
	go func() { _, err := g.Do(t.Context(), 2); stayed <- err }()
	close(store.let)
	if err := <-stayed; err != nil {
		t.Errorf("who stays gets %v", err)
	}
	if n := store.trips.Load(); n != 3 {
		t.Errorf("%d trips: who had left before a trip went with it", n)
	}
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
