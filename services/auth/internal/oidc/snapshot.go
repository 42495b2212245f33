package oidc

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// snapshotAge is after how long clients, keys and issuer in memory are read again: so late a change by another replica
// or a command may hold here.
const snapshotAge = 5 * time.Second

// state is what is kept in memory, so that what an anonymous client asks for costs no SQL. It is not changed.
type state struct {
	clients map[string]Client // by client id
	keys    []StoredKey
	issuer  string // that is written down; empty: none
}

// snapshot keeps the state.
type snapshot struct {
	read func(context.Context) (*state, error)
	now  func() time.Time

	mu     sync.Mutex
	newest *reading // nil: none yet, or one that a change has outdated
}

// reading is one read of the state.
type reading struct {
	begun time.Time
	done  chan struct{} // closed when it is finished; the fields below are set then
	state *state
	err   error
}

// get returns the state as it was at most snapshotAge ago, and never before a change that was made here. Requests that
// need it read again wait for one read together.
func (s *snapshot) get(ctx context.Context) (*state, error) {
	r := s.current(ctx)
	select {
	case <-r.done:
		return r.state, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("read clients: %w", ctx.Err())
	}
}

// current returns the newest reading, or begins one where that is old or has failed.
func (s *snapshot) current(ctx context.Context) *reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if s.newest == nil || now.Sub(s.newest.begun) >= snapshotAge || s.newest.failed() {
		s.newest = &reading{begun: now, done: make(chan struct{})}
		go s.newest.run(context.WithoutCancel(ctx), s.read) // others wait for it too
	}
	return s.newest
}

func (r *reading) run(ctx context.Context, read func(context.Context) (*state, error)) {
	defer close(r.done)
	r.state, r.err = read(ctx)
}

// failed reports whether the reading is finished, with an error.
func (r *reading) failed() bool {
	select {
	case <-r.done:
		return r.err != nil
	default:
		return false
	}
}

// outdate has the next request read the state again, also where it is not known whether a change succeeded.
func (s *snapshot) outdate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newest = nil
}
