package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pforte/pforte/services/auth/internal/session"
)

// handOvers returns the part of a store that keeps hand-overs.
func handOvers(store session.Store) session.HandOvers { return store.(session.HandOvers) }

// opened reports whether a session has a host open by the hash of a secret.
func (s *suite) opened(ref session.Ref, host, hash string) bool {
	s.Helper()
	_, err := s.store.LoadHost(s.Context(), ref, host, hash, lasting(day))
	s.check(err, session.ErrNotFound)
	return err == nil
}

func handOverOnce(s *suite) {
	want := session.HandOver{Ref: s.next(42).Ref, Host: "photos.example:8443", State: "state.1770000000"}
	code, err := handOvers(s.store).CreateHandOver(s.Context(), want)
	s.ok(err)
	got, err := handOvers(s.store).TakeHandOver(s.Context(), code)
	s.ok(err)
	s.same(got, want)
	for _, unknown := range []string{code, "", "unknown"} {
		_, err = handOvers(s.store).TakeHandOver(s.Context(), unknown)
		s.refused(err, session.ErrNotFound)
	}
	if s.Advance == nil {
		return
	}
	for _, test := range []struct {
		age  time.Duration
		want error
	}{{session.HandOverLifetime - time.Second, nil}, {session.HandOverLifetime + time.Second, session.ErrNotFound}} {
		code, err = handOvers(s.store).CreateHandOver(s.Context(), want)
		s.ok(err)
		s.pass(test.age)
		_, err = handOvers(s.store).TakeHandOver(s.Context(), code)
		s.refused(err, test.want)
	}
}

func hostOpened(s *suite) {
	made, other := s.create(42, day), s.create(42, day)
	s.ok(handOvers(s.store).OpenHost(s.Context(), made.Ref, "photos.example", "hash"))
	got, err := s.store.LoadHost(s.Context(), made.Ref, "photos.example", "hash", lasting(day))
	s.ok(err)
	s.same(got, made)
	s.same(s.load(made.Ref), made)
	for _, wrong := range [][2]string{{"photos.example", "another"}, {"photos.example", ""}, {"photos.example", "1 hash"}, {"music.example", "hash"}, {"", "hash"}, {"", ""}} {
		s.same(s.opened(made.Ref, wrong[0], wrong[1]), false)
	}
	s.same(s.opened(other.Ref, "photos.example", "hash"), false)
	s.ok(handOvers(s.store).OpenHost(s.Context(), made.Ref, "photos.example", "next"))
	s.same(s.opened(made.Ref, "photos.example", "hash"), false)
	s.same(s.opened(made.Ref, "photos.example", "next"), true)
}

func hostsEnd(s *suite) {
	for name, end := range map[string]func(session.Session) error{
		"deleted": func(made session.Session) error { return s.store.Delete(s.Context(), made.Ref) },
		"revoked": func(session.Session) error { _, err := s.store.Revoke(s.Context(), 42, ""); return err },
		"replaced": func(made session.Session) error {
			next := s.next(42)
			err := s.store.Rotate(s.Context(), made.Ref, next, s.fence(42), lasting(day))
			s.same(s.opened(next.Ref, "photos.example", "hash"), false)
			return err
		},
	} {
		made := s.create(42, day)
		s.ok(handOvers(s.store).OpenHost(s.Context(), made.Ref, "photos.example", "hash"))
		s.same(s.opened(made.Ref, "photos.example", "hash"), true)
		s.ok(end(made))
		if s.opened(made.Ref, "photos.example", "hash") {
			s.Errorf("%s: the host is still open", name)
		}
		s.refused(handOvers(s.store).OpenHost(s.Context(), made.Ref, "photos.example", "hash"), session.ErrNotFound)
		s.gone(made.Ref) // and is not half there
	}
}

func hostRenews(s *suite) {
	made := s.create(42, short)
	s.ok(handOvers(s.store).OpenHost(s.Context(), made.Ref, "photos.example", "hash"))
	_, err := s.store.LoadHost(s.Context(), made.Ref, "photos.example", "wrong", lasting(day))
	s.refused(err, session.ErrNotFound)
	kept := s.create(42, short)
	s.ok(handOvers(s.store).OpenHost(s.Context(), kept.Ref, "photos.example", "hash"))
	s.same(s.opened(kept.Ref, "photos.example", "hash"), true) // and renewed for a day
	s.pass(short + 100*time.Millisecond)
	s.same(s.opened(kept.Ref, "photos.example", "hash"), true)
	s.gone(made.Ref)
	s.refused(handOvers(s.store).OpenHost(s.Context(), made.Ref, "photos.example", "hash"), session.ErrNotFound)
}

func hostsBounded(s *suite) {
	made := s.create(42, day)
	host := func(i int) string { return fmt.Sprintf("app%d.example", i) }
	for i := range session.MaxHosts {
		s.ok(handOvers(s.store).OpenHost(s.Context(), made.Ref, host(i), "hash"))
	}
	s.ok(handOvers(s.store).OpenHost(s.Context(), made.Ref, host(0), "again")) // no other one closes
	for i := 1; i < session.MaxHosts; i++ {
		s.same(s.opened(made.Ref, host(i), "hash"), true)
	}
	s.ok(handOvers(s.store).OpenHost(s.Context(), made.Ref, "one more", "hash"))
	s.same(s.opened(made.Ref, host(1), "hash"), false) // opened the longest ago
	for i := 2; i < session.MaxHosts; i++ {
		s.same(s.opened(made.Ref, host(i), "hash"), true)
	}
	s.same(s.opened(made.Ref, host(0), "again"), true)
	s.same(s.opened(made.Ref, "one more", "hash"), true)
	s.same(s.load(made.Ref), made)
}

func takeHandOverAtOnce(s *suite) {
	code, err := handOvers(s.store).CreateHandOver(s.Context(), session.HandOver{Ref: s.next(42).Ref, Host: "photos.example"})
	s.ok(err)
	var taken atomic.Int64
	s.together(func(ctx context.Context, store session.Store, _ int) {
		if _, err := handOvers(store).TakeHandOver(ctx, code); err == nil {
			taken.Add(1)
		} else if !errors.Is(err, session.ErrNotFound) {
			s.Error(err)
		}
	})
	s.same(taken.Load(), int64(1))
}

func openHostsAtOnce(s *suite) {
	made := s.create(42, day)
	host := func(i int) string { return fmt.Sprintf("app%d.example", i) }
	s.together(func(ctx context.Context, store session.Store, i int) {
		s.check(handOvers(store).OpenHost(ctx, made.Ref, host(i), "hash"))
	})
	open := 0
	for i := range atOnce {
		if s.opened(made.Ref, host(i), "hash") {
			open++
		}
	}
	s.same(open, session.MaxHosts)
	s.same(s.load(made.Ref), made)
}

// openAgainstLogout has half of the callers open hosts of a session that the others end.
func openAgainstLogout(s *suite) {
	made := s.create(42, day)
	s.together(func(ctx context.Context, store session.Store, i int) {
		if i%2 == 0 {
			s.check(handOvers(store).OpenHost(ctx, made.Ref, "photos.example", "hash"), session.ErrNotFound)
			return
		}
		s.check(store.Delete(ctx, made.Ref))
	})
	s.same(s.opened(made.Ref, "photos.example", "hash"), false)
	s.gone(made.Ref)
	s.same(s.keys(42), []string{})
}
