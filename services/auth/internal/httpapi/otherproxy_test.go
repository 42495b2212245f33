package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
)

// The guard for proxies that are not Pforte's.

func TestGuard_AnswersALoginWith401WhereAsked(t *testing.T) {
	h := withApplications(t)
	b := h.browser()
	for app, to := range map[string]string{
		"login":  "/pforte/login?return=%2Fx%3Fy%3D1",
		"photos": "https://home.example/pforte/go?app=photos&return=%2Fx%3Fy%3D1&state=",
	} {
		host := []string{"X-Forwarded-Host", "home.example"}
		if app == "photos" {
			host[1] = "photos.example.org"
		}
		got := b.open(app+"&login=401", host...).because(http.StatusUnauthorized, "not_logged_in")
		if led := got.header.Get("Location"); !strings.HasPrefix(led, to) {
			t.Errorf("%s: Location %q, want %q", app, led, to)
		}
		if (app == "photos") != (got.header.Get("Set-Cookie") != "") {
			t.Errorf("%s: cookies of the way: %q", app, got.header["Set-Cookie"])
		}
		// A script has no use for it.
		if led := b.visit(app+"&login=401", host...).because(http.StatusUnauthorized, "not_logged_in").header.Get("Location"); led != "" {
			t.Errorf("%s: a script is led to %q", app, led)
		}
	}
	h.anna().open("login&login=401").want(http.StatusOK)
	h.otto().open("group&login=401").page(http.StatusForbidden, "app_denied group")
	for _, query := range []string{"login&login=402", "login&login=401&login=401", "login&login=", "login&login=401&x=1"} {
		h.anna().open(query).want(http.StatusBadRequest)
	}
}

func TestGuardToken_MakesAProxyOfAnyAddressTrusted(t *testing.T) {
	const token = "0123456789abcdef0123456789abcdef"
	h := withApplications(t, func(s *settings) { s.proxies, s.guardToken = nil, token })
	anna := h.anna()
	anna.visit("login").want(http.StatusBadRequest)
	anna.visit("login", "X-Guard-Token", token).want(http.StatusOK)
	for _, wrong := range []string{"", "x", token + "x", strings.ToUpper(token)} {
		anna.visit("login", "X-Guard-Token", wrong).want(http.StatusBadRequest)
	}
	h = withApplications(t, func(s *settings) { s.proxies = nil })
	h.anna().visit("login", "X-Guard-Token", "").want(http.StatusBadRequest)
}
