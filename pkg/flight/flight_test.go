package flight_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pforte/pforte/pkg/flight"
)

func TestDo_CallsAtOnceShareOneRun(t *testing.T) {
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

// The work is cancelled when the last caller leaves, and not before. A caller that
// comes then begins another run, even while the first has not ended yet.
func TestDo_WorkEndsWhenTheLastCallerLeaves(t *testing.T) {
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
		if ended.Load() || !g.Has("a") {
			t.Fatal("the other caller still waited")
		}
		leaveToo()
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Errorf("the last caller got %v", err)
		}
		synctest.Wait()
		if !ended.Load() || g.Has("a") {
			t.Fatal("the work goes on although no caller waits")
		}
		got, err := g.Do(t.Context(), "a", func(context.Context) (int, error) { return 2, nil })
		if got != 2 || err != nil {
			t.Errorf("the next caller got %d, %v", got, err)
		}
		close(slow)
	})
}

func TestDo_APanicIsAnErrorOfItsCallers(t *testing.T) {
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

// pinned runs work that pins itself and then waits for more; it reports whether
// the work was cancelled once its only caller had left.
func pinned(t *testing.T, after func(context.Context)) (cancelled bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var g flight.Group[string, int]
		caller, leave := context.WithCancel(t.Context())
		more := make(chan struct{})
		left := make(chan error, 1)
		go func() {
			_, err := g.Do(caller, "a", func(ctx context.Context) (int, error) {
				if !flight.Pin(context.WithoutCancel(ctx)) {
					t.Error("Pin reports that no caller waits")
				}
				<-more
				after(ctx)
				cancelled = ctx.Err() != nil
				return 1, nil
			})
			left <- err
		}()
		synctest.Wait()
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("the caller got %v", err)
		}
		synctest.Wait()
		joined := make(chan int, 1)
		go func() {
			got, _ := g.Do(t.Context(), "a", func(context.Context) (int, error) { return 2, nil })
			joined <- got
		}()
		synctest.Wait()
		close(more)
		if got := <-joined; got != 1 {
			t.Errorf("a caller of a pinned run got %d", got)
		}
	})
	return cancelled
}

func TestDo_PinnedWorkGoesOnWithoutCallers(t *testing.T) {
	if pinned(t, func(context.Context) {}) {
		t.Error("it was cancelled")
	}
}

func TestDo_UnpinnedWorkIsCancelledWithoutCallers(t *testing.T) {
	if pinned(t, flight.Unpin) {
		t.Error("it was cancelled although a caller waits")
	}
	synctest.Test(t, func(t *testing.T) {
		var g flight.Group[string, int]
		caller, leave := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, _ = g.Do(caller, "a", func(ctx context.Context) (int, error) {
				flight.Pin(ctx)
				leave()
				synctest.Wait()
				flight.Unpin(ctx)
				ended <- ctx.Err()
				if flight.Pin(ctx) {
					t.Error("Pin reports a caller after the last one has left")
				}
				return 0, nil
			})
		}()
		if err := <-ended; err == nil {
			t.Error("it goes on although no caller waits")
		}
	})
}

func TestDo_ReturnsTheCauseOfItsContext(t *testing.T) {
	late := errors.New("late")
	synctest.Test(t, func(t *testing.T) {
		var g flight.Group[string, int]
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, late)
		defer cancel()
		if _, err := g.Do(ctx, "a", func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, nil }); !errors.Is(err, late) {
			t.Errorf("got %v", err)
		}
	})
}

func TestDo_OfManyCallersTheLaterOnesWaitForLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := flight.Group[string, int]{Many: 3, Patience: time.Second}
		open := make(chan struct{})
		var served, refused atomic.Int32
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				got, err := g.Do(t.Context(), "a", func(context.Context) (int, error) { <-open; return 1, nil })
				switch {
				case err == nil && got == 1:
					served.Add(1)
				case errors.Is(err, flight.ErrMany):
					refused.Add(1)
				default:
					t.Errorf("got %d, %v", got, err)
				}
			})
		}
		time.Sleep(time.Minute)
		if refused.Load() != 97 {
			t.Errorf("%d of 100 have left", refused.Load())
		}
		group.Go(func() { // those who have left make no room
			if got, err := g.Do(t.Context(), "a", nil); !errors.Is(err, flight.ErrMany) {
				t.Errorf("one more got %d, %v", got, err)
			}
		})
		time.Sleep(time.Minute)
		close(open)
		group.Wait()
		if served.Load() != 3 {
			t.Errorf("%d were served", served.Load())
		}
	})
}

func TestClose_WaitsForRunsAndStartsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g flight.Group[string, int]
		more := make(chan struct{})
		go func() { _, _ = g.Do(t.Context(), "a", func(context.Context) (int, error) { <-more; return 1, nil }) }()
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := g.Close(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close returned %v while work was under way", err)
		}
		if _, err := g.Do(t.Context(), "b", func(context.Context) (int, error) { return 1, nil }); !errors.Is(err, flight.ErrClosed) {
			t.Errorf("new work: %v", err)
		}
		joined := make(chan int, 1)
		go func() {
			got, _ := g.Do(t.Context(), "a", func(context.Context) (int, error) { return 2, nil })
			joined <- got
		}()
		synctest.Wait()
		close(more)
		if got := <-joined; got != 1 {
			t.Errorf("a caller that joined got %d", got)
		}
		if err := g.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
