package session_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/secrets"
	"github.com/pforte/pforte/services/auth/internal/session"
)

func newTestManager(t *testing.T, secret string) *session.Manager {
	t.Helper()
	store, c := newSpy(t)
	m, err := session.NewManager(session.Options{Store: store, Name: "svc", Secret: secret, Secure: true, Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// sent returns the cookies that set sets, and a request with them.
func sent(set func(http.ResponseWriter)) ([]*http.Cookie, *http.Request) {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
	set(w)
	cookies := w.Result().Cookies()
	for _, c := range cookies {
		r.AddCookie(c)
	}
	return cookies, r
}

func TestPendingCookie_NamesItsLoginAndIsNoSession(t *testing.T) {
	m := newTestManager(t, "a secret of some length for tests")
	p, id := session.NewPending(42, "", time.Now())
	cookies, r := sent(func(w http.ResponseWriter) {
		if err := m.StartPending(w, p, id); err != nil {
			t.Fatal(err)
		}
	})
	if got := cookies[0]; got.Name != "svc.2fa" || got.MaxAge != 300 || !got.HttpOnly || !got.Secure || got.SameSite != http.SameSiteStrictMode || got.Path != "/" {
		t.Errorf("got %v", got)
	}
	if ref, err := m.LoadPending(r); err != nil || ref != p.Ref {
		t.Errorf("got %v, %v", ref, err)
	}
	if _, err := newTestManager(t, "another secret of some length").LoadPending(r); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("with another secret: %v", err)
	}
	r.AddCookie(&http.Cookie{Name: "svc.sid", Value: cookies[0].Value})
	if _, err := m.Load(r); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("as a session: %v", err)
	}
}

func TestPendingCookie_IsNoSessionCookie(t *testing.T) {
	m := newTestManager(t, "a secret of some length for tests")
	s, id := session.New(42, "", time.Now())
	cookies, r := sent(func(w http.ResponseWriter) {
		if _, err := m.Start(w, s, id); err != nil {
			t.Fatal(err)
		}
	})
	r.AddCookie(&http.Cookie{Name: "svc.2fa", Value: cookies[0].Value})
	if _, err := m.LoadPending(r); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestCookie_BrowserAndCeremonyHaveTheirs(t *testing.T) {
	m := newTestManager(t, "a secret of some length for tests")
	id := secrets.New()
	cookies, r := sent(func(w http.ResponseWriter) {
		m.SetBrowser(w, id)
		m.StartCeremony(w, id)
	})
	if c := cookies[0]; c.Name != "svc.dev" || c.MaxAge != 400*24*3600 || c.SameSite != http.SameSiteLaxMode || !c.HttpOnly || !c.Secure {
		t.Errorf("got %v", c)
	}
	if c := cookies[1]; c.Name != "svc.ceremony" || c.MaxAge != 300 || c.SameSite != http.SameSiteStrictMode || !c.HttpOnly || !c.Secure {
		t.Errorf("got %v", c)
	}
	got, err := m.LoadCeremony(r)
	if m.Browser(r) != id || got != id || err != nil {
		t.Errorf("got %q, %q, %v", m.Browser(r), got, err)
	}
	for _, wrong := range []string{"", "x", id + "A", strings.Repeat("!", 43)} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Cookie", "svc.dev="+wrong+"; svc.ceremony="+wrong)
		if _, err := m.LoadCeremony(r); m.Browser(r) != "" || !errors.Is(err, session.ErrNotFound) {
			t.Errorf("%q: %q, %v", wrong, m.Browser(r), err)
		}
	}
	cleared, _ := sent(func(w http.ResponseWriter) {
		m.ClearPending(w)
		m.ClearCeremony(w)
	})
	for _, c := range cleared {
		if c.MaxAge >= 0 || c.Value != "" {
			t.Errorf("not cleared: %v", c)
		}
	}
}

func TestUserAgent_NamesTheBrowser(t *testing.T) {
	for userAgent, want := range map[string][2]string{
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0) Gecko/20100101 Firefox/140.0":                                                        {"Firefox", "Windows"},
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Safari/605.1.15":                   {"Safari", "macOS"},
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1": {"Safari", "iOS"},
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/137.0 Mobile/15E148 Safari/604.1":  {"Chrome", "iOS"},
		"Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/137.0.0.0 Mobile Safari/537.36":                         {"Chrome", "Android"},
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/137.0.0.0 Safari/537.36 Edg/137.0.0.0":           {"Edge", "Windows"},
		"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/148.0.0.0 Safari/537.36":                                   {"Chrome", "Linux"},
		"curl/8.5.0": {"curl", ""},
		"":           {"", ""},
	} {
		if browser, system := session.BrowserOf(userAgent); browser != want[0] || system != want[1] {
			t.Errorf("%s: got %s on %s", userAgent, browser, system)
		}
	}
}
