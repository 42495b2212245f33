package httpapi_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// AUTH-9: the error body, 500 on every route, and what every answer carries.

// AUTH-6.13: success means that the sessions are gone.
func TestErrors_AChangeWithoutItsSessionsIs500(t *testing.T) {
	h := newFixture(t)
	anna, otto := h.anna(), h.otto()
	h.brokenRevoke.Store(true)
	got := otto.changePassword(userPass, "another password").want(http.StatusInternalServerError)
	if !strings.Contains(string(got.body), "gespeichert") {
		t.Errorf("got %s", got.body)
	}
	anna.delete("2").want(http.StatusInternalServerError)
	anna.delete("2").want(http.StatusNotFound)
	if infos, err := h.sessions.List(t.Context(), 2); err != nil || len(infos) != 1 {
		t.Errorf("before the replay: %v, %v", infos, err)
	}
	h.brokenRevoke.Store(false)
	ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	h.accounts.Replay(ctx)
	if infos, err := h.sessions.List(t.Context(), 2); err != nil || len(infos) != 0 {
		t.Errorf("after the replay: %v, %v", infos, err)
	}
	otto.forward("GET", "").want(http.StatusUnauthorized)
}

// The user's row ends them before their store has followed.
func TestSession_ThatCouldNotFollowIsOverAllTheSame(t *testing.T) {
	h := newFixture(t)
	anna, otto, phone := h.anna(), h.otto(), h.otto()
	h.brokenRevoke.Store(true)
	otto.changePassword(userPass, "another password").want(http.StatusInternalServerError)
	if !strings.Contains(h.log.String(), `"event":"password_changed"`) {
		t.Error("the log has no line about the changed password")
	}
	phone.forward("GET", "").want(http.StatusUnauthorized)
	otto.forward("GET", "").want(http.StatusOK)
	anna.delete("2").want(http.StatusInternalServerError)
	otto.forward("GET", "").want(http.StatusUnauthorized)
}

func TestErrors_AnUnknownRouteIsNotFound(t *testing.T) {
	b := newFixture(t).anna()
	for _, path := range []string{
		"/", prefix, prefix + "/", prefix + "/me/", prefix + "/Me", prefix + "/nothing", "//api/v1/auth/me", prefix + "/%6De",
		"/internal", "/internal/forward-auth/", "/health/", "/metrics", "/livez", "/api/v1/users", "/index.html",
	} {
		b.get(path).want(http.StatusNotFound)
	}
	b.send(http.MethodPost, prefix+"/nothing", malformed).want(http.StatusNotFound)
}

func TestErrors_APathBelowAKnownOneIsNotFound(t *testing.T) {
	h := newFixture(t)
	for _, b := range []*browser{h.browser(), h.anna()} {
		for _, path := range []string{
			"/users/1/2/3", "/users/1/2", "/users/1/", "/users/", "/users/1/2?x=/", "/me/password/", "/me/password/x", "/me/x", "/login/x", "/logout/", "/openapi.json/x",
		} {
			for _, method := range []string{
				http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, "PROPFIND",
			} {
				if got := b.send(method, prefix+path, malformed).want(http.StatusNotFound); got.header.Get("Allow") != "" {
					t.Errorf("%s %s: Allow is %q", method, path, got.header.Get("Allow"))
				}
			}
		}
	}
}

func TestErrors_AWrongMethodNamesTheRightOnes(t *testing.T) {
	b := newFixture(t).browser()
	for path, want := range map[string]string{"/login": "POST", "/logout": "POST", "/me": "GET", "/users": "GET, POST", "/users/2": "DELETE", "/me/password": "PATCH"} {
		for _, method := range []string{http.MethodPut, http.MethodOptions} {
			got := b.send(method, prefix+path, malformed).want(http.StatusMethodNotAllowed)
			if allow := got.header.Get("Allow"); allow != want {
				t.Errorf("%s %s: Allow is %q", method, path, allow)
			}
		}
	}
	head := b.send(http.MethodHead, prefix+"/me", "")
	if head.status != http.StatusMethodNotAllowed || len(head.body) != 0 {
		t.Errorf("HEAD: got %d, %q", head.status, head.body)
	}
}

func TestAnswers_AreNotStoredAndAreNamed(t *testing.T) {
	h := newFixture(t)
	b := h.anna()
	for _, got := range []reply{
		b.get(prefix + "/me"), b.get("/"), b.send(http.MethodPut, prefix+"/me", ""), b.send(http.MethodPost, prefix+"/login", malformed),
		b.send(http.MethodPost, prefix+"/login", strings.Repeat(" ", 70000)), b.send(http.MethodPost, prefix+"/login", "x", "Content-Type", "text/plain"),
		b.logout(), b.logout(), b.get("/health"), b.get(prefix + "/openapi.json"), b.send(http.MethodOptions, prefix+"/me", ""),
	} {
		if got.header.Get("Cache-Control") != "no-store" || got.header.Get("X-Request-Id") == "" || got.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d: got %v", got.what, got.status, got.header)
		}
		for name := range got.header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s: got %s", got.what, name)
			}
		}
		if len(got.body) > 0 && got.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: got the type %q", got.what, got.header.Get("Content-Type"))
		}
	}
}

