package flight_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/pforte/pforte/pkg/flight"
)

func TestCallsThatComeAtOnceShareOneRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g flight.Group[string, int]
		var runs atomic.Int64
		open := make(chan struct{})
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				got, err := g.Do(t.Context(), "a", func(context.Context) (int, error) {
					<-open
					return int(runs.Add(1)), nil
				})
				if got != 1 || err != nil {
					t.Errorf("got %d, %v", got, err)
				}
			})
		}
		synctest.Wait()
		close(open)
		group.Wait()
		got, err := g.Do(t.Context(), "a", func(context.Context) (int, error) { return int(runs.Add(1)), nil })
		if got != 2 || err != nil {
			t.Errorf("afterwards %d, %v", got, err)
		}
	})
}

// TestWorkEndsWhenTheLastCallerLeaves, and not before; whoever comes then gets work
// of their own, even while the other has not ended yet.
func TestWorkEndsWhenTheLastCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g flight.Group[string, int]
		var ended atomic.Bool
		slow := make(chan struct{})
		work := func(ctx context.Context) (int, error) {
			<-ctx.Done()
			ended.Store(true)
			<-slow
			return 1, ctx.Err()
		}
		first, leave := context.WithCancel(t.Context())
		second, leaveToo := context.WithCancel(t.Context())
		results := make(chan error, 2)
		for _, ctx := range []context.Context{first, second} {
			go func() { _, err := g.Do(ctx, "a", work); results <- err }()
		}
		synctest.Wait()
		leave()
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		if ended.Load() {
			t.Fatal("the other caller still waited")
		}
		leaveToo()
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Errorf("the last caller got %v", err)
		}
		synctest.Wait()
		if !ended.Load() {
			t.Fatal("the work goes on for nobody")
		}
		got, err := g.Do(t.Context(), "a", func(context.Context) (int, error) { return 2, nil })
		if got != 2 || err != nil {
			t.Errorf("the next caller got %d, %v", got, err)
		}
		close(slow)
	})
}

func TestAPanicIsAnErrorOfItsCallers(t *testing.T) {
	var g flight.Group[string, int]
	_, err := g.Do(t.Context(), "a", func(context.Context) (int, error) { panic("oh") })
	var panicked *flight.PanicError
	if !errors.As(err, &panicked) || panicked.Value != "oh" || len(panicked.Stack) == 0 {
		t.Errorf("got %v", err)
	}
	if _, err := g.Do(t.Context(), "a", func(context.Context) (int, error) { runtime.Goexit(); return 0, nil }); err == nil {
		t.Error("work that exits has no error")
	}
}
