package account_test

import (
	"context"
	"encoding/base32"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/app/apptest"
	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/password"
	"github.com/pforte/pforte/services/auth/internal/session"
)

// hookedPendings calls a hook of the tests before a login is finished.
type hookedPendings struct {
	session.Pendings
	beforeFinish func() error
}

func (h *hookedPendings) FinishPending(ctx context.Context, ref session.Ref, s session.Session, fence string, lifetimes session.Lifetimes) error {
	if hook := h.beforeFinish; hook != nil {
		h.beforeFinish = nil
		if err := hook(); err != nil {
			return err
		}
	}
	return h.Pendings.FinishPending(ctx, ref, s, fence, lifetimes)
}

// withTOTP returns a user with TOTP, the session that set it up, and the recovery codes.
func (r *rules) withTOTP(name string) (of session.Session, secret []byte, codes []string) {
	r.t.Helper()
	r.add(name)
	of, err := r.login(name, oldPass)
	if err != nil {
		r.t.Fatal(err)
	}
	setup, err := r.SecondFactor.SetupTOTP(r.t.Context(), of)
	if err != nil {
		r.t.Fatal(err)
	}
	if secret, err = base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(setup.Secret); err != nil {
		r.t.Fatal(err)
	}
	if codes, err = r.SecondFactor.EnableTOTP(r.t.Context(), of, factor.Code(secret, factor.StepOf(time.Now()))); err != nil {
		r.t.Fatal(err)
	}
	return of, secret, codes
}

func TestLogin_RehashesAWeakHashBeforeTheSecondStep(t *testing.T) {
	r := newRules(t)
	of, _, _ := r.withTOTP("anna")
	weak := apptest.Must(password.New(password.Options{Cost: 4}))(t)
	hash := apptest.Must(weak.Hash(t.Context(), oldPass))(t)
	stored := apptest.Must(r.users.ByID(t.Context(), of.UserID))(t).PasswordHash
	if err := r.users.Rehash(t.Context(), of.UserID, stored, hash); err != nil {
		t.Fatal(err)
	}
	r.begin("anna", session.Ref{})
	u := apptest.Must(r.users.ByID(t.Context(), of.UserID))(t)
	if !strings.HasPrefix(u.PasswordHash, "$2a$05$") {
		t.Errorf("the hash is %q", u.PasswordHash)
	}
}

// begin logs in with the password and returns the pending login.
func (r *rules) begin(name string, replaces session.Ref) session.Ref {
	r.t.Helper()
	in, err := r.Login(r.t.Context(), account.Credentials{Username: name, Password: oldPass, Replaces: replaces})
	if err != nil || in.Pending == nil || in.SessionID != "" {
		r.t.Fatalf("got %+v, %v", in, err)
	}
	return in.Pending.Ref
}

func (r *rules) live(userID int64) int {
	r.t.Helper()
	infos, err := r.sessions.List(r.t.Context(), userID)
	if err != nil {
		r.t.Fatal(err)
	}
	return len(infos)
}

// TestSecondFactor_AStoreFailureLosesTheCodeOnly also keeps the session that
// the login would have replaced.
func TestSecondFactor_AStoreFailureLosesTheCodeOnly(t *testing.T) {
	r := newRules(t)
	old, _, codes := r.withTOTP("anna")
	ref := r.begin("anna", old.Ref)
	away := errors.New("away")
	r.pendings.beforeFinish = func() error { return away }
	if _, _, _, err := r.VerifyCode(t.Context(), ref, account.Credentials{}, codes[0]); !errors.Is(err, away) {
		t.Errorf("got %v", err)
	}
	if r.live(old.UserID) != 1 || !r.alive(old) {
		t.Errorf("%d sessions live", r.live(old.UserID))
	}
	_, _, _, err := r.VerifyCode(t.Context(), ref, account.Credentials{}, codes[0])
	if !errors.Is(err, factor.ErrInvalidCode) {
		t.Errorf("the code that is lost: %v", err)
	}
	in, _, left, err := r.VerifyCode(t.Context(), ref, account.Credentials{}, codes[1])
	if err != nil || left != 8 || r.alive(old) || !r.alive(in.Session) || in.Session.Factor != session.PasswordWithRecovery {
		t.Errorf("the next code: %+v, left %d, %v", in.Session, left, err)
	}
}

