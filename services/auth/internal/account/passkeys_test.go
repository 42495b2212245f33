package account_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/factor/passkeytest"
	"github.com/pforte/pforte/services/auth/internal/session"
)

const origin = "https://home.example.org"

// device is an authenticator without credentials.
func device(t *testing.T) *passkeytest.Authenticator { return passkeytest.New(t, origin) }

// register adds a passkey for the user of a session.
func (r *rules) register(of session.Session, d *passkeytest.Authenticator) (account.PasskeyInfo, error) {
	r.t.Helper()
	begun, err := r.Service.Passkeys.RegisterOptions(r.t.Context(), of)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.Service.Passkeys.Register(r.t.Context(), of, "key", account.PasskeyAnswer{CeremonyID: begun.ID, Credential: d.Create(begun.Options)})
}

// withPasskey returns a user's session and their authenticator.
func (r *rules) withPasskey(name string) (session.Session, *passkeytest.Authenticator, account.PasskeyInfo) {
	r.t.Helper()
	r.add(name)
	s, err := r.login(name, oldPass)
	if err != nil {
		r.t.Fatal(err)
	}
	d := device(r.t)
	added, err := r.register(s, d)
	if err != nil {
		r.t.Fatal(err)
	}
	return s, d, added
}

// passkeyAnswer is an authenticator's answer to a new login.
func (r *rules) passkeyAnswer(d *passkeytest.Authenticator) account.PasskeyAnswer {
	r.t.Helper()
	begun, err := r.Service.Passkeys.LoginOptions(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return account.PasskeyAnswer{CeremonyID: begun.ID, Credential: d.Get(begun.Options)}
}

func (r *rules) passkeyLogin(answer account.PasskeyAnswer) (session.Session, error) {
	in, err := r.Service.Passkeys.Login(r.t.Context(), answer, account.Credentials{})
	return in.Session, err
}

func TestPasskey_AnAnswerCountsOnce(t *testing.T) {
	r := newRules(t)
	_, d, _ := r.withPasskey("anna")
	answer := r.passkeyAnswer(d)
	var won sync.Map
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			s, err := r.passkeyLogin(answer)
			if err == nil {
				won.Store(i, s)
			} else if !errors.Is(err, factor.ErrPasskeyFailed) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	n := 0
	won.Range(func(_, s any) bool {
		n++
		if s := s.(session.Session); s.Factor != session.Passkey || s.Username != "anna" || !r.alive(s) {
			t.Errorf("got %+v", s)
		}
		return true
	})
	if n != 1 {
		t.Errorf("%d sessions", n)
	}
}

func TestPasskey_AFailedAnswerUsesItsCeremonyUp(t *testing.T) {
	r := newRules(t)
	_, d, _ := r.withPasskey("anna")
	good := r.passkeyAnswer(d)
	bad := good
	bad.Credential = json.RawMessage(`{}`)
	for _, answer := range []account.PasskeyAnswer{bad, good} {
		if _, err := r.passkeyLogin(answer); !errors.Is(err, factor.ErrPasskeyFailed) {
			t.Errorf("got %v", err)
		}
	}
}

func TestPasskey_ACeremonyIsForItsPurposeAndSession(t *testing.T) {
	r := newRules(t)
	anna, d, _ := r.withPasskey("anna")
	paul, hers, _ := r.withPasskey("paul")
	again, err := r.login("anna", oldPass)
	if err != nil {
		t.Fatal(err)
	}
	begin := func(f func(context.Context, session.Session) (account.PasskeyCeremony, error), of session.Session) account.PasskeyCeremony {
		begun, err := f(t.Context(), of)
		if err != nil {
			t.Fatal(err)
		}
		return begun
	}
	reauth := func(of session.Session, answer account.PasskeyAnswer) error {
		_, err := r.Service.Passkeys.Reauth(t.Context(), of, answer)
		return err
	}
	register := func(of session.Session, answer account.PasskeyAnswer) error {
		_, err := r.Service.Passkeys.Register(t.Context(), of, "key", answer)
		return err
	}
	for name, try := range map[string]func() error{
		"registering, used for a login": func() error {
			begun := begin(r.Service.Passkeys.RegisterOptions, anna)
			_, err := r.passkeyLogin(account.PasskeyAnswer{CeremonyID: begun.ID, Credential: d.GetWith(d.Keys[0], begun.Options)})
			return err
		},
		"a confirmation, used for a login": func() error {
			begun := begin(r.Service.Passkeys.ReauthOptions, anna)
			_, err := r.passkeyLogin(account.PasskeyAnswer{CeremonyID: begun.ID, Credential: d.Get(begun.Options)})
			return err
		},
		"a login, used for a confirmation": func() error { return reauth(anna, r.passkeyAnswer(d)) },
		"a confirmation in another session of the user": func() error {
			begun := begin(r.Service.Passkeys.ReauthOptions, anna)
			return reauth(again, account.PasskeyAnswer{CeremonyID: begun.ID, Credential: d.Get(begun.Options)})
		},
		"a confirmation by another user's passkey": func() error {
			begun := begin(r.Service.Passkeys.ReauthOptions, anna)
			return reauth(anna, account.PasskeyAnswer{CeremonyID: begun.ID, Credential: hers.GetWith(hers.Keys[0], begun.Options)})
		},
		"registering in another user's session": func() error {
			begun := begin(r.Service.Passkeys.RegisterOptions, anna)
			return register(paul, account.PasskeyAnswer{CeremonyID: begun.ID, Credential: device(t).Create(begun.Options)})
		},
		"no ceremony": func() error {
			_, err := r.passkeyLogin(account.PasskeyAnswer{Credential: r.passkeyAnswer(d).Credential})
			return err
		},
		"another ceremony": func() error {
			_, err := r.passkeyLogin(account.PasskeyAnswer{CeremonyID: r.passkeyAnswer(d).CeremonyID, Credential: r.passkeyAnswer(d).Credential})
			return err
		},
	} {
		if err := try(); !errors.Is(err, factor.ErrPasskeyFailed) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := r.passkeyLogin(r.passkeyAnswer(d)); err != nil {
		t.Errorf("the right one: %v", err)
	}
}

func TestPasskey_TwoUsersOnOneAuthenticatorAreTwo(t *testing.T) {
	r := newRules(t)
	_, d, _ := r.withPasskey("anna")
	r.add("paul")
	paul, err := r.login("paul", oldPass)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.register(paul, d); err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"anna", "paul"} {
		begun, err := r.Service.Passkeys.LoginOptions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s, err := r.passkeyLogin(account.PasskeyAnswer{CeremonyID: begun.ID, Credential: d.GetWith(d.Keys[i], begun.Options)})
		if err != nil || s.Username != name {
			t.Errorf("got %+v, %v", s, err)
		}
	}
}

func TestPasskey_ALoginEndsTheSessionItReplaces(t *testing.T) {
	r := newRules(t)
	before, d, _ := r.withPasskey("anna")
	in, err := r.Service.Passkeys.Login(t.Context(), r.passkeyAnswer(d), account.Credentials{Replaces: before.Ref, UserAgent: "Firefox"})
	if err != nil || r.alive(before) || !r.alive(in.Session) || in.Session.UserAgent != "Firefox" {
		t.Errorf("got %+v, %v", in, err)
	}
}

// TestPasskey_ChangesBeforeTheAnswerCount changes the user while the browser waits, and
// when the answer was accepted and the session is not created yet.
func TestPasskey_ChangesBeforeTheAnswerCount(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *rules, s session.Session, p account.PasskeyInfo) error
		ok     bool
	}{
		"the user is deleted": {func(r *rules, _ session.Session, _ account.PasskeyInfo) error {
			return r.remove("anna")
		}, false},
		"the passkey is removed": {func(r *rules, s session.Session, p account.PasskeyInfo) error {
			return r.Service.Passkeys.Remove(t.Context(), s, p.ID)
		}, false},
		"the password is changed": {func(r *rules, _ session.Session, _ account.PasskeyInfo) error {
			return r.ResetPassword(t.Context(), "anna", newPass)
		}, true},
	} {
		for _, late := range []bool{false, true} {
			r := newRules(t)
			s, d, p := r.withPasskey("anna")
			answer := r.passkeyAnswer(d)
			change := func() {
				if err := c.change(r, s, p); err != nil {
					t.Error(err)
				}
			}
			if late {
				r.sessions.beforeFence = change
			} else {
				change()
			}
			in, err := r.passkeyLogin(answer)
			if c.ok && (err != nil || !r.alive(in)) || !c.ok && (!errors.Is(err, factor.ErrPasskeyFailed) || r.alive(in)) {
				t.Errorf("%s, after the answer was accepted: %t: got %v", name, late, err)
			}
		}
	}
}

