package sqlstore_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/sqlstore"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// opener returns an empty store that takes the time from now: one value of it, or
// several as several processes would have.
type opener func(t *testing.T, now func() time.Time) []*sqlstore.Stores

// start is when the clock of a suite stands.
var start = time.Date(2026, 3, 1, 12, 0, 0, 987654321, time.FixedZone("CET", 3600))

// suite is one store under test, with a clock that can be moved.
type suite struct {
	*testing.T
	store    *sqlstore.Stores
	replicas []*sqlstore.Stores
	nanos    atomic.Int64
}

func newSuite(t *testing.T, open opener) *suite {
	t.Helper()
	s := &suite{T: t}
	s.nanos.Store(start.UnixNano())
	s.replicas = open(t, s.now)
	s.store = s.replicas[0]
	return s
}

func (s *suite) now() time.Time          { return time.Unix(0, s.nanos.Load()).In(start.Location()) }
func (s *suite) advance(d time.Duration) { s.nanos.Add(int64(d)) }

// person returns what a user of that name is made of.
func person(name string, role user.Role) user.New {
	return user.New{Username: name, DisplayName: "The " + name, PasswordHash: "hash of " + name, AvatarColor: user.DefaultAvatarColor, Role: role}
}

func (s *suite) create(name string, role user.Role) user.User {
	s.Helper()
	u, err := s.store.Users.Create(s.Context(), person(name, role), session.Session{})
	s.ok(err)
	return u
}

func (s *suite) get(id int64) user.User {
	s.Helper()
	u, err := s.store.Users.ByID(s.Context(), id)
	s.ok(err)
	return u
}

func (s *suite) pending(before time.Time) []user.Revocation {
	s.Helper()
	pending, err := s.store.Users.PendingRevocations(s.Context(), before, 0)
	s.ok(err)
	return pending
}

func (s *suite) admins() int {
	s.Helper()
	users, err := s.store.Users.List(s.Context())
	s.ok(err)
	n := 0
	for _, u := range users {
		if u.Role == user.Admin {
			n++
		}
	}
	return n
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

// atOnce is how many callers a concurrent test has.
const atOnce = 100

// together calls do atOnce times at the same moment, on the replicas in turn,
// and returns the errors.
func (s *suite) together(do func(ctx context.Context, store *sqlstore.Stores, i int) error) []error {
	errs := make([]error, atOnce)
	gate := make(chan struct{})
	var all sync.WaitGroup
	for i := range atOnce {
		all.Go(func() {
			<-gate
			errs[i] = do(s.Context(), s.replicas[i%len(s.replicas)], i)
		})
	}
	close(gate)
	all.Wait()
	return errs
}

// count sorts errors into successes and those that are one of want; any other
// error fails the test.
func (s *suite) count(errs []error, want ...error) (successes int) {
	s.Helper()
	for _, err := range errs {
		if err == nil {
			successes++
			continue
		}
		known := false
		for _, w := range want {
			known = known || errors.Is(err, w)
		}
		if !known {
			s.Errorf("unexpected error: %v", err)
		}
	}
	return successes
}
