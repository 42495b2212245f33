package paywall

import (
	"context"
	"sync"

	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// flightKey names one call: a payment for a request.
type flightKey struct {
	key              payment.Key
	payment, request payment.Digest
}

// flights lets copies of one call in this process share one run of it.
type flights struct {
	mu     sync.Mutex
	under  map[flightKey]*flight
	closed bool
	all    sync.WaitGroup
}

// flightFunc is what a flight does.
type flightFunc func(ctx context.Context, f *flight) (Sale, error)

// flight is one run. Its context ends when everybody who waits for it has gone,
// unless money may be moving.
type flight struct {
	gone   func() error
	cancel context.CancelFunc

	mu      sync.Mutex
	waiting int
	pinned  bool

	done chan struct{}
	sale Sale // set before done is closed
	err  error
}

// join gives the flight of a key, which run is started for when there is none,
// with a context of its own. Nothing new starts after drain.
func (fs *flights) join(ctx context.Context, key flightKey, run flightFunc) (*flight, error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f, ok := fs.under[key]; ok && f.enter() {
		return f, nil
	}
	if fs.closed {
		return nil, payment.ErrInFlight
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &flight{gone: ctx.Err, cancel: cancel, waiting: 1, done: make(chan struct{})}
	if fs.under == nil {
		fs.under = map[flightKey]*flight{}
	}
	fs.under[key] = f
	fs.all.Go(func() {
		defer cancel()
		f.sale, f.err = guard(ctx, f, run)
		fs.mu.Lock()
		if fs.under[key] == f {
			delete(fs.under, key)
		}
		fs.mu.Unlock()
		close(f.done)
	})
	return f, nil
}

// guard keeps a panic in one call from ending the process and its other payments.
func guard(ctx context.Context, f *flight, run flightFunc) (sale Sale, err error) {
	defer func() {
		if p := recover(); p != nil {
			sale, err = Sale{}, panicError(p)
		}
	}()
	return run(ctx, f)
}

// drain lets no new flight start and waits for those under way, or for ctx.
func (fs *flights) drain(ctx context.Context) error {
	fs.mu.Lock()
	fs.closed = true
	fs.mu.Unlock()
	landed := make(chan struct{})
	go func() {
		fs.all.Wait()
		close(landed)
	}()
	select {
	case <-landed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// enter adds one who waits; false when the flight was given up.
func (f *flight) enter() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone() != nil {
		return false
	}
	f.waiting++
	return true
}

// leave takes one away who waited.
func (f *flight) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting--
	if f.waiting == 0 && !f.pinned {
		f.cancel()
	}
}

// pin keeps the flight going whoever leaves: from here on money may move. It is
// false when nobody waits any more.
func (f *flight) pin() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pinned = f.gone() == nil
	return f.pinned
}

// unpin lets the flight end with those who wait: no money moves after all.
func (f *flight) unpin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pinned = false
	if f.waiting == 0 {
		f.cancel()
	}
}