func TestPasskey_AConfirmationReplacesTheSession(t *testing.T) {
	r := newRules(t)
	s, d, _ := r.withPasskey("anna")
	other, err := r.login("anna", oldPass)
	if err != nil {
		t.Fatal(err)
	}
	begun, err := r.Service.Passkeys.ReauthOptions(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	in, err := r.Service.Passkeys.Reauth(t.Context(), s, account.PasskeyAnswer{CeremonyID: begun.ID, Credential: d.Get(begun.Options)})
	if err != nil {
		t.Fatal(err)
	}
	if n := in.Session; n.Key == s.Key || n.CSRFToken == s.CSRFToken || n.Factor != session.Passkey || n.AuthAt.Before(s.AuthAt) || in.SessionID == "" || !r.alive(n) || r.alive(s) || !r.alive(other) {
		t.Errorf("got %+v; alive: the old one %t, another %t", in, r.alive(s), r.alive(other))
	}
	if begun, err = r.Service.Passkeys.ReauthOptions(t.Context(), in.Session); err != nil {
		t.Fatal(err)
	}
	answer := account.PasskeyAnswer{CeremonyID: begun.ID, Credential: d.Get(begun.Options)}
	if err := r.Logout(t.Context(), in.Session); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Service.Passkeys.Reauth(t.Context(), in.Session, answer); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("after a logout: %v", err)
	}
}

