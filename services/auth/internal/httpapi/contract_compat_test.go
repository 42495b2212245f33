package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// AUTH-13: the earlier variant, COMPAT_V0=true. That a random secret
// may stand in for SESSION_SECRET is tested in config.

func earlier(s *settings) { s.compat = true }

func TestEarlier_CookiesAreStrict(t *testing.T) {
	strict := strings.NewReplacer("SameSite=Lax", "SameSite=Strict")
	wantCookies(t, newFixture(t, earlier).browser().login("anna", adminPass).want(http.StatusOK), strict.Replace(sessionCookie), strict.Replace(csrfCookie))
}

func TestEarlier_AnswersNoCSRFToken(t *testing.T) {
	b := newFixture(t, earlier).browser()
	for _, got := range []reply{b.login("anna", adminPass).want(http.StatusOK), b.get(prefix + "/me").want(http.StatusOK)} {
		if keys := read[map[string]any](got); len(keys) != 1 || got.header.Get("X-CSRF-Token") != "" {
			t.Errorf("%s: got %s", got.what, got.body)
		}
	}
}

func TestEarlier_SendsCookiesAtLoginOnly(t *testing.T) {
	h := newFixture(t, earlier)
	b := h.anna()
	wantCookies(t, b.get(prefix+"/me").want(http.StatusOK))
	h.clock.Advance(24 * time.Hour)
	wantCookies(t, b.get(prefix+"/me").want(http.StatusOK))
	wantCookies(t, b.get(prefix+"/users").want(http.StatusOK))
}

func TestEarlier_ChecksTheCSRFTokenToo(t *testing.T) {
	b := newFixture(t, earlier).anna()
	b.send(http.MethodPost, prefix+"/logout", "", "X-CSRF-Token", "").want(http.StatusForbidden)
	b.logout().want(http.StatusOK)
}
