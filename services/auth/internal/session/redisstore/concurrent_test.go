package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/pforte/pforte/services/auth/internal/session"
)

// testConcurrency checks what happens when 100 callers do something at once.
func testConcurrency(t *testing.T, open opener) {
	tests := map[string]func(*suite){
		"no request in flight brings a session back that a logout ended": logoutAgainstLoad,
		"no login in flight survives the deletion of its user":           loginAgainstDeletion,
		"no login with the old password survives its change":             loginAgainstPassword,
		"sessions are ended once by concurrent revocations":              revokeAtOnce,
		"one CSRF token wins": addCSRFAtOnce,
		"logins at once are all listed and all end with one revocation":         loginsAtOnce,
		"logins at once leave as many sessions as a user may have":              loginsOverLimit,
		"a sweep and requests do not disturb each other":                        sweepAgainstLoad,
		"a session that is kept survives any number of revocations of the rest": keepAtOnce,
		"a pending login becomes one session":                                   finishAtOnce,
		"a pending login has five tries":                                        triesAtOnce,
		"a session is replaced once":                                            rotateAtOnce,
		"a ceremony is taken once":                                              takeAtOnce,
		"a hand-over is taken once":                                             takeHandOverAtOnce,
		"a session opens 30 hosts":                                              openHostsAtOnce,
		"no host is opened with a session that a logout ended":                  openAgainstLogout,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { test(newSuite(t, open)) })
	}
}

// check reports an error other than those expected; it may be called from any
// goroutine.
func (s *suite) check(err error, expected ...error) {
	for _, e := range expected {
		if errors.Is(err, e) {
			return
		}
	}
	if err != nil {
		s.Error(err)
	}
}

func logoutAgainstLoad(s *suite) {
	made, other := s.create(42, day), s.create(42, day)
	s.together(func(ctx context.Context, store session.Store, i int) {
		if i%10 == 0 {
			s.check(store.Delete(ctx, made.Ref))
			return
		}
		_, err := store.Load(ctx, made.Ref, lasting(day))
		s.check(err, session.ErrNotFound)
		_, err = store.AddCSRFToken(ctx, made.Ref, "token")
		s.check(err, session.ErrNotFound)
	})
	s.gone(made.Ref)
	s.same(s.keys(42), []string{other.Key})
}

// login does what account does: the fence, then a look at the user, then the
// session.
func (s *suite) login(ctx context.Context, store session.Store, made session.Session, look func() bool) {
	fence, err := store.Fence(ctx, made.UserID)
	s.check(err)
	if !look() {
		return
	}
	s.check(store.Create(ctx, made, fence, lasting(day)), session.ErrFenced)
}

func loginAgainstDeletion(s *suite) {
	var deleted atomic.Bool
	s.logins(func() bool { return !deleted.Load() }, func(ctx context.Context, store session.Store) {
		deleted.Store(true) // the user store commits
		_, err := store.Revoke(ctx, 42, "")
		s.check(err)
	})
	s.same(s.keys(42), []string{})
}

func loginAgainstPassword(s *suite) {
	current := s.create(42, day)
	var changed atomic.Bool
	s.logins(func() bool { return !changed.Load() }, func(ctx context.Context, store session.Store) {
		changed.Store(true)
		_, err := store.Revoke(ctx, 42, current.Key)
		s.check(err)
	})
	s.same(s.keys(42), []string{current.Key})
}

// logins has 99 of 100 callers log in as user 42, who is changed by the other.
func (s *suite) logins(look func() bool, change func(context.Context, session.Store)) {
	made := make([]session.Session, atOnce)
	for i := range made {
		made[i] = s.next(42)
	}
	s.together(func(ctx context.Context, store session.Store, i int) {
		if i == atOnce/2 {
			change(ctx, store)
			return
		}
		s.login(ctx, store, made[i], look)
	})
}

func revokeAtOnce(s *suite) {
	for range 30 {
		s.create(42, day)
	}
	var ended atomic.Int64
	s.together(func(ctx context.Context, store session.Store, _ int) {
		n, err := store.Revoke(ctx, 42, "")
		s.check(err)
		ended.Add(int64(n))
	})
	s.same(ended.Load(), int64(30))
	s.same(s.keys(42), []string{})
}

func keepAtOnce(s *suite) {
	kept := s.create(42, day)
	s.together(func(ctx context.Context, store session.Store, i int) {
		if i%2 == 0 {
			_, err := store.Load(ctx, kept.Ref, lasting(day))
			s.check(err)
			return
		}
		_, err := store.Revoke(ctx, 42, kept.Key)
		s.check(err)
	})
	s.same(s.load(kept.Ref), kept)
	s.same(s.keys(42), []string{kept.Key})
}

func addCSRFAtOnce(s *suite) {
	made := s.next(42)
	made.CSRFToken = ""
	s.ok(s.store.Create(s.Context(), made, s.fence(42), lasting(day)))
	var tokens [atOnce]string
	s.together(func(ctx context.Context, store session.Store, i int) {
		var err error
		tokens[i], err = store.AddCSRFToken(ctx, made.Ref, fmt.Sprint("token", i))
		s.check(err)
	})
	for _, token := range tokens {
		s.same(token, s.load(made.Ref).CSRFToken)
	}
}

func loginsAtOnce(s *suite) {
	made, want := make([]session.Session, atOnce), make([]string, atOnce)
	for i := range made {
		made[i] = s.next(42)
		want[i] = made[i].Key
	}
	s.together(func(ctx context.Context, store session.Store, i int) {
		s.login(ctx, store, made[i], func() bool { return true })
	})
	s.same(sorted(s.keys(42)...), sorted(want...))
	ended, err := s.store.Revoke(s.Context(), 42, "")
	s.ok(err)
	s.same(ended, atOnce)
	for _, m := range made {
		s.gone(m.Ref)
	}
}

func sweepAgainstLoad(s *suite) {
	made := make([]session.Session, 10)
	for i := range made {
		made[i] = s.create(int64(i+1), day)
	}
	s.together(func(ctx context.Context, store session.Store, i int) {
		if i%10 == 9 {
			_, err := store.Sweep(ctx)
			s.check(err)
			return
		}
		_, err := store.Load(ctx, made[i%10].Ref, lasting(day))
		s.check(err)
	})
	for _, m := range made {
		s.same(s.keys(m.UserID), []string{m.Key})
	}
}

// loginsOverLimit makes three times as many sessions as there may be.
func loginsOverLimit(s *suite) {
	var made []session.Session
	for range 3 * session.MaxPerUser {
		m := s.next(42)
		m.Device = []session.Device{session.AnyDevice, session.OwnDevice, session.SharedDevice}[len(made)%3]
		made = append(made, m)
	}
	fence := s.fence(42)
	s.together(func(ctx context.Context, store session.Store, i int) {
		for _, m := range made[3*i : 3*i+3] {
			s.check(store.Create(ctx, m, fence, lasting(day)))
		}
	})
	keys := s.keys(42)
	s.same(len(keys), session.MaxPerUser)
	live := 0
	for _, m := range made {
		if _, err := s.store.Load(s.Context(), m.Ref, lasting(day)); err == nil {
			live++
		}
	}
	s.same(live, session.MaxPerUser)
	ended, err := s.store.Revoke(s.Context(), 42, keys[0])
	s.ok(err)
	s.same(ended, session.MaxPerUser-1)
	s.same(s.keys(42), keys[:1])
}
