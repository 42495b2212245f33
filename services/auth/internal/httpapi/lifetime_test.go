package httpapi_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// withLifetime is a fixture with SESSION_LIFETIME.
func withLifetime(t *testing.T, lifetime time.Duration, change ...func(*settings)) *fixture {
	return newFixture(t, append(change, func(s *settings) { s.lifetime = lifetime })...)
}

func (h *fixture) wantCookiesFor(r reply, lifetime time.Duration) {
	h.t.Helper()
	last := fmt.Sprintf("; Path=/; Expires=%s; Max-Age=%d; ", h.clock.Now().Add(lifetime).UTC().Format(http.TimeFormat), int(lifetime.Seconds()))
	wantCookies(h.t, r, "svc.sid=VALUE"+last+"HttpOnly; Secure; SameSite=Lax", "csrf-token=TOKEN"+last+"Secure; SameSite=Lax")
}

func TestLifetime_BothCookiesLastIt(t *testing.T) {
	for _, lifetime := range []time.Duration{time.Hour, 2160 * time.Hour, 9600 * time.Hour} {
		h := withLifetime(t, lifetime)
		b := h.browser()
		h.wantCookiesFor(b.login("anna", adminPass).want(http.StatusOK), lifetime)
		h.clock.Advance(time.Minute)
		h.wantCookiesFor(b.get(prefix+"/me").want(http.StatusOK), lifetime)
		h.clock.Advance(12 * time.Hour / time.Duration(max(1, int(48*time.Hour/lifetime))))
		h.wantCookiesFor(b.get(prefix+"/users").want(http.StatusOK), lifetime)
		wantCookies(t, b.get(prefix+"/users").want(http.StatusOK))
	}
}

func TestLifetime_GuardSendsCookiesAgainAtAQuarter(t *testing.T) {
	h := withLifetime(t, time.Hour)
	b := h.anna()
	guard := func(headers ...string) reply {
		return b.send(http.MethodGet, "/internal/forward-auth", "", append(headers, "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/")...).want(http.StatusOK)
	}
	h.clock.Advance(15*time.Minute - time.Second)
	wantCookies(t, guard())
	h.clock.Advance(time.Second)
	wantCookies(t, guard("X-Auth-Renew", "no"))
	h.wantCookiesFor(guard(), time.Hour)
	wantCookies(t, guard())
}

func TestLifetime_EndsASessionThatIsNotUsed(t *testing.T) {
	for _, lifetime := range []time.Duration{time.Hour, 2160 * time.Hour} {
		h := withLifetime(t, lifetime)
		b := h.anna()
		for range 3 {
			h.clock.Advance(lifetime - time.Second)
			b.get(prefix + "/users").want(http.StatusOK)
		}
		b.create("username", "lena").want(http.StatusCreated) // loads the session twice
		h.clock.Advance(lifetime - time.Second)
		b.get(prefix + "/me").want(http.StatusOK)
		h.clock.Advance(lifetime)
		b.get(prefix + "/me").want(http.StatusUnauthorized)
	}
}

func TestLifetime_IsThatOfTheEarlierVariantsCookiesToo(t *testing.T) {
	h := withLifetime(t, time.Hour, func(s *settings) { s.compat = true })
	got := h.browser().login("anna", adminPass).want(http.StatusOK)
	wantCookies(t, got, "svc.sid=VALUE; Path=/; Expires=Sun, 01 Mar 2026 13:00:00 GMT; Max-Age=3600; HttpOnly; Secure; SameSite=Strict",
		"csrf-token=TOKEN; Path=/; Expires=Sun, 01 Mar 2026 13:00:00 GMT; Max-Age=3600; Secure; SameSite=Strict")
}

func TestLifetime_AShorterOneHoldsFromTheNextUse(t *testing.T) {
	h := newFixture(t)
	used, unused := h.anna(), h.anna()
	h.build(settings{secret: secret, name: "svc", attempts: 5, hasher: cheap, lifetime: time.Hour})
	h.clock.Advance(24 * time.Hour)
	h.wantCookiesFor(used.get(prefix+"/users").want(http.StatusOK), time.Hour)
	h.clock.Advance(time.Hour)
	used.get(prefix + "/me").want(http.StatusUnauthorized)
	h.build(settings{secret: secret, name: "svc", attempts: 5, hasher: cheap})
	unused.get(prefix + "/me").want(http.StatusOK)
}
