// Package flight shares one run of the same work among concurrent calls for one
// key.
//
// It differs from golang.org/x/sync/singleflight in what happens when callers
// leave and when the program stops:
//   - The work has a context of its own, with the values of the first caller's
//     context. It is cancelled when the last caller has left, unless the work is
//     pinned.
//   - Work that must not be interrupted from some step on calls Pin before that
//     step, and Unpin when the step was not taken.
//   - Close waits for the runs that are under way.
//   - A panic in the work is an error of that work, not the end of the process.
package flight

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// ErrClosed is returned by Do for work that would have begun after Close.
var ErrClosed = errors.New("the group is closed: the program stops")

// ErrMany is returned by Do to a caller beyond the Group.Many first ones, after Group.Patience.
var ErrMany = errors.New("too many callers wait for the work")

// errExited is the error of work that ended its goroutine without returning.
var errExited = errors.New("the work ended without a result")

// PanicError is a panic in the work.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }

// Group is a set of runs by key. Its zero value is ready to use.
type Group[K comparable, V any] struct {
	// Many is how many callers of one run may wait as long as they want; each further one waits
	// for Patience at most. Zero means no bound.
	Many     int
	Patience time.Duration

	mu     sync.Mutex
	runs   map[K]*run[V]
	closed bool
	all    sync.WaitGroup
}

// run is the work for one key.
type run[V any] struct {
	callers
	done  chan struct{}
	value V // set before done is closed
	err   error
}

// callers is how many callers wait for a run, and what cancels it.
type callers struct {
	group  *sync.Mutex // guards the fields below
	cancel context.CancelFunc
	n      int
	pinned bool
	gone   bool // cancelled because the last caller left
}

// abandon cancels a run that no caller waits for and that is not pinned.
func (c *callers) abandon() {
	if c.n == 0 && !c.pinned {
		c.gone = true
		c.cancel()
	}
}

// Do returns the result of the work for a key: of the run that is under way, or
// of a new one. When ctx ends first, Do returns its cause; when the group is
// closed and nothing is under way for the key, it returns ErrClosed; and ErrMany
// after Patience where too many wait.
func (g *Group[K, V]) Do(ctx context.Context, key K, work func(context.Context) (V, error)) (value V, err error) {
	r, waiting, err := g.join(ctx, key, work)
	if err != nil {
		return value, err
	}
	if g.Many > 0 && waiting > g.Many {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, g.Patience, ErrMany)
		defer cancel()
	}
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		r.n--
		r.abandon()
	}()
	select {
	case <-r.done:
		return r.value, r.err
	case <-ctx.Done():
		return value, context.Cause(ctx)
	}
}

// join returns the run of a key, begun if there is none, and how many callers wait for it with this one.
func (g *Group[K, V]) join(
	ctx context.Context, key K, work func(context.Context) (V, error),
) (joined *run[V], waiting int, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r, ok := g.runs[key]; ok && !r.gone {
		r.n++
		return r, r.n, nil
	}
	if g.closed {
		return nil, 0, ErrClosed
	}
	r := &run[V]{done: make(chan struct{}), err: errExited}
	ctx, cancel := context.WithCancel(context.WithValue(context.WithoutCancel(ctx), callersKey{}, &r.callers))
	r.callers = callers{group: &g.mu, cancel: cancel, n: 1}
	if g.runs == nil {
		g.runs = map[K]*run[V]{}
	}
	g.runs[key] = r
	g.all.Go(func() {
		defer func() {
			cancel()
			g.mu.Lock()
			defer g.mu.Unlock()
			if g.runs[key] == r { // no other has taken its place
				delete(g.runs, key)
			}
			close(r.done)
		}()
		r.value, r.err = Guard(func() (V, error) { return work(ctx) })
	})
	return r, 1, nil
}

// Has reports whether a run for a key is under way: it has not ended, and is not cancelled because its last
// caller has left.
func (g *Group[K, V]) Has(key K) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	r, ok := g.runs[key]
	return ok && !r.gone
}

// Close has the group begin no new run, and waits until those under way have ended, or ctx
// has. Callers may still join a run that is under way.
func (g *Group[K, V]) Close(ctx context.Context) error {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		g.all.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// callersKey is the key of a run's callers in its context.
type callersKey struct{}

// Pin is called by the work, with its context or one derived from it. It returns
// false if the run is cancelled because its last caller has left. Else the run goes
// on from here whatever the callers do, until it ends or calls Unpin. Outside of a
// run it reports whether ctx has not ended.
func Pin(ctx context.Context) bool {
	c, ok := ctx.Value(callersKey{}).(*callers)
	if !ok {
		return ctx.Err() == nil
	}
	c.group.Lock()
	defer c.group.Unlock()
	c.pinned = !c.gone
	return c.pinned
}

// Unpin undoes Pin: the run is cancelled when no caller waits, now or later.
func Unpin(ctx context.Context) {
	c, ok := ctx.Value(callersKey{}).(*callers)
	if !ok {
		return
	}
	c.group.Lock()
	defer c.group.Unlock()
	c.pinned = false
	c.abandon()
}

// Guard returns what work returns, or a *PanicError when it panics.
func Guard[V any](work func() (V, error)) (value V, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{p, debug.Stack()}
		}
	}()
	return work()
}
