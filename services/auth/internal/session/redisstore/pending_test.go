package redisstore_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/pkg/redistest"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/session/redisstore"
)

// pendings returns the part of a store that keeps pending logins.
func pendings(store session.Store) session.Pendings { return store.(session.Pendings) }

// pend creates a pending login of a user.
func (s *suite) pend(userID int64) session.Pending {
	s.Helper()
	p, _ := session.NewPending(userID, "Firefox", time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	p.Fingerprint, p.Browser, p.IP, p.Replaces = "fingerprint", "browser", "192.0.2.1", session.Ref{UserID: 7, Key: s.next(7).Key}
	s.ok(pendings(s.store).CreatePending(s.Context(), p))
	return p
}

func rotated(s *suite) {
	old, other := s.create(42, day), s.create(42, day)
	next, fence := s.next(42), s.fence(42)
	for range 2 { // a client repeats what it got no answer to
		s.ok(s.store.Rotate(s.Context(), old.Ref, next, fence, lasting(day)))
	}
	s.gone(old.Ref)
	s.same(s.load(next.Ref), next)
	s.same(sorted(s.keys(42)...), sorted(next.Key, other.Key))
}

func notRotated(s *suite) {
	old, next := s.create(42, day), s.next(42)
	s.refused(s.store.Rotate(s.Context(), old.Ref, next, "another fence", lasting(day)), session.ErrFenced)
	s.same(s.load(old.Ref), old)
	s.ok(s.store.Delete(s.Context(), old.Ref))
	s.refused(s.store.Rotate(s.Context(), old.Ref, next, s.fence(42), lasting(day)), session.ErrNotFound)
	s.gone(next.Ref)
	expired := s.create(42, short)
	s.pass(short + 100*time.Millisecond)
	s.refused(s.store.Rotate(s.Context(), expired.Ref, next, s.fence(42), lasting(day)), session.ErrNotFound)
	s.gone(next.Ref)
}

func pendingFound(s *suite) {
	want := s.pend(42)
	plain, _ := session.NewPending(42, "", want.CreatedAt)
	s.ok(pendings(s.store).CreatePending(s.Context(), plain))
	for tries := range 2 {
		got, err := pendings(s.store).PeekPending(s.Context(), want.Ref)
		s.ok(err)
		want.Tries = tries
		s.same(got, want)
		got, err = pendings(s.store).LoadPending(s.Context(), want.Ref)
		s.ok(err)
		want.Tries++
		s.same(got, want)
	}
	got, err := pendings(s.store).PeekPending(s.Context(), plain.Ref)
	s.ok(err)
	s.same(got, plain)
	for _, ref := range []session.Ref{{UserID: 43, Key: want.Key}, {UserID: 42}, {UserID: 42, Key: want.Key[1:]}} {
		_, err := pendings(s.store).LoadPending(s.Context(), ref)
		s.refused(err, session.ErrNotFound)
	}
}

func pendingTries(s *suite) {
	p := s.pend(42)
	for range session.MaxTries {
		_, err := pendings(s.store).LoadPending(s.Context(), p.Ref)
		s.ok(err)
	}
	_, err := pendings(s.store).LoadPending(s.Context(), p.Ref)
	s.refused(err, session.ErrNotFound)
	_, err = pendings(s.store).PeekPending(s.Context(), p.Ref)
	s.refused(err, session.ErrNotFound)
}

func pendingExpires(s *suite) {
	if s.Advance == nil {
		s.Skip("five minutes of a real clock")
	}
	p := s.pend(42)
	s.pass(session.PendingLifetime - time.Second)
	_, err := pendings(s.store).LoadPending(s.Context(), p.Ref)
	s.ok(err)
	s.pass(2 * time.Second)
	_, err = pendings(s.store).LoadPending(s.Context(), p.Ref)
	s.refused(err, session.ErrNotFound)
	s.refused(pendings(s.store).FinishPending(s.Context(), p.Ref, s.next(42), s.fence(42), lasting(day)), session.ErrNotFound)
	s.same(s.keys(42), []string{})
}

func pendingIsNoSession(s *suite) {
	p, made := s.pend(42), s.create(42, day)
	s.gone(p.Ref)
	_, err := pendings(s.store).LoadPending(s.Context(), made.Ref)
	s.refused(err, session.ErrNotFound)
	s.same(s.keys(42), []string{made.Key})
}

func pendingFinished(s *suite) {
	p, made, fence := s.pend(42), s.next(42), s.fence(42)
	for range 2 {
		s.ok(pendings(s.store).FinishPending(s.Context(), p.Ref, made, fence, lasting(day)))
	}
	s.same(s.load(made.Ref), made)
	_, err := pendings(s.store).LoadPending(s.Context(), p.Ref)
	s.refused(err, session.ErrNotFound)
	s.refused(pendings(s.store).FinishPending(s.Context(), p.Ref, s.next(42), fence, lasting(day)), session.ErrNotFound)
	cancelled := s.pend(42)
	for range 2 {
		s.ok(pendings(s.store).DeletePending(s.Context(), cancelled.Ref))
	}
	s.refused(pendings(s.store).FinishPending(s.Context(), cancelled.Ref, s.next(42), fence, lasting(day)), session.ErrNotFound)
	s.same(s.keys(42), []string{made.Key})
}

func pendingFenced(s *suite) {
	p, made, fence := s.pend(42), s.next(42), s.fence(42)
	_, err := s.store.Revoke(s.Context(), 42, "")
	s.ok(err)
	s.refused(pendings(s.store).FinishPending(s.Context(), p.Ref, made, fence, lasting(day)), session.ErrFenced)
	s.gone(made.Ref)
	s.ok(pendings(s.store).FinishPending(s.Context(), p.Ref, made, s.fence(42), lasting(day)))
}

func ceremonyOnce(s *suite) {
	store := s.store.(session.Ceremonies)
	want := session.Ceremony{Purpose: "register", UserID: 42, Owner: "owner", Data: []byte("{\x00\xff}")}
	id, err := store.PutCeremony(s.Context(), want)
	s.ok(err)
	got, err := store.TakeCeremony(s.Context(), id)
	s.ok(err)
	s.same(got, want)
	for _, unknown := range []string{id, "", "unknown"} {
		_, err = store.TakeCeremony(s.Context(), unknown)
		s.refused(err, session.ErrNotFound)
	}
	if s.Advance == nil {
		return
	}
	id, err = store.PutCeremony(s.Context(), want)
	s.ok(err)
	s.pass(session.CeremonyLifetime + time.Second)
	_, err = store.TakeCeremony(s.Context(), id)
	s.refused(err, session.ErrNotFound)
}

func finishAtOnce(s *suite) {
	p, fence := s.pend(42), s.fence(42)
	made := make([]session.Session, atOnce)
	for i := range made {
		made[i] = s.next(42)
	}
	var finished atomic.Int64
	s.together(func(ctx context.Context, store session.Store, i int) {
		err := pendings(store).FinishPending(ctx, p.Ref, made[i], fence, lasting(day))
		s.check(err, session.ErrNotFound)
		if err == nil {
			finished.Add(1)
		}
	})
	s.same(finished.Load(), int64(1))
	s.same(len(s.keys(42)), 1)
}

func triesAtOnce(s *suite) {
	p := s.pend(42)
	var tries atomic.Int64
	s.together(func(ctx context.Context, store session.Store, _ int) {
		if _, err := pendings(store).LoadPending(ctx, p.Ref); err == nil {
			tries.Add(1)
		} else {
			s.check(err, session.ErrNotFound)
		}
	})
	s.same(tries.Load(), int64(session.MaxTries))
}

func rotateAtOnce(s *suite) {
	old, fence := s.create(42, day), s.fence(42)
	made := make([]session.Session, atOnce)
	for i := range made {
		made[i] = s.next(42)
	}
	var replaced atomic.Int64
	s.together(func(ctx context.Context, store session.Store, i int) {
		err := store.Rotate(ctx, old.Ref, made[i], fence, lasting(day))
		s.check(err, session.ErrNotFound)
		if err == nil {
			replaced.Add(1)
		}
	})
	s.same(replaced.Load(), int64(1))
	s.same(len(s.keys(42)), 1)
	s.gone(old.Ref)
}

func takeAtOnce(s *suite) {
	id, err := s.store.(session.Ceremonies).PutCeremony(s.Context(), session.Ceremony{Purpose: "login"})
	s.ok(err)
	var taken atomic.Int64
	s.together(func(ctx context.Context, store session.Store, _ int) {
		_, err := store.(session.Ceremonies).TakeCeremony(ctx, id)
		if err == nil {
			taken.Add(1)
		} else if !errors.Is(err, session.ErrNotFound) {
			s.Error(err)
		}
	})
	s.same(taken.Load(), int64(1))
}

// TestCeremonies_OfStrangersCannotFillRedis floods a Redis of the size that the household's has, as many networks
// would.
func TestCeremonies_OfStrangersCannotFillRedis(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, "--save", "", "--appendonly", "no", "--maxmemory", "64mb", "--maxmemory-policy", "noeviction")
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	s, ctx := redisstore.New(client, "svc"), t.Context()
	put := func(c session.Ceremony) string {
		id, err := s.PutCeremony(ctx, c)
		if err != nil {
			t.Error(err)
		}
		return id
	}
	login := session.Ceremony{Purpose: "login", Data: make([]byte, 2000)}
	member := put(session.Ceremony{Purpose: "reauth", UserID: 42, Owner: "owner", Data: login.Data})
	newcomer := put(session.Ceremony{Purpose: "join", Owner: "link", Data: login.Data})
	first := put(login)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 2000 {
				if put(login); t.Failed() {
					return
				}
			}
		})
	}
	all.Wait()
	last := put(login)
	for name, test := range map[string]struct {
		id   string
		want error
	}{"member": {member, nil}, "newcomer": {newcomer, nil}, "first": {first, session.ErrNotFound}, "last": {last, nil}} {
		if _, err := s.TakeCeremony(ctx, test.id); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