func TestRequestID_IsTakenOverWhenItIsOne(t *testing.T) {
	h := newFixture(t)
	b := h.browser()
	if got := b.send(http.MethodGet, "/health", "", "X-Request-Id", "abc-123_X.y").header.Get("X-Request-Id"); got != "abc-123_X.y" {
		t.Errorf("got %q", got)
	}
	for _, bad := range []string{"", strings.Repeat("a", 65), "a b", "a\"b", "a;b", "ä", "a\tb"} {
		if got := b.send(http.MethodGet, "/health", "", "X-Request-Id", bad).header.Get("X-Request-Id"); got == bad || len(got) < 20 {
			t.Errorf("%q: got %q", bad, got)
		}
	}
	if !strings.Contains(h.log.String(), `"request_id":"abc-123_X.y"`) {
		t.Error("the log does not name the request")
	}
}

func TestErrors_InternalOnesRevealNothing(t *testing.T) {
	h := newFixture(t)
	b := h.anna()
	h.brokenSessions.Store(true)
	for _, g := range guarded {
		got := b.send(g.method, prefix+g.path, "{}").want(http.StatusInternalServerError)
		if bytes.Contains(got.body, []byte("10.0.0.5")) || !strings.Contains(string(got.body), "Interner Fehler") {
			t.Errorf("%s: got %s", got.what, got.body)
		}
	}
	if !strings.Contains(h.log.String(), "connection refused") {
		t.Error("the log has no cause")
	}
}

func TestErrors_AFailingStoreEndsNoSession(t *testing.T) {
	h := newFixture(t)
	b := h.anna()
	for _, store := range []interface{ Store(bool) }{h.brokenSessions, h.brokenUsers} {
		store.Store(true)
		wantCookies(t, b.get(prefix+"/me").want(http.StatusInternalServerError))
		wantCookies(t, b.login("anna", adminPass).want(http.StatusInternalServerError))
		store.Store(false)
		b.get(prefix + "/me").want(http.StatusOK)
	}
	h.clock.Advance(12 * time.Hour) // any other answer sends the cookies again
	h.brokenPolicy.Store(true)
	wantCookies(t, b.get(prefix+"/apps/mine").want(http.StatusInternalServerError))
	wantCookies(t, b.visit("login").want(http.StatusInternalServerError))
	h.brokenPolicy.Store(false)
	if got := b.get(prefix + "/apps/mine").want(http.StatusOK); len(got.header.Values("Set-Cookie")) != 2 {
		t.Errorf("the next one sent %q", got.header.Values("Set-Cookie"))
	}
}

func TestHealth_FollowsTheStores(t *testing.T) {
	h := newFixture(t)
	b := h.browser()
	if got := b.get("/health").want(http.StatusOK); string(got.body) != `{"status":"ok"}` {
		t.Errorf("got %s", got.body)
	}
	h.unhealthy.Store(true)
	if got := b.get("/health").want(http.StatusServiceUnavailable); got.header.Get("Retry-After") == "" || strings.Contains(string(got.body), "10.0.0.5") {
		t.Errorf("got %v %s", got.header, got.body)
	}
}

func TestBody_TooLargeOrOfAnotherTypeIsRefused(t *testing.T) {
	b := newFixture(t).anna()
	b.send(http.MethodPost, prefix+"/users", strings.Repeat(" ", 65537)).want(http.StatusRequestEntityTooLarge)
	for _, other := range []string{"application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=x", "text/json", ""} {
		b.send(http.MethodPost, prefix+"/users", newUser(), "Content-Type", other).want(http.StatusUnsupportedMediaType)
		b.send(http.MethodPost, prefix+"/login", object("username", "anna", "password", adminPass), "Content-Type", other).want(http.StatusUnsupportedMediaType)
	}
	b.send(http.MethodPost, prefix+"/users", newUser(), "Content-Encoding", "gzip").want(http.StatusUnsupportedMediaType)
}

func TestErrors_APanicIsAnInternalFailure(t *testing.T) {
	h := newFixture(t, func(s *settings) { s.sessions = panicking{} })
	b := h.browser()
	b.login("anna", adminPass).want(http.StatusInternalServerError)
	if !strings.Contains(h.log.String(), "panic: a bug in the store") {
		t.Error("the log has no line about the panic")
	}
}

func TestAnswers_AnAbortedOneIsNotFinished(t *testing.T) {
	h := newFixture(t, func(s *settings) { s.sessions = panicking{abort: true} })
	defer func() {
		if recover() != http.ErrAbortHandler { //nolint:errorlint // the very value
			t.Error("the abort was swallowed")
		}
	}()
	r := httptest.NewRequest(http.MethodPost, prefix+"/login", strings.NewReader(object("username", "anna", "password", adminPass)))
	r.Header.Set("Content-Type", "application/json")
	h.handler.ServeHTTP(httptest.NewRecorder(), r)
}
