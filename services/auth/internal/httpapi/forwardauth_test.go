package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// The guard for other applications.

func (b *browser) forward(method, query string, headers ...string) reply {
	b.h.t.Helper()
	headers = append([]string{"X-Forwarded-Method", method, "X-Forwarded-Uri", "/api/v1/tasks?x=1", "Content-Type", ""}, headers...)
	return b.send(http.MethodGet, "/internal/forward-auth"+query, "", headers...)
}

func TestForwardAuth_NamesTheUser(t *testing.T) {
	h := newFixture(t)
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

func TestForwardAuth_RefusesAnonymousRequests(t *testing.T) {
	got := newFixture(t).browser().forward("GET", "", "X-Auth-User-Id", "1", "X-Auth-Role", "admin").want(http.StatusUnauthorized)
	for name := range got.header {
		if strings.HasPrefix(name, "X-Auth-") {
			t.Errorf("a refusal carries %s", name)
		}
	}
}

func TestForwardAuth_ChecksTheRoleBeforeTheCSRFToken(t *testing.T) {
	h := newFixture(t)
	h.browser().forward("POST", "?role=admin").want(http.StatusUnauthorized)
	got := h.otto().forward("POST", "?role=admin", "X-CSRF-Token", "").want(http.StatusForbidden)
	if !strings.Contains(string(got.body), "Administrator") {
		t.Errorf("got %s", got.body)
	}
	h.otto().forward("GET", "?role=member").want(http.StatusOK)
	h.anna().forward("GET", "?role=admin").want(http.StatusOK)
}

func TestForwardAuth_ChecksCSRFForUnsafeMethods(t *testing.T) {
	b := newFixture(t).otto()
	token := b.cookies["csrf-token"]
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "CONNECT", "PROPFIND", "get", "GET "} {
		got := b.forward(method, "", "X-CSRF-Token", "").want(http.StatusForbidden)
		if got.header.Get("X-CSRF-Token") != token {
			t.Errorf("%s: the refusal does not carry the token", method)
		}
		b.forward(method, "", "X-CSRF-Token", token).want(http.StatusOK)
	}
	for _, method := range []string{"GET", "HEAD", "OPTIONS"} {
		b.forward(method, "", "X-CSRF-Token", "").want(http.StatusOK)
	}
}

func TestForwardAuth_NeedsMethodAndPath(t *testing.T) {
	b := newFixture(t).anna()
	b.forward("", "").want(http.StatusBadRequest)
	b.forward("GET", "", "X-Forwarded-Uri", "").want(http.StatusBadRequest)
	b.forward("GET", "?role=owner").want(http.StatusBadRequest)
}

// TestForwardAuth_RefusesAMisspeltQuestion asks as somebody whom the login alone would admit.
func TestForwardAuth_RefusesAMisspeltQuestion(t *testing.T) {
	b := newFixture(t).otto()
	for _, query := range []string{
		"apps=notes", "App=notes", "rolle=admin", "Role=admin", "login=401", "x", "role=member&x=1", "role=member&role=admin", "role=", "role",
		"role=admin;x", "%zz",
	} {
		b.forward("GET", "?"+query).want(http.StatusBadRequest)
	}
	b.forward("GET", "?").want(http.StatusOK) // as the proxy asks
}

