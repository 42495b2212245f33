package httpapi_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/factor/passkeytest"
)

// AUTH-3.4 and AUTH-3.5: guards answer before the body is read, but what
// they saw may be over when it has arrived.

func TestSlowBody_ADemotedAdminCreatesNoUser(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(*browser) error
		want      int
	}{
		"deleted":                 {func(b *browser) error { return b.h.remove("anna") }, http.StatusUnauthorized},
		"demoted":                 {func(b *browser) error { return b.h.people.SetRole(b.h.t.Context(), "anna", "member") }, http.StatusForbidden},
		"given another password":  {func(b *browser) error { return b.h.accounts.ResetPassword(b.h.t.Context(), "anna", "another one") }, http.StatusUnauthorized},
		"logged out":              {func(b *browser) error { b.logout().want(http.StatusOK); return nil }, http.StatusUnauthorized},
		"still admin, as a check": {func(*browser) error { return nil }, http.StatusCreated},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t)
			h.add("root", "Root", adminPass, "admin")
			b := h.anna()
			body := &slowBody{text: strings.NewReader(newUser()), meanwhile: func() {
				copied := *b
				copied.cookies = map[string]string{"svc.sid": b.cookies["svc.sid"], "csrf-token": b.cookies["csrf-token"]}
				if err := c.meanwhile(&copied); err != nil {
					t.Error(err)
				}
			}}
			b.sendBody(http.MethodPost, prefix+"/users", body).want(c.want)
			want := 3
			if c.want == http.StatusCreated {
				want = 4
			} else if name == "deleted" {
				want = 2
			}
			if users, err := h.people.List(t.Context()); err != nil || len(users) != want {
				t.Errorf("there are %d users: %v", len(users), err)
			}
		})
	}
}

func TestSlowBody_AnEndedSessionsProofIsRefused(t *testing.T) {
	for _, route := range []request{
		{http.MethodPatch, "/members/2", object("role", "admin")},
		{http.MethodPost, "/invites", object("role", "admin")},
		{http.MethodPut, "/2fa/require", object("required", true)},
		{http.MethodPost, "/2fa/enable", object("passkey", true)},
	} {
		for name, end := range map[string]func(*browser) error{
			"logged out":             func(b *browser) error { b.logout().want(http.StatusOK); return nil },
			"deleted":                func(b *browser) error { return b.h.remove("anna") },
			"given another password": func(b *browser) error { return b.h.accounts.ResetPassword(b.h.t.Context(), "anna", "another one") },
		} {
			t.Run(route.path+", "+name, func(t *testing.T) {
				h := newFixture(t)
				h.add("root", "Root", adminPass, "admin")
				b := h.anna()
				body := &slowBody{text: strings.NewReader(route.body), meanwhile: func() {
					if err := end(b.copy()); err != nil {
						t.Error(err)
					}
				}}
				b.sendBody(route.method, prefix+route.path, body).want(http.StatusUnauthorized)
				for event := range h.work() {
					if event == "role_changed" || event == "invite_made" || event == "duty_changed" || event == "second_factor_on" {
						t.Errorf("there is an event %s", event)
					}
				}
			})
		}
	}
}

func TestSlowBody_OfAnEndedSessionChangesNothing(t *testing.T) {
	for _, path := range []string{"/me/profile", "/2fa/disable", "/2fa/recovery-codes", "/passkeys/1"} {
		for name, end := range map[string]func(*browser) error{
			"logged out":             func(b *browser) error { b.logout().want(http.StatusOK); return nil },
			"given another password": func(b *browser) error { return b.h.accounts.ResetPassword(b.h.t.Context(), "anna", "another one") },
		} {
			t.Run(path+", "+name, func(t *testing.T) {
				h := newFixture(t)
				b := h.anna()
				d := passkeytest.New(t, origin)
				b.register(d)
				b.send(http.MethodPost, prefix+"/2fa/enable", object("passkey", true)).want(http.StatusOK)
				b = h.browser()
				b.passkeyLogin(d).want(http.StatusOK)
				before := h.work()
				body := &slowBody{text: strings.NewReader(`{"display_name": "Eve", "name": "Eve"}`), meanwhile: func() {
					if err := end(b.copy()); err != nil {
						t.Error(err)
					}
				}}
				method := http.MethodPost
				if path == "/me/profile" || path == "/passkeys/1" {
					method = http.MethodPatch
				}
				b.sendBody(method, prefix+path, body).want(http.StatusUnauthorized)
				for _, event := range []string{"profile_changed", "second_factor_off", "recovery_renewed", "passkey_renamed"} {
					if h.work()[event] != before[event] {
						t.Errorf("there is an event %s", event)
					}
				}
			})
		}
	}
}

// A right password does as little as a wrong one, and is not told from it.
func TestSlowBody_OfAnEndedSessionProvesNothing(t *testing.T) {
	for _, route := range []request{
		{http.MethodPost, "/reauth", `{"password": %q}`},
		{http.MethodPatch, "/me/password", `{"current_password": %q, "new_password": "one of Eve's own"}`},
	} {
		t.Run(route.path, func(t *testing.T) {
			told := map[string]bool{}
			for _, password := range []string{adminPass, "wrong"} {
				b := newFixture(t).anna()
				body := &slowBody{text: strings.NewReader(fmt.Sprintf(route.body, password)), meanwhile: func() {
					b.copy().logout().want(http.StatusOK)
				}}
				told[string(b.sendBody(route.method, prefix+route.path, body).want(http.StatusUnauthorized).body)] = true
				b.h.browser().login("anna", adminPass).want(http.StatusOK)
			}
			if len(told) != 1 {
				t.Errorf("it tells %v", told)
			}
		})
	}
}

func TestSlowBody_IsNotAwaitedForAWrongToken(t *testing.T) {
	h := newFixture(t)
	b := h.anna()
	h.setUp(b)
	body := &slowBody{text: strings.NewReader(malformed), meanwhile: func() { t.Error("the body was read") }}
	b.sendBody(http.MethodPatch, prefix+"/me/password", body, "X-CSRF-Token", "x").want(http.StatusForbidden)
}

// TestSlowBody_MayTakeLongerThanTheWorkForARequest: not every proxy waits for the end of a body, as Pforte's does for
// one of up to 64 KB.
func TestSlowBody_MayTakeLongerThanTheWorkForARequest(t *testing.T) {
	b := newFixture(t).otto()
	body := &slowBody{text: strings.NewReader(object("display_name", "Ottokar")), meanwhile: func() {
		time.Sleep(4600 * time.Millisecond)
	}}
	b.sendBody(http.MethodPatch, prefix+"/me/profile", body).want(http.StatusOK)
}

// slowBody is a request's body that arrives when something else has happened.
type slowBody struct {
	text      io.Reader
	meanwhile func()
}

func (s *slowBody) Read(p []byte) (int, error) {
	if s.meanwhile != nil {
		s.meanwhile()
		s.meanwhile = nil
	}
	return s.text.Read(p)
}
