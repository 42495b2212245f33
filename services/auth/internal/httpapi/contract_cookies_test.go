package httpapi_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/factor/passkeytest"
)

// AUTH-2.1 to AUTH-2.11: session cookie and CSRF cookie, byte for byte.

var (
	signedValue = `[A-Za-z0-9_=-]{60,400}`
	tokenValue  = `[0-9a-f]{64}`
)

// wantCookies checks all Set-Cookie lines of an answer, in which VALUE stands
// for a session cookie's and TOKEN for a CSRF token.
func wantCookies(t *testing.T, r reply, want ...string) {
	t.Helper()
	got := r.header.Values("Set-Cookie")
	if len(got) != len(want) {
		t.Fatalf("%s: got the cookies %q, want %q", r.what, got, want)
	}
	for i, w := range want {
		pattern := strings.NewReplacer("VALUE", signedValue, "TOKEN", tokenValue).Replace(regexp.QuoteMeta(w))
		if !regexp.MustCompile(`\A` + pattern + `\z`).MatchString(got[i]) {
			t.Errorf("%s: got %q, want %q", r.what, got[i], w)
		}
	}
}

const (
	sessionCookie = "svc.sid=VALUE; Path=/; Expires=Sun, 08 Mar 2026 12:00:00 GMT; Max-Age=604800; HttpOnly; Secure; SameSite=Lax"
	csrfCookie    = "csrf-token=TOKEN; Path=/; Expires=Sun, 08 Mar 2026 12:00:00 GMT; Max-Age=604800; Secure; SameSite=Lax"
)

func TestCookies_LoginAndMeSetBoth(t *testing.T) {
	b := newFixture(t).browser()
	wantCookies(t, b.login("anna", adminPass).want(http.StatusOK), sessionCookie, csrfCookie)
	wantCookies(t, b.get(prefix+"/me").want(http.StatusOK), sessionCookie, csrfCookie)
}

func TestCookies_WithoutSecure(t *testing.T) {
	b := newFixture(t, func(s *settings) { s.insecure = true }).browser()
	wantCookies(t, b.login("anna", adminPass).want(http.StatusOK),
		strings.ReplaceAll(sessionCookie, "; Secure", ""), strings.ReplaceAll(csrfCookie, "; Secure", ""))
}

func TestCookies_SessionsIsNamedAfterTheApplication(t *testing.T) {
	for _, name := range []string{"home", "__Host-svc"} { // the attributes are those that browsers require of __Host-
		b := newFixture(t, func(s *settings) { s.name = name }).browser()
		wantCookies(t, b.login("anna", adminPass).want(http.StatusOK), strings.Replace(sessionCookie, "svc", name, 1), csrfCookie)
		b.get(prefix + "/me").want(http.StatusOK)
	}
}

func TestCookies_LogoutClearsBoth(t *testing.T) {
	wantCookies(t, newFixture(t).anna().logout().want(http.StatusOK),
		"svc.sid=; Path=/; Expires=Thu, 01 Jan 1970 00:00:01 GMT; Max-Age=0; HttpOnly; Secure; SameSite=Lax",
		"csrf-token=; Path=/; Expires=Thu, 01 Jan 1970 00:00:01 GMT; Max-Age=0; Secure; SameSite=Lax")
}

func TestCookies_AnonymousRequestsGetNone(t *testing.T) {
	b := newFixture(t).browser()
	wantCookies(t, b.get(prefix+"/me").want(http.StatusUnauthorized))
	wantCookies(t, b.get(prefix+"/openapi.json").want(http.StatusOK))
	wantCookies(t, b.login("anna", "wrong").want(http.StatusUnauthorized))
}

// TestCookies_FailedProofsSetNone: the cookie by which a browser is known is set for who has logged in.
func TestCookies_FailedProofsSetNone(t *testing.T) {
	h := newFixture(t)
	otto := h.otto()
	otto.register(passkeytest.New(t, origin))
	h.setUp(otto)
	b := h.browser()
	wrong := credential(json.RawMessage("{}"), "")
	refused := func(path string) reply {
		return b.send(http.MethodPost, prefix+path, wrong).because(http.StatusUnauthorized, "passkey_failed")
	}
	wantCookies(t, refused("/passkeys/login"))
	b.login("otto", userPass).want(http.StatusOK)
	wantCookies(t, b.verify("000000").because(http.StatusUnauthorized, "invalid_code"))
	wantCookies(t, refused("/2fa/passkey"))
	h.brokenLimits.Store(true)
	wantCookies(t, b.verify("000000").want(http.StatusInternalServerError))
}

