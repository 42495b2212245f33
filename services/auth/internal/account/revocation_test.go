package account_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/app/apptest"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// pending is how many revocations are not carried out yet.
func (r *rules) pending() int {
	r.t.Helper()
	n := 0
	for after := int64(0); ; {
		list, err := r.users.PendingRevocations(r.t.Context(), time.Now().Add(time.Hour), after)
		if err != nil {
			r.t.Fatal(err)
		}
		if n += len(list); len(list) < user.MaxPending {
			return n
		}
		after = list[len(list)-1].ID
	}
}

// replay runs Replay until so many revocations are pending.
func (r *rules) replay(pending int) {
	r.t.Helper()
	ctx, stop := context.WithCancel(r.t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Replay(ctx) })
	r.waitFor(pending)
	stop()
	running.Wait()
}

func (r *rules) waitFor(pending int) {
	r.t.Helper()
	for range 1000 {
		if r.pending() == pending {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	r.t.Fatalf("pending: %d, want %d", r.pending(), pending)
}

func TestRevocation_LeftBehindIsDoneAtTheNextStart(t *testing.T) {
	t.Parallel()
	r := newRules(t)
	u := r.add("anna")
	s, err := r.login("anna", oldPass)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.users.Delete(t.Context(), u.ID, session.Session{}); err != nil { // and the process ends
		t.Fatal(err)
	}
	if !r.alive(s) || r.pending() != 1 {
		t.Fatalf("alive: %t, pending: %d", r.alive(s), r.pending())
	}
	r.replay(0)
	if r.alive(s) {
		t.Error("the session lives")
	}
}

func TestRevocation_MissedByTheStoreIsDoneWhenItIsBack(t *testing.T) {
	t.Parallel()
	r := newRules(t)
	r.add("anna")
	kept, err := r.login("anna", oldPass)
	if err != nil {
		t.Fatal(err)
	}
	other, err := r.login("anna", oldPass)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Replay(ctx) })
	r.sessions.away.Store(true)
	if err := r.ChangePassword(t.Context(), kept, oldPass, newPass); !errors.Is(err, account.ErrPending) {
		t.Fatalf("the change itself: %v", err)
	}
	time.Sleep(4 * time.Second) // until Replay has tried it
	if !r.alive(other) || r.pending() != 1 {
		t.Fatalf("alive: %t, pending: %d", r.alive(other), r.pending())
	}
	r.sessions.away.Store(false)
	r.waitFor(0)
	stop()
	running.Wait()
	if r.alive(other) || !r.alive(kept) {
		t.Errorf("the other lives: %t, the kept one: %t", r.alive(other), r.alive(kept))
	}
}

// TestRevocation_EndsNoLaterSessionWhileItsRecordStays: the disk is full, and Replay finds the record again and again.
func TestRevocation_EndsNoLaterSessionWhileItsRecordStays(t *testing.T) {
	t.Parallel()
	r := newRules(t)
	r.add("anna")
	before, err := r.login("anna", oldPass)
	if err != nil {
		t.Fatal(err)
	}
	r.users.full.Store(true)
	if err := r.ResetPassword(t.Context(), "anna", newPass); !errors.Is(err, account.ErrPending) {
		t.Fatalf("got %v", err)
	}
	later, err := r.login("anna", newPass)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Replay(ctx) })
	for deadline := time.Now().Add(10 * time.Second); r.users.tried.Load() < 2; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("Replay did not try")
		}
	}
	if r.alive(before) || !r.alive(later) {
		t.Errorf("the session of before lives: %t, the later one: %t", r.alive(before), r.alive(later))
	}
	r.users.full.Store(false)
	r.waitFor(0)
	stop()
	running.Wait()
}

func TestRevocation_IsPendingWhileTheStoreFails(t *testing.T) {
	r := newRules(t)
	r.add("anna")
	r.sessions.away.Store(true)
	if err := r.ResetPassword(t.Context(), "anna", newPass); !errors.Is(err, account.ErrPending) {
		t.Errorf("got %v", err)
	}
	if err := r.remove("anna"); !errors.Is(err, account.ErrPending) {
		t.Errorf("got %v", err)
	}
	if r.pending() != 2 {
		t.Errorf("%d are pending", r.pending())
	}
}

func TestRevocation_SessionsThatHaveYetToFollowAreNotLive(t *testing.T) {
	r := newRules(t)
	r.add("anna")
	s, err := r.login("anna", oldPass)
	if err != nil {
		t.Fatal(err)
	}
	r.sessions.away.Store(true)
	if err := r.ResetPassword(t.Context(), "anna", newPass); !errors.Is(err, account.ErrPending) {
		t.Fatalf("got %v", err)
	}
	if infos, err := r.Sessions(t.Context(), "anna"); err != nil || len(infos) != 0 {
		t.Errorf("got %+v, %v", infos, err)
	}
	if err := r.RevokeSession(t.Context(), "anna", s.Key); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("one of them: %v", err)
	}
}

func TestRevocation_OfOneSessionNeedsAPrefixOfItAlone(t *testing.T) {
	r := newRules(t)
	r.add("anna")
	first, second := apptest.Must(r.login("anna", oldPass))(t), apptest.Must(r.login("anna", oldPass))(t)
	if err := r.RevokeSession(t.Context(), "anna", ""); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("of two: %v", err)
	}
	if !r.alive(first) || !r.alive(second) {
		t.Error("one of them was ended")
	}
	if err := r.RevokeSession(t.Context(), "anna", first.Key); err != nil || r.alive(first) || !r.alive(second) {
		t.Errorf("of one: %v", err)
	}
}

// TestRevocation_ThatFailsHoldsUpNoLaterOnes has more of them than are
// read at once.
func TestRevocation_ThatFailsHoldsUpNoLaterOnes(t *testing.T) {
	t.Parallel()
	r := newRules(t)
	stuck, later := r.add("anna"), r.add("ben")
	const failing = 2*user.MaxPending + 50
	for range failing {
		if _, err := r.users.EndSessions(t.Context(), stuck.ID, session.Session{}); err != nil {
			t.Fatal(err)
		}
	}
	s, err := r.login("ben", oldPass)
	if err != nil {
		t.Fatal(err)
	}
	last, err := r.users.EndSessions(t.Context(), later.ID, session.Session{})
	if err != nil {
		t.Fatal(err)
	}
	r.sessions.awayFor.Store(stuck.ID)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Replay(ctx) })
	for deadline := time.Now().Add(10 * time.Second); r.alive(s); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the session lives")
		}
	}
	r.sessions.awayFor.Store(0)
	r.waitFor(0)
	stop()
	running.Wait()
	if last.ID <= failing {
		t.Errorf("the revocation of ben has the id %d, want it behind %d others", last.ID, failing)
	}
}
