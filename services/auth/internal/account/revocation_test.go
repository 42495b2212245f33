package account_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// pending is how many revocations are not carried out yet.
func (r *rules) pending() int {
	r.t.Helper()
	list, err := r.users.PendingRevocations(r.t.Context(), time.Now().Add(time.Hour), 0)
	if err != nil {
		r.t.Fatal(err)
	}
	return len(list)
}

// replaying runs Replay for a while of the test's time.
func (r *rules) replaying(d time.Duration) {
	ctx, stop := context.WithTimeout(r.t.Context(), d)
	defer stop()
	r.Replay(ctx)
}

func TestWhatAProcessLeftBehindIsRevokedAtTheNextStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRules(t)
		u := r.add("anna")
		s, err := r.login("anna", oldPass)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.users.Delete(t.Context(), u.ID, user.Operator); err != nil { // and the process ends
			t.Fatal(err)
		}
		if !r.alive(s) || r.pending() != 1 {
			t.Fatalf("alive: %t, pending: %d", r.alive(s), r.pending())
		}
		r.replaying(time.Millisecond)
		if r.alive(s) || r.pending() != 0 {
			t.Errorf("alive: %t, pending: %d", r.alive(s), r.pending())
		}
	})
}

func TestWhatTheSessionStoreMissedIsRevokedWhenItIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRules(t)
		r.add("anna")
		kept, err := r.login("anna", oldPass)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
		other, err := r.login("anna", oldPass)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		go r.Replay(ctx)
		time.Sleep(time.Minute)
		r.sessions.away.Store(true)
		if err := r.ChangePassword(t.Context(), kept, oldPass, newPass); !errors.Is(err, account.ErrPending) {
			t.Fatalf("the change itself: %v", err)
		}
		time.Sleep(time.Minute)
		if !r.alive(other) || r.pending() != 1 {
			t.Fatalf("alive: %t, pending: %d", r.alive(other), r.pending())
		}
		r.sessions.away.Store(false)
		time.Sleep(1100 * time.Millisecond)
		stop()
		if r.alive(other) || !r.alive(kept) || r.pending() != 0 {
			t.Errorf("the other lives: %t, the kept one: %t, pending: %d", r.alive(other), r.alive(kept), r.pending())
		}
	})
}

func TestTheOperatorIsToldThatSessionsCouldNotFollow(t *testing.T) {
	r := newRules(t)
	r.add("anna")
	r.sessions.away.Store(true)
	if err := r.ResetPassword(t.Context(), "anna", newPass); !errors.Is(err, account.ErrPending) {
		t.Errorf("got %v", err)
	}
	if err := r.Remove(t.Context(), "anna"); !errors.Is(err, account.ErrPending) {
		t.Errorf("got %v", err)
	}
	if r.pending() != 2 {
		t.Errorf("%d are pending", r.pending())
	}
}

func TestOfTwoRolesSetAtOnceSessionsHaveTheOneThatTheUserHas(t *testing.T) {
	r := newRules(t)
	if _, err := r.Bootstrap(t.Context(), "root", oldPass); err != nil {
		t.Fatal(err)
	}
	u := r.add("anna")
	s, err := r.login("anna", oldPass)
	if err != nil {
		t.Fatal(err)
	}
	r.sessions.beforeRole = func() { // the other change comes between reading and writing
		r.sessions.beforeRole = nil
		if _, err := r.users.SetRole(t.Context(), u.ID, user.Member); err != nil {
			t.Error(err)
		}
	}
	if err := r.SetRole(t.Context(), "anna", "admin"); err != nil {
		t.Fatal(err)
	}
	now, err := r.sessions.Load(t.Context(), s.Ref, session.Lifetime)
	if err != nil || now.Role != "member" {
		t.Errorf("got %+v, %v", now, err)
	}
}

func TestARoleThatKeepsChangingIsLeftForLater(t *testing.T) {
	r := newRules(t)
	if _, err := r.Bootstrap(t.Context(), "root", oldPass); err != nil {
		t.Fatal(err)
	}
	u := r.add("anna")
	other := map[user.Role]user.Role{user.Admin: user.Member, user.Member: user.Admin}
	r.sessions.beforeRole = func() {
		now, err := r.users.ByID(t.Context(), u.ID)
		if err == nil {
			_, err = r.users.SetRole(t.Context(), u.ID, other[now.Role])
		}
		if err != nil {
			t.Error(err)
		}
	}
	if err := r.SetRole(t.Context(), "anna", "admin"); !errors.Is(err, account.ErrPending) {
		t.Errorf("got %v", err)
	}
}

// TestRevocationsThatCannotBeDoneDoNotHoldUpLaterOnes has more of them than are
// read at once.
func TestRevocationsThatCannotBeDoneDoNotHoldUpLaterOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRules(t)
		stuck, later := r.add("anna"), r.add("ben")
		for range 2*user.MaxPending + 50 {
			if _, err := r.users.EndSessions(t.Context(), stuck.ID); err != nil {
				t.Fatal(err)
			}
		}
		s, err := r.login("ben", oldPass)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.users.EndSessions(t.Context(), later.ID); err != nil {
			t.Fatal(err)
		}
		r.sessions.awayFor.Store(stuck.ID)
		r.replaying(time.Millisecond)
		if r.alive(s) || r.pending() != user.MaxPending {
			t.Errorf("alive: %t, pending: %d", r.alive(s), r.pending())
		}
		r.sessions.awayFor.Store(0)
		r.replaying(time.Millisecond)
		if r.pending() != 0 {
			t.Errorf("pending: %d", r.pending())
		}
	})
}
