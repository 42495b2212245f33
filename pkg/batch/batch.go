package batch

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

const (
	// lanes are the trips that may be under way at once: two, so that a slow one
	// does not hold up everybody.
	lanes = 2
	// maxTrip bounds the calls of a trip.
	maxTrip = 256
)

// Call is one call on a trip. Whoever makes the trip sets Value or Err.
type Call[K, V any] struct {
	Key   K
	Value V
	Err   error

	ctx  context.Context //nolint:containedctx // its own: it leaves the queue when it ends
	done chan struct{}
}

// Group gathers calls of one kind. It has nothing to close.
type Group[K, V any] struct {
	travel  func(context.Context, []*Call[K, V])
	timeout time.Duration

	mu      sync.Mutex
	running int // lanes that are taken
	waiting []*Call[K, V]
}

// New returns a group whose trips travel makes, each within the timeout. Two
// trips may be made at once.
func New[K, V any](timeout time.Duration, travel func(context.Context, []*Call[K, V])) *Group[K, V] {
	return &Group[K, V]{travel: travel, timeout: timeout}
}

// Do makes a call. ctx ends only the waiting: a trip that has begun goes on for
// the others.
func (g *Group[K, V]) Do(ctx context.Context, key K) (V, error) {
	c := &Call[K, V]{Key: key, ctx: ctx, done: make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, c)
	free := g.running < lanes
	if free {
		g.running++
	}
	g.mu.Unlock()
	if free {
		go g.run()
	}
	select {
	case <-c.done:
		return c.Value, c.Err
	case <-ctx.Done():
		var none V
		return none, ctx.Err()
	}
}

// run makes trips in one lane until nobody waits. Before it leaves it lets those
// run who are about to call: on a machine that is idle there are none.
func (g *Group[K, V]) run() {
	for {
		runtime.Gosched()
		calls := g.next()
		if calls == nil {
			return
		}
		g.trip(calls)
		for _, c := range calls {
			close(c.done)
		}
	}
}

// next takes those who wait, and gives the lane back when nobody does.
func (g *Group[K, V]) next() []*Call[K, V] {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.waiting) > 0 {
		n := min(len(g.waiting), maxTrip)
		calls := make([]*Call[K, V], 0, n)
		for _, c := range g.waiting[:n] {
			if c.ctx.Err() == nil {
				calls = append(calls, c)
			}
		}
		if g.waiting = g.waiting[n:]; len(g.waiting) == 0 {
			g.waiting = nil
		}
		if len(calls) > 0 {
			return calls
		}
	}
	g.running--
	return nil
}

// trip lets a panic fail its calls, and not the program.
func (g *Group[K, V]) trip(calls []*Call[K, V]) {
	ctx, cancel := context.WithTimeout(context.Background(), g.timeout)
	defer cancel()
	defer func() {
		if r := recover(); r != nil {
			for _, c := range calls {
				c.Err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
			}
		}
	}()
	g.travel(ctx, calls)
}
