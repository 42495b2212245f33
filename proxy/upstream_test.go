package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// upstream is a stand-in for a service. It answers its name and keeps the
// requests.
type upstream struct {
	*httptest.Server
	mu   sync.Mutex
	seen []*http.Request
}

// stand starts a stand-in with a handler, nil for one that answers its name.
func stand(t *testing.T, name string, h http.HandlerFunc) *upstream {
	t.Helper()
	u := &upstream{}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.mu.Lock()
		u.seen = append(u.seen, r.Clone(r.Context()))
		u.mu.Unlock()
		if h != nil {
			h(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, name)
	}))
	t.Cleanup(u.Close)
	return u
}

// addr is what a setting takes.
func (u *upstream) addr() string { return strings.TrimPrefix(u.URL, "http://") }

// received returns all requests so far.
func (u *upstream) received() []*http.Request {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]*http.Request(nil), u.seen...)
}

// last is the request that came last.
func (u *upstream) last(t *testing.T) *http.Request {
	t.Helper()
	all := u.received()
	if len(all) == 0 {
		t.Fatal("nothing arrived")
	}
	return all[len(all)-1]
}

// testSite is a proxy with a stand-in behind every route.
type testSite struct {
	*server
	auth, verifier, app *upstream
}

// csrfToken is what a stand-in session wants for changes.
const csrfToken = "the-token"

// openSite starts a proxy in front of an auth that knows the sessions "member"
// and "admin", a verifier and an application. Further settings win.
func openSite(t *testing.T, settings map[string]string) testSite {
	t.Helper()
	h := testSite{auth: stand(t, "auth", guard), verifier: stand(t, "verifier", nil), app: stand(t, "app", nil)}
	all := map[string]string{
		"AUTH_UPSTREAM": h.auth.addr(), "VERIFIER_UPSTREAM": h.verifier.addr(), "APP_UPSTREAM": h.app.addr(),
	}
	for name, value := range settings {
		all[name] = value
	}
	h.server = open(t, all)
	return h
}

// guard is auth's forward-auth as its API describes it.
func guard(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/internal/forward-auth" {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "auth")
		return
	}
	session, err := r.Cookie("svc.sid")
	method := r.Header.Get("X-Forwarded-Method")
	safe := method == "GET" || method == "HEAD" || method == "OPTIONS"
	switch {
	case r.Method != http.MethodGet || method == "" || r.Header.Get("X-Forwarded-Uri") == "":
		http.Error(w, `{"error":"forwarded","code":400}`, http.StatusBadRequest)
	case err != nil || session.Value != "member" && session.Value != "admin":
		refuse(w, http.StatusUnauthorized, `{"error":"Nicht angemeldet.","code":401}`)
	case r.URL.Query().Get("role") == "admin" && session.Value != "admin":
		http.Error(w, `{"error":"admin","code":403}`, http.StatusForbidden)
	case !safe && r.Header.Get("X-CSRF-Token") != csrfToken:
		w.Header().Set("X-CSRF-Token", csrfToken)
		refuse(w, http.StatusForbidden, `{"error":"csrf","code":403}`)
	default:
		w.Header().Set("X-Auth-User-Id", "7")
		w.Header().Set("X-Auth-Username", "anna")
		w.Header().Set("X-Auth-Role", session.Value)
		if r.Header.Get("X-Forwarded-Uri") == "/api/v1/lists?old" {
			w.Header().Add("Set-Cookie", "svc.sid=member; Path=/; HttpOnly")
			w.Header().Add("Set-Cookie", "csrf-token=new; Expires=Sat, 28 Nov 2026 10:00:00 GMT")
		}
		_, _ = io.WriteString(w, `{"ok":true}`)
	}
}

// refuse answers as auth does.
func refuse(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n")
}
