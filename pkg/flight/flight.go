// Package flight lets calls that come at once share one run of the same work, for
// as long as any of them waits for it.
//
// It differs from golang.org/x/sync/singleflight in two ways. The work has a
// context of its own that is cancelled when the last caller has left, so that
// nothing goes on for callers that have gone; and a panic in the work is an error
// of that work, not the end of the process.
package flight

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
)

// Group is runs of work by key. Its zero value is ready to use.
type Group[K comparable, V any] struct {
	mu    sync.Mutex
	under map[K]*run[V]
}

// run is the work for one key.
type run[V any] struct {
	waiting int // guarded by the group's mutex
	cancel  context.CancelFunc
	done    chan struct{}
	value   V // set before done is closed
	err     error
}

// PanicError is a panic in the work.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }

// errExited is work that ended its goroutine without returning.
var errExited = errors.New("the work ended without a result")

// Do returns the result of work for a key: of the run that is under way, or of a
// new one. The work's context has the values of the ctx that began it, and ends
// when all who wait have left. When ctx ends, Do returns its error.
func (g *Group[K, V]) Do(ctx context.Context, key K, work func(context.Context) (V, error)) (V, error) {
	r := g.join(ctx, key, work)
	select {
	case <-r.done:
		return r.value, r.err
	case <-ctx.Done():
		g.leave(key, r)
		var none V
		return none, ctx.Err()
	}
}

func (g *Group[K, V]) join(ctx context.Context, key K, work func(context.Context) (V, error)) *run[V] {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r, ok := g.under[key]; ok {
		r.waiting++
		return r
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &run[V]{waiting: 1, cancel: cancel, done: make(chan struct{}), err: errExited}
	if g.under == nil {
		g.under = map[K]*run[V]{}
	}
	g.under[key] = r
	go func() {
		defer func() {
			g.forget(key, r)
			cancel()
			close(r.done)
		}()
		r.value, r.err = Guard(func() (V, error) { return work(ctx) })
	}()
	return r
}

// leave takes one away who waited. A run that nobody waits for is cancelled, and
// whoever comes next begins another.
func (g *Group[K, V]) leave(key K, r *run[V]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.waiting--; r.waiting == 0 {
		r.cancel()
		g.drop(key, r)
	}
}

func (g *Group[K, V]) forget(key K, r *run[V]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.drop(key, r)
}

func (g *Group[K, V]) drop(key K, r *run[V]) {
	if g.under[key] == r {
		delete(g.under, key)
	}
}

// Guard returns what work returns, or a *PanicError when it panics.
func Guard[V any](work func() (V, error)) (value V, err error) {
	defer func() {
		if p := recover(); p != nil {
			var none V
			value, err = none, &PanicError{p, debug.Stack()}
		}
	}()
	return work()
}
