package sqlstore_test

import (
	"context"
	"errors"
	"time"

	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

func revocations(s *suite) {
	s.create("root", user.Admin)
	u := s.create("anna", user.Member)
	var want []user.Revocation
	add := func(r user.Revocation, err error) {
		s.Helper()
		s.ok(err)
		want = append(want, r)
		s.advance(10 * time.Second)
	}
	add(s.store.Users.SetPasswordHash(s.Context(), sessionOf(s.get(u.ID), "key"), u.PasswordHash, "new"))
	s.ok(s.store.Users.SetRole(s.Context(), u.ID, user.Admin)) // which sessions need not follow
	add(s.store.Users.ResetPassword(s.Context(), u.ID, "reset"))
	add(s.store.Users.EndSessions(s.Context(), u.ID, session.Session{}))
	add(s.store.Users.Delete(s.Context(), u.ID, session.Session{}))
	s.same(s.pending(s.now()), want)
	s.same(s.pending(want[2].RecordedAt), want[:2])
	s.same(s.pending(want[2].RecordedAt.Add(time.Millisecond)), want[:3])
	for range 2 {
		s.ok(s.store.Users.RevocationDone(s.Context(), want[1].ID))
	}
	s.same(s.pending(s.now()), append(want[:1:1], want[2:]...))
}

func refusedChange(s *suite) {
	root := s.create("root", user.Admin)
	_, err := s.store.Users.SetPasswordHash(s.Context(), sessionOf(root, ""), "another", "new")
	s.refused(err, user.ErrChanged)
	s.refused(s.store.Users.SetRole(s.Context(), root.ID, user.Member), user.ErrLastAdmin)
	_, err = s.store.Users.Delete(s.Context(), root.ID, session.Session{})
	s.refused(err, user.ErrLastAdmin)
	_, err = s.store.Users.Delete(s.Context(), root.ID, session.Session{Ref: session.Ref{UserID: root.ID + 1}})
	s.refused(err, user.ErrNotAdmin)
	s.same(s.get(root.ID), root)
	s.same(len(s.pending(s.now().Add(time.Hour))), 0)
}

func portions(s *suite) {
	u := s.create("anna", user.Member)
	const recorded = 230
	for range recorded {
		_, err := s.store.Users.ResetPassword(s.Context(), u.ID, "reset")
		s.ok(err)
	}
	s.advance(time.Minute)
	var paged []user.Revocation
	for after := int64(0); ; after = paged[len(paged)-1].ID {
		page, err := s.store.Users.PendingRevocations(s.Context(), s.now(), after)
		s.ok(err)
		if paged = append(paged, page...); len(page) < user.MaxPending {
			break
		}
	}
	s.same(len(paged), recorded)
	var ids []int64
	for pending := s.pending(s.now()); len(pending) > 0; pending = s.pending(s.now()) {
		if len(pending) > 100 {
			s.Fatalf("%d at once", len(pending))
		}
		for _, r := range pending {
			ids = append(ids, r.ID)
			s.ok(s.store.Users.RevocationDone(s.Context(), r.ID))
		}
	}
	s.same(len(ids), recorded)
}

func cancelled(s *suite) {
	root, u := s.create("root", user.Admin), s.create("anna", user.Member)
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	_, err := s.store.Users.Delete(ctx, u.ID, sessionOf(root, "key"))
	_, lookup := s.store.Users.ByID(s.Context(), u.ID)
	if deleted := errors.Is(lookup, user.ErrNotFound); deleted != (err == nil) {
		s.Fatalf("delete returned %v, and then the look-up returned %v", err, lookup)
	}
}

// unstamped is a user without what is random.
func unstamped(u user.User) user.User {
	u.SessionStamp = ""
	return u
}

// stamps makes every kind of change and looks at which sessions are admitted.
func stamps(s *suite) {
	u := s.create("anna", user.Member)
	other := s.create("ben", user.Member)
	s.same(len(u.SessionStamp) >= 26 && u.SessionStamp != other.SessionStamp, true)
	seen := map[string]bool{u.SessionStamp: true}
	ended := func(keep string, _ user.Revocation, err error) {
		s.Helper()
		s.ok(err)
		now := s.get(u.ID)
		if seen[now.SessionStamp] || now.SessionStamp == "" {
			s.Fatalf("the stamp %q is not new", now.SessionStamp)
		}
		seen[now.SessionStamp] = true
		s.same(now.KeptSession, keep)
		s.same([]bool{now.Admits(u.SessionStamp, "key", s.now()), now.Admits(u.SessionStamp, "another", s.now()), now.Admits(u.SessionStamp, "", s.now()), now.Admits(now.SessionStamp, "another", s.now())},
			[]bool{keep == "key", false, false, true})
		u = now
	}
	same := func(err error) {
		s.Helper()
		s.ok(err)
		now := s.get(u.ID)
		s.same([]string{now.SessionStamp, now.KeptSession}, []string{u.SessionStamp, u.KeptSession})
	}
	r, err := s.store.Users.SetPasswordHash(s.Context(), sessionOf(s.get(u.ID), "key"), u.PasswordHash, "new")
	ended("key", r, err)
	same(s.store.Users.Rehash(s.Context(), u.ID, "new", "newer"))
	same(s.store.Users.SetRole(s.Context(), u.ID, user.Admin))
	r, err = s.store.Users.ResetPassword(s.Context(), u.ID, "reset")
	ended("", r, err)
	r, err = s.store.Users.SetPasswordHash(s.Context(), sessionOf(s.get(u.ID), "key"), "reset", "new")
	ended("key", r, err)
	r, err = s.store.Users.EndSessions(s.Context(), u.ID, session.Session{})
	ended("", r, err)
	s.same(s.get(u.ID).PasswordHash, "new")
	s.same(s.get(other.ID), other)
	_, err = s.store.Users.EndSessions(s.Context(), other.ID+1, session.Session{})
	s.refused(err, user.ErrNotFound)

	s.ok(s.store.Users.SetRole(s.Context(), other.ID, user.Admin))
	_, err = s.store.Users.Delete(s.Context(), u.ID, session.Session{})
	s.ok(err)
	_, err = s.store.Users.Import(s.Context(), []user.User{{ID: u.ID, New: person("carl", user.Member)}})
	s.ok(err)
	s.same(seen[s.get(u.ID).SessionStamp], false)
}
