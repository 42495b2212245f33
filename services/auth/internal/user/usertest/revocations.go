package usertest

import (
	"context"
	"errors"
	"time"

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
	add(s.store.SetPasswordHash(s.Context(), u.ID, u.PasswordHash, "new", "key"))
	add(s.store.SetRole(s.Context(), u.ID, user.Admin))
	add(s.store.ResetPassword(s.Context(), u.ID, "reset"))
	add(s.store.Delete(s.Context(), u.ID, user.Operator))
	s.same(s.pending(s.now()), want)
	s.same(s.pending(want[2].RecordedAt), want[:2])
	s.same(s.pending(want[2].RecordedAt.Add(time.Millisecond)), want[:3])
	for range 2 {
		s.ok(s.store.RevocationDone(s.Context(), want[1].ID))
	}
	s.same(s.pending(s.now()), append(want[:1:1], want[2:]...))
}

func refusedChange(s *suite) {
	root := s.create("root", user.Admin)
	_, err := s.store.SetPasswordHash(s.Context(), root.ID, "another", "new", "")
	s.refused(err, user.ErrChanged)
	_, err = s.store.SetRole(s.Context(), root.ID, user.Member)
	s.refused(err, user.ErrLastAdmin)
	_, err = s.store.Delete(s.Context(), root.ID, user.Operator)
	s.refused(err, user.ErrLastAdmin)
	_, err = s.store.Delete(s.Context(), root.ID, root.ID+1)
	s.refused(err, user.ErrNotAdmin)
	s.same(s.get(root.ID), root)
	s.same(len(s.pending(s.now().Add(time.Hour))), 0)
}

func portions(s *suite) {
	u := s.create("anna", user.Member)
	const recorded = 230
	for range recorded {
		_, err := s.store.ResetPassword(s.Context(), u.ID, "reset")
		s.ok(err)
	}
	s.advance(time.Minute)
	var ids []int64
	for pending := s.pending(s.now()); len(pending) > 0; pending = s.pending(s.now()) {
		if len(pending) > 100 {
			s.Fatalf("%d at once", len(pending))
		}
		for _, r := range pending {
			ids = append(ids, r.ID)
			s.ok(s.store.RevocationDone(s.Context(), r.ID))
		}
	}
	s.same(len(ids), recorded)
}

func cancelled(s *suite) {
	root, u := s.create("root", user.Admin), s.create("anna", user.Member)
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	_, err := s.store.Delete(ctx, u.ID, root.ID)
	_, lookup := s.store.ByID(s.Context(), u.ID)
	if deleted := errors.Is(lookup, user.ErrNotFound); deleted != (err == nil) {
		s.Fatalf("delete said %v, and then the look-up said %v", err, lookup)
	}
}