func TestCookies_OlderThan12HoursAreSentAgain(t *testing.T) {
	h := newFixture(t)
	b := h.anna()
	users := prefix + "/users"
	wantCookies(t, b.get(users).want(http.StatusOK))
	h.clock.Advance(12*time.Hour - time.Second)
	wantCookies(t, b.get(users).want(http.StatusOK))
	h.clock.Advance(time.Second)
	again := []string{strings.ReplaceAll(sessionCookie, "08 Mar 2026 12", "09 Mar 2026 00"), strings.ReplaceAll(csrfCookie, "08 Mar 2026 12", "09 Mar 2026 00")}
	again[0], again[1] = strings.Replace(again[0], "Sun", "Mon", 1), strings.Replace(again[1], "Sun", "Mon", 1)
	old := b.cookies["csrf-token"]
	wantCookies(t, b.get(users).want(http.StatusOK), again...)
	wantCookies(t, b.get(users).want(http.StatusOK))
	if b.cookies["csrf-token"] != old {
		t.Error("the CSRF token changed")
	}
	h.clock.Advance(12 * time.Hour)
	if got := b.send(http.MethodPost, users, `{}`).want(http.StatusBadRequest); len(got.header.Values("Set-Cookie")) != 2 {
		t.Errorf("a refusal sent %q", got.header.Values("Set-Cookie"))
	}
	h.clock.Advance(12 * time.Hour)
	if got := b.logout().want(http.StatusOK); len(got.header.Values("Set-Cookie")) != 2 {
		t.Errorf("logout sent %q", got.header.Values("Set-Cookie"))
	}
}

func TestCookies_ATamperedOneIsAnonymous(t *testing.T) {
	h := newFixture(t)
	good := h.anna().cookies["svc.sid"]
	for name, value := range map[string]string{
		"a byte changed": "A" + good[1:], "cut": good[:len(good)/2], "empty": "", "long": strings.Repeat("A", 5000), "twice": good + good,
		"express": "s%3AnM1Zz3qG8nO5.aaaaaaaa", "percent": "%00%ff", "quotes": `"` + "x" + `"`,
	} {
		b := h.browser()
		if got := b.send(http.MethodGet, prefix+"/me", "", "Cookie", "svc.sid="+value); got.status != http.StatusUnauthorized || got.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: got %d, %q", name, got.status, got.header.Get("Set-Cookie"))
		}
	}
	for _, header := range []string{"svc.sid", ";;;", "svc.sid=; svc.sid=x", "=" + good, strings.Repeat("a=b; ", 500), "svc.sid==" + good, "\x00"} {
		h.browser().send(http.MethodGet, prefix+"/me", "", "Cookie", header).want(http.StatusUnauthorized)
	}
	h.browser().send(http.MethodGet, prefix+"/me", "", "Cookie", "svc.sid=foreign; svc.sid="+good).want(http.StatusOK)
}

func TestCookies_StayValidWhileTheSecretIsRotated(t *testing.T) {
	h := newFixture(t)
	b := h.anna()
	const next = "the next secret of the tests, 32 characters"
	h.build(settings{secret: next, previous: secret, name: "svc", attempts: 5, hasher: cheap})
	b.get(prefix + "/me").want(http.StatusOK) // sends the cookie again, under the new secret
	h.build(settings{secret: next, name: "svc", attempts: 5, hasher: cheap})
	b.get(prefix + "/me").want(http.StatusOK)
	h.build(settings{secret: secret, name: "svc", attempts: 5, hasher: cheap})
	b.get(prefix + "/me").want(http.StatusUnauthorized)
}

func TestSession_SurvivesARestartWithTheSameSecret(t *testing.T) {
	h := newFixture(t)
	b := h.anna()
	h.build(settings{secret: secret, name: "svc", attempts: 5, hasher: cheap})
	b.get(prefix + "/me").want(http.StatusOK)
}
