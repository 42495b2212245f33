package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/services/auth/internal/session"
)

// backend is an empty store under test.
type backend struct {
	// Stores is one value of the store, or several as several processes have.
	Stores []session.Store
	// Advance moves the store's clock; nil where that is the real one, which
	// the suite then waits for.
	Advance func(time.Duration)
}

// opener returns an empty store.
type opener func(t *testing.T) backend

type suite struct {
	*testing.T
	backend
	store session.Store
	made  int
}

func newSuite(t *testing.T, open opener) *suite {
	t.Helper()
	s := &suite{T: t, backend: open(t)}
	s.store = s.Stores[0]
	return s
}

const (
	// day is a lifetime that no test reaches.
	day = 24 * time.Hour
	// short is a lifetime that tests wait for. Half of it may pass unseen while a machine stands still.
	short = 2 * time.Second
)

// lasting are the lifetimes where all are one.
func lasting(d time.Duration) session.Lifetimes { return session.Lifetimes{Any: d, Own: d, Shared: d} }

// pass advances the time.
func (s *suite) pass(d time.Duration) {
	if s.Advance == nil {
		time.Sleep(d)
		return
	}
	s.Advance(d)
}

// next returns a session that is in no store, as login makes it.
func (s *suite) next(userID int64) session.Session {
	s.made++
	return session.Session{
		Ref:      session.Ref{UserID: userID, Key: fmt.Sprintf("%064x", s.made)},
		Username: "anna", Role: "member", CSRFToken: fmt.Sprintf("%064x", 1000+s.made), UserAgent: "Firefox", Stamp: "STAMP",
		CreatedAt: time.Date(2026, 3, 1, 12, 0, s.made, 0, time.UTC),
		Factor:    session.PasswordWithTOTP, AuthAt: time.Date(2026, 3, 1, 13, 0, s.made, 0, time.UTC), IP: "192.0.2.1", Login: fmt.Sprintf("%064x", 2000+s.made),
	}
}

func (s *suite) create(userID int64, lifetime time.Duration) session.Session {
	s.Helper()
	made := s.next(userID)
	s.ok(s.store.Create(s.Context(), made, s.fence(userID), lasting(lifetime)))
	return made
}

func (s *suite) fence(userID int64) string {
	s.Helper()
	fence, err := s.store.Fence(s.Context(), userID)
	s.ok(err)
	return fence
}

func (s *suite) load(ref session.Ref) session.Session {
	s.Helper()
	got, err := s.store.Load(s.Context(), ref, lasting(day))
	s.ok(err)
	return got
}

func (s *suite) gone(refs ...session.Ref) {
	s.Helper()
	for _, ref := range refs {
		_, err := s.store.Load(s.Context(), ref, lasting(day))
		s.refused(err, session.ErrNotFound)
	}
}

// keys returns the keys of the user's sessions as List has them.
func (s *suite) keys(userID int64) []string {
	s.Helper()
	infos, err := s.store.List(s.Context(), userID)
	s.ok(err)
	keys := []string{}
	for _, info := range infos {
		keys = append(keys, info.Key)
	}
	return keys
}

func (s *suite) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *suite) refused(err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Fatalf("got error %v, want %v", err, want)
	}
}

func (s *suite) same(got, want any) {
	s.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		s.Fatalf("differs (-want +got):\n%s", diff)
	}
}

func sorted(keys ...string) []string {
	slices.Sort(keys)
	return keys
}

// atOnce is how many callers a concurrent test has.
const atOnce = 100

// together calls do atOnce times at the same moment, on the stores in turn.
func (s *suite) together(do func(ctx context.Context, store session.Store, i int)) {
	gate := make(chan struct{})
	var all sync.WaitGroup
	for i := range atOnce {
		all.Go(func() {
			<-gate
			do(s.Context(), s.Stores[i%len(s.Stores)], i)
		})
	}
	close(gate)
	all.Wait()
}
