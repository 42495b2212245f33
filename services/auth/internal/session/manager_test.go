package session_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/services/auth/internal/session"
)

func TestCookie_AttributesOfBoth(t *testing.T) {
	const week = "; Path=/; Expires=Sun, 08 Mar 2026 12:00:00 GMT; Max-Age=604800"
	for name, test := range map[string]struct {
		options      session.Options
		sid, csrf    string
		clearSession string
	}{
		"those of AUTH-2.1": {
			session.Options{Secure: true},
			week + "; HttpOnly; Secure; SameSite=Lax", week + "; Secure; SameSite=Lax",
			"svc.sid=; Path=/; Expires=Thu, 01 Jan 1970 00:00:01 GMT; Max-Age=0; HttpOnly; Secure; SameSite=Lax",
		},
		"without Secure": {
			session.Options{},
			week + "; HttpOnly; SameSite=Lax", week + "; SameSite=Lax",
			"svc.sid=; Path=/; Expires=Thu, 01 Jan 1970 00:00:01 GMT; Max-Age=0; HttpOnly; SameSite=Lax",
		},
		"of the earlier variant": {
			session.Options{Secure: true, SameSite: http.SameSiteStrictMode},
			week + "; HttpOnly; Secure; SameSite=Strict", week + "; Secure; SameSite=Strict",
			"svc.sid=; Path=/; Expires=Thu, 01 Jan 1970 00:00:01 GMT; Max-Age=0; HttpOnly; Secure; SameSite=Strict",
		},
	} {
		t.Run(name, func(t *testing.T) {
			store, c := newSpy(t)
			test.options.Store, test.options.Now = store, c.now
			b := newBrowser(t, test.options)
			s := b.login(42)
			sent := func() []string {
				return []string{"svc.sid=" + b.cookies["svc.sid"] + test.sid, "csrf-token=" + s.CSRFToken + test.csrf}
			}
			if diff := cmp.Diff(sent(), b.sent); diff != "" {
				t.Errorf("after login (-want +got):\n%s", diff)
			}
			if err := b.resend(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(sent(), b.sent); diff != "" {
				t.Errorf("sent again (-want +got):\n%s", diff)
			}
			if err := b.clear(); err != nil {
				t.Fatal(err)
			}
			csrf := strings.NewReplacer("svc.sid", "csrf-token", "; HttpOnly", "").Replace(test.clearSession)
			if diff := cmp.Diff([]string{test.clearSession, csrf}, b.sent); diff != "" {
				t.Errorf("after logout (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSession_IsFoundByItsCookieUntilItEnds(t *testing.T) {
	store, c := newSpy(t)
	b := newBrowser(t, session.Options{Store: store, Now: c.now})
	b.anonymous()
	s := b.login(42)
	b.loggedIn(s)
	if s.UserID != 42 || s.Username != "anna" || s.Role != "member" || len(s.CSRFToken) != 64 || !s.CreatedAt.Equal(c.now().Truncate(time.Second)) {
		t.Errorf("session %+v", s)
	}
	if err := store.Delete(t.Context(), s.Ref); err != nil {
		t.Fatal(err)
	}
	b.anonymous()
}

func TestSession_IsLoadedOnceARequest(t *testing.T) {
	store, c := newSpy(t)
	b := newBrowser(t, session.Options{Store: store, Now: c.now})
	b.anonymous()
	b.cookies["svc.sid"] = "forged"
	b.anonymous()
	if store.loads != 0 {
		t.Errorf("%d loads for anonymous visitors", store.loads)
	}
	delete(b.cookies, "svc.sid")
	b.login(42)
	store.loads = 0
	if err := b.with(func(w http.ResponseWriter, c *session.Current) error {
		return errors.Join(b.manager.ResendStale(w, c), b.manager.Resend(w, c))
	}); err != nil {
		t.Fatal(err)
	}
	if store.loads != 1 {
		t.Errorf("%d loads for one request", store.loads)
	}
}

func TestSession_AFailingStoreIsNotAnonymous(t *testing.T) {
	store, c := newSpy(t)
	b := newBrowser(t, session.Options{Store: store, Now: c.now})
	s := b.login(42)
	store.err = errors.New("connection refused")
	if _, err := b.current(); !errors.Is(err, store.err) || errors.Is(err, session.ErrNotFound) {
		t.Errorf("current: %v", err)
	}
	for name, act := range map[string]func() error{"resend": b.resend, "resend stale": b.resendStale, "clear": b.clear} {
		if err := act(); !errors.Is(err, store.err) || len(b.sent) > 0 {
			t.Errorf("%s: %v, cookies %q", name, err, b.sent)
		}
	}
	store.err = nil
	b.loggedIn(s)
}

func TestSent_ReportsOurCookiesValidOrNot(t *testing.T) {
	store, c := newSpy(t)
	b := newBrowser(t, session.Options{Store: store, Now: c.now})
	for cookie, want := range map[string]bool{
		"": false, "theme=dark": false, "svcx=1": false, "svc=1": false, "svc.sid=broken": true, "svc.2fa=": true, "csrf-token=1": true, "theme=dark; svc.app=1": true,
	} {
		r := b.request()
		r.Header.Set("Cookie", cookie)
		if got := b.manager.Sent(r); got != want {
			t.Errorf("%q: %v", cookie, got)
		}
	}
}

func TestClear_RemovesBothCookies(t *testing.T) {
	store, c := newSpy(t)
	b := newBrowser(t, session.Options{Store: store, Now: c.now})
	b.login(42)
	c.advance(13 * time.Hour)
	if err := b.clear(); err != nil {
		t.Fatal(err)
	}
	if len(b.cookies) > 0 || len(b.sent) != 2 {
		t.Errorf("cookies left: %v, sent: %q", b.cookies, b.sent)
	}
}
