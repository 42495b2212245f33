package snapshot

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Options are the parts of a Snapshot. All fields are required.
type Options[T any] struct {
	What string // names what is read, in errors
	// Age is after how long the value is read again. A change by another replica or a command may take as
	// long to be seen here.
	Age  time.Duration
	Read func(context.Context) (T, error)
	Now  func() time.Time
}

// Snapshot keeps what was read. It is safe for concurrent use.
type Snapshot[T any] struct {
	o      Options[T]
	mu     sync.Mutex
	newest *reading[T] // nil: none yet, or one that a change has outdated
}

// New returns a Snapshot that has read nothing yet.
func New[T any](o Options[T]) *Snapshot[T] { return &Snapshot[T]{o: o} }

type reading[T any] struct {
	begun time.Time
	done  chan struct{} // closed when it is finished; the fields below are set then
	value T
	err   error
}

// Get returns a value whose reading began, as of the call, less than Age ago and after the last Outdate. The value is
// not to be changed. Requests that need it read again wait for one read together.
func (s *Snapshot[T]) Get(ctx context.Context) (value T, err error) {
	r := s.current(ctx)
	select {
	case <-r.done:
		return r.value, r.err
	case <-ctx.Done():
		return value, fmt.Errorf("read %s: %w", s.o.What, ctx.Err())
	}
}

// current returns the newest reading, or begins one where there is none, or that is old or has failed.
func (s *Snapshot[T]) current(ctx context.Context) *reading[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Now()
	if s.newest == nil || now.Sub(s.newest.begun) >= s.o.Age || s.newest.failed() {
		r := &reading[T]{begun: now, done: make(chan struct{})}
		s.newest = r
		go func() {
			defer close(r.done)
			r.value, r.err = s.o.Read(context.WithoutCancel(ctx)) // others wait for it too
		}()
	}
	return s.newest
}

// failed reports whether the reading is finished, with an error.
func (r *reading[T]) failed() bool {
	select {
	case <-r.done:
		return r.err != nil
	default:
		return false
	}
}

// Outdate has the next Get read again. It is called after each change, also one of which it is not known whether it
// succeeded.
func (s *Snapshot[T]) Outdate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newest = nil
}