// A WebSocket opens with a GET, so the CSRF token cannot guard it; the Origin does.
func TestForwardAuth_RefusesAForeignPagesWebSocket(t *testing.T) {
	b := newFixture(t).otto()
	for origin, want := range map[string]int{
		"https://home.example":           http.StatusOK,
		"https://HOME.example":           http.StatusOK,
		"https://home.example:443":       http.StatusOK,
		"":                               http.StatusOK, // no browser
		"http://home.example":            http.StatusForbidden,
		"http://home.example:443":        http.StatusForbidden,
		"wss://home.example":             http.StatusForbidden,
		"https://evil.example":           http.StatusForbidden,
		"https://home.example.evil.com":  http.StatusForbidden,
		"https://home.example:8443":      http.StatusForbidden,
		"https://home.example:80":        http.StatusForbidden,
		"https://home.example/":          http.StatusForbidden,
		"https://home.example?x":         http.StatusForbidden,
		"null":                           http.StatusForbidden,
		"home.example":                   http.StatusForbidden,
		"https://":                       http.StatusForbidden,
		"https://evil.example@home.test": http.StatusForbidden,
		"https://x@home.example":         http.StatusForbidden,
		"%":                              http.StatusForbidden,
		"https://evil.example, https://home.example": http.StatusForbidden,
	} {
		b.forward("GET", "", "Upgrade", "WebSocket", "Connection", "Upgrade", "X-Forwarded-Proto", "https", "X-Forwarded-Host", "home.example", "Origin", origin).want(want)
	}
	for _, c := range []struct{ scheme, host, origin string }{
		{"http", "home.example:8080", "http://home.example:8080"}, {"http", "home.example", "http://home.example:80"}, {"https", "home.example:443", "https://home.example"}, {"http", "[::1]:8080", "http://[::1]:8080"},
	} {
		b.forward("GET", "", "Upgrade", "websocket", "X-Forwarded-Proto", c.scheme, "X-Forwarded-Host", c.host, "Origin", c.origin).want(http.StatusOK)
	}
	// Without the scheme or the host the origin cannot be compared.
	for _, header := range [][2]string{{"Sec-WebSocket-Version", "13"}, {"Sec-WebSocket-Key", "eA=="}} { // where Upgrade ended at a proxy
		b.forward("GET", "", header[0], header[1], "X-Forwarded-Proto", "https", "X-Forwarded-Host", "home.example", "Origin", "https://evil.example").want(http.StatusForbidden)
	}
	b.forward("GET", "", "Upgrade", "websocket", "X-Forwarded-Proto", "https", "Origin", "https://home.example").want(http.StatusForbidden)
	b.forward("GET", "", "Upgrade", "websocket", "X-Forwarded-Host", "home.example", "Origin", "https://home.example").want(http.StatusForbidden)
	b.forward("GET", "", "X-Forwarded-Host", "home.example", "Origin", "https://evil.example").want(http.StatusOK)
}

func TestForwardAuth_RefusesAWebSocketWithTwoOrigins(t *testing.T) {
	h := newFixture(t)
	b := h.otto()
	for _, origins := range [][]string{{"https://home.example"}, {"https://home.example", "https://home.example"}, {"https://home.example", "https://evil.example"}, {"", "https://home.example"}} {
		r := httptest.NewRequest(http.MethodGet, "/internal/forward-auth", nil)
		for name, value := range b.cookies {
			r.AddCookie(&http.Cookie{Name: name, Value: value})
		}
		for name, value := range map[string]string{"X-Forwarded-Method": "GET", "X-Forwarded-Uri": "/", "Upgrade": "websocket", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "home.example"} {
			r.Header.Set(name, value)
		}
		r.Header["Origin"] = origins
		w := httptest.NewRecorder()
		h.handler.ServeHTTP(w, r)
		if passed := w.Code == http.StatusOK; passed != (len(origins) == 1) {
			t.Errorf("%q: %d", origins, w.Code)
		}
	}
}

// The proxy repeats the check every few seconds for a request that lasts: an open page
// must not keep its session for ever, and the answer reaches no browser.
func TestForwardAuth_RenewsNoSession(t *testing.T) {
	h := newFixture(t)
	b := h.otto()
	for range 13 {
		h.clock.Advance(12 * time.Hour)
		got := b.forward("GET", "", "X-Auth-Renew", "no").want(http.StatusOK)
		if got.header.Get("X-Auth-User-Id") != "2" || len(got.header.Values("Set-Cookie")) != 0 {
			t.Errorf("got %v", got.header)
		}
	}
	h.clock.Advance(13 * time.Hour)
	b.forward("GET", "", "X-Auth-Renew", "no").want(http.StatusUnauthorized)
}

func TestForwardAuth_FailsClosed(t *testing.T) {
	h := newFixture(t)
	b := h.anna()
	h.brokenSessions.Store(true)
	b.forward("GET", "").want(http.StatusInternalServerError)
}

func TestForwardAuth_NeedsTheSessionAndItsUserOnly(t *testing.T) {
	h := newFixture(t)
	b := h.anna()
	h.brokenLimits.Store(true)
	b.forward("DELETE", "?role=admin", "X-CSRF-Token", b.cookies["csrf-token"]).want(http.StatusOK)
	h.brokenUsers.Store(true)
	b.forward("GET", "").want(http.StatusInternalServerError)
}