// TestSecondFactor_ChangesAfterTheCodeCount changes the user when the code is used up
// already.
func TestSecondFactor_ChangesAfterTheCodeCount(t *testing.T) {
	for name, change := range map[string]func(r *rules, of session.Session) error{
		"a new password":        func(r *rules, _ session.Session) error { return r.ResetPassword(t.Context(), "anna", newPass) },
		"a reset of the factor": func(r *rules, _ session.Session) error { return r.SecondFactor.ResetOf(t.Context(), "anna") },
		"a deletion":            func(r *rules, _ session.Session) error { return r.remove("anna") },
		"all sessions ended": func(r *rules, _ session.Session) error {
			_, err := r.RevokeSessionsOf(t.Context(), "anna")
			return err
		},
		"the others ended": func(r *rules, of session.Session) error {
			_, err := r.EndOthers(t.Context(), of)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRules(t)
			old, _, codes := r.withTOTP("anna")
			ref := r.begin("anna", session.Ref{})
			r.pendings.beforeFinish = func() error { return change(r, old) }
			in, _, _, err := r.VerifyCode(t.Context(), ref, account.Credentials{}, codes[0])
			if !errors.Is(err, account.ErrNoPendingLogin) || r.alive(in.Session) {
				t.Errorf("got %v", err)
			}
			for _, s := range []bool{r.alive(old)} {
				if s && name != "the others ended" {
					t.Error("the session of before lives")
				}
			}
			_, _, _, err = r.VerifyCode(t.Context(), ref, account.Credentials{}, codes[1])
			if !errors.Is(err, account.ErrNoPendingLogin) {
				t.Errorf("the next code: %v", err)
			}
		})
	}
}

// TestSecondFactor_RacesWithChangesLeaveNoSession runs both at once: of whatever order, no
// session of before the change is left.
func TestSecondFactor_RacesWithChangesLeaveNoSession(t *testing.T) {
	for range 10 {
		r := newRules(t)
		old, _, codes := r.withTOTP("anna")
		ref := r.begin("anna", session.Ref{})
		var all sync.WaitGroup
		var opened atomic.Pointer[session.Session]
		for _, code := range codes[:4] {
			all.Go(func() {
				if in, _, _, err := r.VerifyCode(t.Context(), ref, account.Credentials{}, code); err == nil {
					opened.Store(&in.Session)
				}
			})
		}
		all.Go(func() {
			if err := r.ResetPassword(t.Context(), "anna", newPass); err != nil {
				t.Error(err)
			}
		})
		all.Wait()
		if s := opened.Load(); s != nil && r.alive(*s) || r.alive(old) || r.live(old.UserID) > 0 {
			t.Fatal("a session of before the new password lives")
		}
	}
}

func TestSecondFactor_ConfirmationIsLostWithTheSessionOnly(t *testing.T) {
	r := newRules(t)
	old, _, codes := r.withTOTP("anna")
	next, err := r.Reauth(t.Context(), old, oldPass, codes[0])
	if err != nil || r.alive(old) || !r.alive(next.Session) || r.live(old.UserID) != 1 {
		t.Fatalf("got %v", err)
	}
	if _, err := r.Reauth(t.Context(), old, oldPass, codes[1]); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("a session that was replaced: %v", err)
	}
	if err := r.End(t.Context(), next.Session); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reauth(t.Context(), next.Session, oldPass, codes[2]); !errors.Is(err, session.ErrNotFound) || r.live(old.UserID) != 0 {
		t.Errorf("a session that has ended: %v, %d live", err, r.live(old.UserID))
	}
}
