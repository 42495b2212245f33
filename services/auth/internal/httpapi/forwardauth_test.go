package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
)

// The guard for other applications.

func (b *browser) forward(method, query string, headers ...string) reply {
	b.h.t.Helper()
	headers = append([]string{"X-Forwarded-Method", method, "X-Forwarded-Uri", "/api/v1/tasks?x=1", "Content-Type", ""}, headers...)
	return b.send(http.MethodGet, "/internal/forward-auth"+query, "", headers...)
}

func TestForwardAuthTellsWhoAsks(t *testing.T) {
	h := newHouse(t)
	for _, c := range []struct {
		b        *browser
		identity string
	}{{h.anna(), "1 anna admin"}, {h.otto(), "2 otto member"}} {
		got := c.b.forward("GET", "", "X-Auth-User-Id", "99", "X-Auth-Role", "admin", "X-Auth-Username", "root").want(http.StatusOK)
		identity := got.header.Get("X-Auth-User-Id") + " " + got.header.Get("X-Auth-Username") + " " + got.header.Get("X-Auth-Role")
		if identity != c.identity || len(got.header.Values("X-Auth-Role")) != 1 {
			t.Errorf("got %q, want %q", identity, c.identity)
		}
	}
}

func TestForwardAuthRefusesWhoIsNotLoggedIn(t *testing.T) {
	got := newHouse(t).browser().forward("GET", "", "X-Auth-User-Id", "1", "X-Auth-Role", "admin").want(http.StatusUnauthorized)
	for name := range got.header {
		if strings.HasPrefix(name, "X-Auth-") {
			t.Errorf("a refusal carries %s", name)
		}
	}
}

func TestForwardAuthAsksForTheAdminRoleBeforeTheCSRFToken(t *testing.T) {
	h := newHouse(t)
	h.browser().forward("POST", "?role=admin").want(http.StatusUnauthorized)
	got := h.otto().forward("POST", "?role=admin", "X-CSRF-Token", "").want(http.StatusForbidden)
	if !strings.Contains(string(got.body), "Administrator") {
		t.Errorf("got %s", got.body)
	}
	h.otto().forward("GET", "?role=member").want(http.StatusOK)
	h.anna().forward("GET", "?role=admin").want(http.StatusOK)
}

func TestForwardAuthAsksForTheCSRFTokenWhereSomethingChanges(t *testing.T) {
	b := newHouse(t).otto()
	token := b.cookies["csrf-token"]
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "CONNECT", "PROPFIND", "get", "GET "} {
		got := b.forward(method, "", "X-CSRF-Token", "").want(http.StatusForbidden)
		if got.header.Get("X-CSRF-Token") != token {
			t.Errorf("%s: the refusal does not tell the token", method)
		}
		b.forward(method, "", "X-CSRF-Token", token).want(http.StatusOK)
	}
	for _, method := range []string{"GET", "HEAD", "OPTIONS"} {
		b.forward(method, "", "X-CSRF-Token", "").want(http.StatusOK)
	}
}

func TestForwardAuthRefusesAQuestionWithoutMethodOrPath(t *testing.T) {
	b := newHouse(t).anna()
	b.forward("", "").want(http.StatusBadRequest)
	b.forward("GET", "", "X-Forwarded-Uri", "").want(http.StatusBadRequest)
	b.forward("GET", "?role=owner").want(http.StatusBadRequest)
}

// A WebSocket opens with a GET, so the CSRF token cannot guard it; the Origin does.
func TestForwardAuthRefusesAWebSocketThatAForeignPageOpens(t *testing.T) {
	b := newHouse(t).otto()
	for origin, want := range map[string]int{
		"https://home.example":           http.StatusOK,
		"https://HOME.example":           http.StatusOK,
		"":                               http.StatusOK, // no browser
		"https://evil.example":           http.StatusForbidden,
		"https://home.example.evil.com":  http.StatusForbidden,
		"https://home.example:8443":      http.StatusForbidden,
		"null":                           http.StatusForbidden,
		"home.example":                   http.StatusForbidden,
		"https://evil.example@home.test": http.StatusForbidden,
		"%":                              http.StatusForbidden,
	} {
		b.forward("GET", "", "Upgrade", "WebSocket", "Connection", "Upgrade", "X-Forwarded-Host", "home.example", "Origin", origin).want(want)
	}
	b.forward("GET", "", "Upgrade", "websocket", "Origin", "https://home.example").want(http.StatusForbidden) // which host was asked?
	b.forward("GET", "", "X-Forwarded-Host", "home.example", "Origin", "https://evil.example").want(http.StatusOK)
}

func TestForwardAuthFailsClosed(t *testing.T) {
	h := newHouse(t)
	b := h.anna()
	h.brokenSessions.Store(true)
	b.forward("GET", "").want(http.StatusInternalServerError)
}

func TestForwardAuthNeedsNothingButTheSession(t *testing.T) {
	h := newHouse(t)
	b := h.anna()
	h.brokenUsers.Store(true)
	h.brokenLimits.Store(true)
	b.forward("DELETE", "?role=admin", "X-CSRF-Token", b.cookies["csrf-token"]).want(http.StatusOK)
}