func TestPasskey_AFencedConfirmationFails(t *testing.T) {
	r := newRules(t)
	s, d, _ := r.withPasskey("anna")
	begun, err := r.Service.Passkeys.ReauthOptions(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	r.sessions.beforeFence = func() {
		if _, err := r.RevokeSessionsOf(t.Context(), "anna"); err != nil {
			t.Error(err)
		}
	}
	in, err := r.Service.Passkeys.Reauth(t.Context(), s, account.PasskeyAnswer{CeremonyID: begun.ID, Credential: d.Get(begun.Options)})
	if !errors.Is(err, session.ErrNotFound) || r.alive(in.Session) {
		t.Errorf("got %v", err)
	}
}

func TestPasskey_AnEndedSessionAddsNone(t *testing.T) {
	for name, end := range map[string]func(r *rules, s session.Session) error{
		"logout":     func(r *rules, s session.Session) error { return r.Logout(t.Context(), s) },
		"revocation": func(r *rules, _ session.Session) error { _, err := r.RevokeSessionsOf(t.Context(), "anna"); return err },
		"deletion":   func(r *rules, _ session.Session) error { return r.remove("anna") },
		"a store that forgot": func(r *rules, s session.Session) error {
			r.sessions.away.Store(true)
			_, err := r.RevokeSessionsOf(t.Context(), "anna")
			if errors.Is(err, account.ErrPending) {
				err = nil
			}
			return err
		},
	} {
		r := newRules(t)
		u := r.add("anna")
		s, err := r.login("anna", oldPass)
		if err != nil {
			t.Fatal(err)
		}
		begun, err := r.Service.Passkeys.RegisterOptions(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if err := end(r, s); err != nil {
			t.Fatal(err)
		}
		_, err = r.Service.Passkeys.Register(t.Context(), s, "key", account.PasskeyAnswer{CeremonyID: begun.ID, Credential: device(t).Create(begun.Options)})
		list, listErr := r.Service.Passkeys.List(t.Context(), u.ID)
		if !errors.Is(err, session.ErrNotFound) || listErr != nil || len(list) > 0 {
			t.Errorf("%s: got %v, %v, %v", name, err, list, listErr)
		}
	}
}

func TestPasskey_ACounterThatStepsBackIsRefused(t *testing.T) {
	r := newRules(t)
	_, d, p := r.withPasskey("anna")
	d.Count = 5
	if _, err := r.passkeyLogin(r.passkeyAnswer(d)); err != nil {
		t.Fatal(err)
	}
	d.Count = 4
	if _, err := r.passkeyLogin(r.passkeyAnswer(d)); !errors.Is(err, factor.ErrPasskeyCloned) {
		t.Errorf("got %v", err)
	}
	list, err := r.Service.Passkeys.List(t.Context(), p.UserID)
	if err != nil || len(list) != 1 || list[0].SignCount != 5 || time.Since(list[0].LastUsedAt) > time.Minute || !list[0].Synced || list[0].Foreign {
		t.Errorf("got %+v, %v", list, err)
	}
}

func TestPasskey_NamesAreChecked(t *testing.T) {
	r := newRules(t)
	s, _, p := r.withPasskey("anna")
	for name, want := range map[string]error{
		" Annas Handy ": nil, "": account.ErrMissing, " \t": account.ErrMissing, "a\x00b": account.ErrPasskeyName,
		string(make([]rune, 65)): account.ErrPasskeyName,
	} {
		renamed, err := r.Service.Passkeys.Rename(t.Context(), s, p.ID, name)
		if !errors.Is(err, want) || err == nil && renamed.Name != "Annas Handy" {
			t.Errorf("%q: got %q, %v", name, renamed.Name, err)
		}
	}
}
