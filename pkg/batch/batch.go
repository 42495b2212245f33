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
	// patience is for how long others wait for a trip before one goes beside it, so
	// that a slow one does not hold up everybody.
	patience = 5 * time.Millisecond
	// maxSlow bounds the slow trips that are under way at once.
	maxSlow = 4
	// maxTrip bounds the calls of a trip.
	maxTrip = 256
)

// Call is what a trip brings for a key. Whoever makes the trip sets Value or
// Err; those who asked for the key share it.
type Call[K comparable, V any] struct {
	Key   K
	Value V
	Err   error

	callers int // who have not left; guarded by the group's mu until the trip
	done    chan struct{}
}

// Group gathers calls of one kind. It has nothing to close.
type Group[K comparable, V any] struct {
	travel  func(context.Context, []*Call[K, V])
	timeout time.Duration

	mu      sync.Mutex
	running bool // somebody makes trips, and the one under way is not slow
	slow    int  // trips that others no longer wait for
	waiting []*Call[K, V]
	byKey   map[K]*Call[K, V] // those of waiting
}

// New returns a group whose trips travel makes, each within the timeout. Several
// may be made at once.
func New[K comparable, V any](timeout time.Duration, travel func(context.Context, []*Call[K, V])) *Group[K, V] {
	return &Group[K, V]{travel: travel, timeout: timeout, byKey: map[K]*Call[K, V]{}}
}

// Do makes a call. ctx ends only the waiting: a trip that has begun goes on for
// the others.
func (g *Group[K, V]) Do(ctx context.Context, key K) (V, error) {
	c := g.join(key)
	select {
	case <-c.done:
		return c.Value, c.Err
	case <-ctx.Done():
		g.leave(c)
		var none V
		return none, ctx.Err()
	}
}

// join gives the call for a key that has not begun its trip.
func (g *Group[K, V]) join(key K) *Call[K, V] {
	g.mu.Lock()
	defer g.mu.Unlock()
	c, ok := g.byKey[key]
	if !ok {
		c = &Call[K, V]{Key: key, done: make(chan struct{})}
		g.byKey[key] = c
		g.waiting = append(g.waiting, c)
	}
	c.callers++
	g.start()
	return c
}

// start lets somebody make trips if nobody does; g is locked.
func (g *Group[K, V]) start() {
	if !g.running && g.slow < maxSlow && len(g.waiting) > 0 {
		g.running = true
		go g.run()
	}
}

func (g *Group[K, V]) leave(c *Call[K, V]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.callers--
}

// run makes trips until nobody waits, or others have not waited for one of them.
// Before it leaves it lets those run who are about to call: on a machine that is
// idle there are none.
func (g *Group[K, V]) run() {
	for inTime := true; inTime; {
		runtime.Gosched()
		calls := g.next()
		if calls == nil {
			return
		}
		inTime = g.timed(calls)
		for _, c := range calls {
			close(c.done)
		}
	}
}

// timed makes a trip and tells whether it was over within patience. If not,
// another has taken over.
func (g *Group[K, V]) timed(calls []*Call[K, V]) (inTime bool) {
	over, late := false, false
	timer := time.AfterFunc(patience, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if over {
			return
		}
		late = true
		g.running = false
		g.slow++
		g.start()
	})
	g.trip(calls)
	timer.Stop()
	g.mu.Lock()
	defer g.mu.Unlock()
	if over = true; late {
		g.slow--
		g.start() // who waited because too many were slow
	}
	return !late
}

// next takes the calls that somebody waits for, and is the last of a run when
// there are none.
func (g *Group[K, V]) next() []*Call[K, V] {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.waiting) > 0 {
		n := min(len(g.waiting), maxTrip)
		calls := make([]*Call[K, V], 0, n)
		for _, c := range g.waiting[:n] {
			delete(g.byKey, c.Key)
			if c.callers > 0 {
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
	g.running = false
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
