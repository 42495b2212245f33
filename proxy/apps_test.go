package main

import (
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// household is auth with applications, as its API describes it: it knows the
// session "member" and app tokens.
type household struct {
	*upstream
	mu     sync.Mutex
	tokens []string
	out    bool // the session has ended
}

func standHousehold(t *testing.T, tokens ...string) *household {
	t.Helper()
	h := &household{tokens: tokens}
	h.upstream = stand(t, "auth", h.forwardAuth)
	return h
}

// revoke ends an app token.
func (h *household) revoke(token string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tokens = slices.DeleteFunc(slices.Clone(h.tokens), func(known string) bool { return known == token })
}

// logout ends the session.
func (h *household) logout() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.out = true
}

func (h *household) forwardAuth(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	tokens, out := h.tokens, h.out
	h.mu.Unlock()
	_, password, _ := r.BasicAuth()
	own := strings.HasPrefix(password, "pft_")
	session, err := r.Cookie("svc.app")
	switch {
	case r.URL.Query().Get("app") != "photos":
		http.Error(w, `{"error":"unknown","code":403}`, http.StatusForbidden)
		return
	case own && slices.Contains(tokens, password):
		w.Header().Set("X-Auth-Consumed", "authorization")
	case own || r.Header["X-Pforte-Token"] != nil && !slices.Contains(tokens, r.Header.Get("X-Pforte-Token")):
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, `{"error":"token","code":401}`, http.StatusUnauthorized)
		return
	case r.Header["X-Pforte-Token"] != nil || err == nil && session.Value == "member" && !out:
	case r.Header.Get("Sec-Fetch-Mode") == "navigate":
		w.Header().Add("Set-Cookie", "svc.go=state; Path=/; HttpOnly")
		http.Redirect(w, r, "https://home.example.org/pforte/go?app=photos&return="+r.Header.Get("X-Forwarded-Uri"), http.StatusSeeOther)
		return
	default:
		refuse(w, http.StatusUnauthorized, `{"error":"Nicht angemeldet.","code":401}`)
		return
	}
	for name, value := range map[string]string{"User-Id": "7", "Username": "anna", "Role": "member", "Name": "%C3%84nne", "Groups": "member,kids"} {
		w.Header().Set("X-Auth-"+name, value)
	}
}

// photos are routes to an application behind its guard: one with a host of its
// own, and one whose server does not know the path that it is under.
func photos(addr string) string {
	return `@photos host photos.example.org
	handle @photos {
		import require_app photos
		reverse_proxy ` + addr + `
	}
	handle_path /photos/* {
		import require_app photos
		reverse_proxy ` + addr + `
	}`
}

// wantAnna fails unless what arrived has the headers of the member anna at a host, and none of those forged.
func wantAnna(t *testing.T, arrived http.Header, host string) {
	t.Helper()
	want := http.Header{
		"X-Auth-User-Id": {"7"}, "X-Auth-Username": {"anna"}, "X-Auth-Role": {"member"}, "X-Auth-Name": {"%C3%84nne"}, "X-Auth-Groups": {"member,kids"},
		"Remote-User": {"anna"}, "Remote-Name": {"%C3%84nne"}, "Remote-Groups": {"member,kids"},
		"Cookie": {"theme=dark"}, "X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-Proto": {"http"},
		"X-Forwarded-Host": {host},
	}
	for i := 0; i < len(forged); i += 2 {
		if name := http.CanonicalHeaderKey(forged[i]); want[name] == nil {
			want[name] = nil
		}
	}
	for name, values := range want {
		if got := arrived[name]; !slices.Equal(got, values) {
			t.Errorf("%s is %q, want %q", name, got, values)
		}
	}
}

func TestApp_GetsItsUserByAllNames(t *testing.T) {
	t.Parallel()
	auth, app := standHousehold(t), stand(t, "photos", nil)
	d := open(t, map[string]string{"AUTH_UPSTREAM": auth.addr(), "ROUTES": photos(app.addr())})
	headers := append([]string{"Cookie", "svc.app=member; theme=dark", "X-Auth-Name", "Root", "X-Auth-Groups", "admin"}, forged...)
	if got := d.request(t, "GET", "/photos/album?x=1", "", headers...); got.body != "photos" {
		t.Fatalf("%d %s", got.StatusCode, got.body)
	}
	arrived := app.last(t)
	wantAnna(t, arrived.Header, d.addr)
	if arrived.RequestURI != "/album?x=1" {
		t.Errorf("the application was asked for %s", arrived.RequestURI)
	}
	if asked := auth.last(t); asked.RequestURI != "/internal/forward-auth?app=photos" || asked.Header.Get("X-Forwarded-Uri") != "/photos/album?x=1" || asked.Header.Get("X-Forwarded-Host") != d.addr {
		t.Errorf("auth was asked %s, %s", asked.RequestURI, asked.Header)
	}
}

func TestApp_ABrowserIsRedirectedToTheLogin(t *testing.T) {
	t.Parallel()
	auth, app := standHousehold(t), stand(t, "photos", nil)
	d := open(t, map[string]string{"AUTH_UPSTREAM": auth.addr(), "ROUTES": photos(app.addr())})
	got := d.request(t, "GET", "/photos/album", "", "Sec-Fetch-Mode", "navigate")
	if got.StatusCode != 303 || got.Header.Get("Location") != "https://home.example.org/pforte/go?app=photos&return=/photos/album" || got.Header.Get("Set-Cookie") != "svc.go=state; Path=/; HttpOnly" {
		t.Errorf("%d %s", got.StatusCode, got.Header)
	}
	if n := len(app.received()); n != 0 {
		t.Errorf("%d requests passed", n)
	}
}

func TestApp_OnlyItsHostsRoutesAreItsOwn(t *testing.T) {
	t.Parallel()
	auth, app := standHousehold(t), stand(t, "photos", nil)
	d := open(t, map[string]string{"AUTH_UPSTREAM": auth.addr(), "ROUTES": photos(app.addr())})
	for _, c := range []struct {
		host, path, want string
	}{
		{"photos.example.org", "/a", "HTTP/1.1 200 OK"},
		{"PHOTOS.example.ORG", "/a", "HTTP/1.1 200 OK"},
		{"photos.example.org:8443", "/a", "HTTP/1.1 200 OK"}, // auth compares the port
		{"photos.example.org.", "/a", "HTTP/1.1 404 Not Found"},
		{"other.example.org", "/a", "HTTP/1.1 404 Not Found"},
		{"x.photos.example.org", "/a", "HTTP/1.1 404 Not Found"},
		{"photos.example.org", "//a", "HTTP/1.1 404 Not Found"},
		{"photos.example.org", "/internal/forward-auth", "HTTP/1.1 404 Not Found"},
	} {
		if got := d.raw(t, "GET "+c.path+" HTTP/1.1\r\nHost: "+c.host+"\r\nCookie: svc.app=member\r\nConnection: close\r\n\r\n"); got != c.want {
			t.Errorf("%s%s: %s, want %s", c.host, c.path, got, c.want)
		}
	}
	before := len(app.received())
	d.raw(t, "GET /pforte/enter HTTP/1.1\r\nHost: photos.example.org\r\nCookie: svc.go=state\r\nConnection: close\r\n\r\n")
	if asked := auth.last(t); asked.RequestURI != "/pforte/enter" || asked.Header.Get("Cookie") != "svc.go=state" || len(app.received()) != before {
		t.Errorf("auth was asked %s with %s", asked.RequestURI, asked.Header)
	}
}

// A token is for the guard; so is an Authorization with one in it, but no other.
func TestApp_ATokenReachesAuthAlone(t *testing.T) {
	t.Parallel()
	const token = "pft_a"
	auth, app, other := standHousehold(t, token), stand(t, "photos", nil), stand(t, "open", nil)
	d := open(t, map[string]string{"AUTH_UPSTREAM": auth.addr(), "ROUTES": photos(app.addr()), "FRONTEND_UPSTREAM": other.addr(), "TRUSTED_PROXIES": "127.0.0.1/32"})
	own, basic := "Basic YW5uYTpzZWNyZXQ=", "Basic YW5uYTpwZnRfYQ==" // anna:secret and anna:pft_a
	for _, c := range []struct {
		headers []string
		status  int
		arrives string // as Authorization
	}{
		{[]string{"X-Pforte-Token", token}, 200, ""},
		{[]string{"X-Pforte-Token", token, "Authorization", own}, 200, own},
		{[]string{"X-Pforte-Token", token, "X_Pforte_Token", token, "X.pforte.token", token}, 200, ""},
		{[]string{"X_Pforte_Token", token}, 401, ""},
		{[]string{"Authorization", basic}, 200, ""},
		{[]string{"Authorization", basic, "Cookie", "svc.app=member"}, 200, ""},
		{[]string{"Authorization", own, "Cookie", "svc.app=member"}, 200, own},
		{[]string{"X-Pforte-Token", "pft_b", "Cookie", "svc.app=member"}, 401, ""},
	} {
		before := len(app.received())
		got := d.request(t, "GET", "/photos/", "", c.headers...)
		if passed := len(app.received()) > before; got.StatusCode != c.status || passed != (c.status == 200) {
			t.Errorf("%q: %d, passed is %t", c.headers, got.StatusCode, passed)
		}
		if c.status != 200 {
			continue
		}
		h := app.last(t).Header
		if h.Get("Authorization") != c.arrives || strings.Contains(fmt.Sprint(h), "pft_") || h.Get("X-Auth-Consumed") != "" {
			t.Errorf("%q: the application got %s", c.headers, h)
		}
		if got.Header.Get("X-Auth-Consumed") != "" {
			t.Errorf("%q: the client got %s", c.headers, got.Header)
		}
	}
	d.request(t, "GET", "/page", "", "X-Pforte-Token", token, "X+Pforte+Token", token)
	if h := other.last(t).Header; strings.Contains(fmt.Sprint(h), token) {
		t.Errorf("without a guard a service got %s", h)
	}
}

// TestApp_WhatAuthHasTakenReachesNoApplication: auth may find a token where the proxy sees none.
func TestApp_WhatAuthHasTakenReachesNoApplication(t *testing.T) {
	t.Parallel()
	auth := stand(t, "", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Auth-Consumed", r.URL.Query().Get("app"))
		for _, name := range []string{"User-Id", "Username", "Role", "Name", "Groups"} {
			w.Header().Set("X-Auth-"+name, "a")
		}
	})
	app := stand(t, "", nil)
	d := openSite(t, map[string]string{"AUTH_UPSTREAM": auth.addr(), "ROUTES": `handle {
		import require_app authorization
		reverse_proxy ` + app.addr() + `
	}`})
	d.request(t, "GET", "/", "", "Authorization", "Other text", "X-Own", "b")
	if h := app.last(t).Header; len(h["Authorization"]) != 0 || h.Get("X-Own") != "b" {
		t.Errorf("the application got %s", h)
	}
}

// A device may have the wrong address: what is there could use the token at the applications
// that it names. The application's own Authorization passes.
func TestAuthorization_WithAnAppTokenReachesTheGuardOfAnApplicationAlone(t *testing.T) {
	t.Parallel()
	public, api := stand(t, "public", nil), stand(t, "api", nil)
	d := openSite(t, map[string]string{
		"FRONTEND_UPSTREAM": public.addr(), "FRONTEND_PUBLIC": "/ /pub/*", "APP_UPSTREAM": api.addr(), "ROUTES": `@open {
			path /some/*
			edge_path /some/open
		}
		handle @open {
			reverse_proxy ` + public.addr() + `
		}
		handle /some/* {
			import require_login
			reverse_proxy ` + public.addr() + `
		}
		handle /admins/* {
			import require_admin
			reverse_proxy ` + public.addr() + `
		}`,
	})
	basic := func(text string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(text)) }
	jwt := "Bearer eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhIn0.Apft_bc-pft_x"
	for sent, want := range map[string]string{
		"Bearer pft_a": "", "bearer  pft_a": "", "BEARER\tpft_a": "", "pft_a": "", "Token pft_a": "", `Digest username="x", response="pft_a"`: "", "Bearer x, Bearer pft_a": "",
		basic("anna:pft_a"): "", strings.ToUpper("basic") + basic("anna:pft_a")[5:]: "", basic(":pft_a"): "", basic("pft_a:"): "", basic("anna:x:pft_a"): "",
		strings.TrimRight(basic("anna:pft_ab"), "="): "", basic("\xfb\xff:pft_a"): "", strings.NewReplacer("+", "-", "/", "_").Replace(basic("\xfb\xff:pft_a")): "",
		basic("anna:secret") + ", " + basic("anna:pft_a"):       "",
		strings.Replace(basic("anna:pft_a"), " ", " \u00a0", 1): "", strings.Replace(basic("anna:pft_a"), " ", " \"", 1) + "\"": "", // auth trims any space
		basic("anna:secret"): basic("anna:secret"), jwt: jwt, "Bearer xpft_a": "Bearer xpft_a", basic("anna:apft_a"): basic("anna:apft_a"),
	} {
		for path, service := range map[string]*upstream{
			"/": public, "/pub/x": public, "/some/open": public, "/some/x": public, "/admins/x": public, "/page": public, "/api/v1/lists": api, "/health": d.verifier,
		} {
			got := d.request(t, "GET", path, "", "Cookie", "svc.sid=admin", "Authorization", sent)
			if arrived := service.last(t); got.StatusCode != 200 || arrived.URL.Path != path || arrived.Header.Get("Authorization") != want {
				t.Errorf("%q at %s: %d, %s got %q", sent, path, got.StatusCode, arrived.URL, arrived.Header["Authorization"])
			}
		}
	}
	d.request(t, "GET", "/pub/x", "", "Authorization", "Bearer own", "Authorization", "Bearer pft_a")
	if got := public.last(t).Header["Authorization"]; !slices.Equal(got, []string{"Bearer own"}) {
		t.Errorf("of two lines %q arrived", got)
	}
}

func TestApp_NoRequestPassesWithoutAName(t *testing.T) {
	t.Parallel()
	auth := stand(t, "", func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"User-Id", "Username", "Role", "Name"} {
			w.Header().Set("X-Auth-"+name, "x")
		}
		switch r.Header.Get("X-Forwarded-Uri") {
		case "/photos/empty":
			w.Header()["X-Auth-Groups"] = []string{""}
		case "/photos/twice":
			w.Header()["X-Auth-Groups"] = []string{"member", "admin"}
		}
	})
	app := stand(t, "", nil)
	d := open(t, map[string]string{"AUTH_UPSTREAM": auth.addr(), "ROUTES": photos(app.addr())})
	for _, path := range []string{"/photos/", "/photos/empty", "/photos/twice"} {
		got := d.request(t, "GET", path, "", "X-Auth-Groups", "admin")
		if n := len(app.received()); got.StatusCode != 502 || n != 0 {
			t.Errorf("%s: %d, %d requests passed", path, got.StatusCode, n)
		}
	}
}

// One with a wider scope could answer for the pages of auth.
func TestApp_AWorkerStaysInItsFolder(t *testing.T) {
	t.Parallel()
	app := stand(t, "", func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Service-Worker-Allowed"] = []string{"/"}
		w.Header().Set("Content-Type", "text/javascript")
	})
	d := open(t, map[string]string{"AUTH_UPSTREAM": standHousehold(t).addr(), "ROUTES": photos(app.addr())})
	got := d.request(t, "GET", "/photos/sw.js", "", "Cookie", "svc.app=member")
	if scope := got.Header["Service-Worker-Allowed"]; got.StatusCode != 200 || scope != nil {
		t.Errorf("%d with the scope %q", got.StatusCode, scope)
	}
}

// Browsers and caches in front guess how long they may keep what says nothing about it. What
// is public to an application that knows no login is not so behind the guard: a cache in front
// would answer with it whoever asks next.
func TestApp_AnswersAreCachedByTheBrowserAloneIfAtAll(t *testing.T) {
	t.Parallel()
	app := stand(t, "", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Last-Modified", "Sat, 22 Nov 2025 10:00:00 GMT")
		for _, own := range r.URL.Query()["own"] {
			w.Header().Add("Cache-Control", own)
		}
		for _, name := range []string{"Cdn-Cache-Control", "Cloudflare-Cdn-Cache-Control", "Surrogate-Control"} {
			w.Header().Set(name, "max-age=3600")
		}
	})
	d := open(t, map[string]string{"AUTH_UPSTREAM": standHousehold(t).addr(), "ROUTES": photos(app.addr())})
	for query, want := range map[string]string{
		"": "private, no-cache", "?own=max-age=60": "private, max-age=60", "?own=Public,+max-age=60,immutable": "private, max-age=60, immutable",
		"?own=public&own=s-maxage=9,max-age=3,+proxy-revalidate": "private, max-age=3", "?own=no-store": "private, no-store", "?own=max-age=1,+private": "private, max-age=1",
		"?own=private=x,+max-age=1": "private, max-age=1",
	} {
		got := d.request(t, "GET", "/photos/a"+query, "", "Cookie", "svc.app=member").Header
		if lines := got["Cache-Control"]; len(lines) != 1 || lines[0] != want {
			t.Errorf("%q: %q, want %q", query, lines, want)
		}
		for _, name := range []string{"Cdn-Cache-Control", "Cloudflare-Cdn-Cache-Control", "Surrogate-Control"} {
			if got[name] != nil {
				t.Errorf("%q: %s is %q", query, name, got[name])
			}
		}
	}
}

// Two devices with the same cookies, or with none, and tokens of their own.
func TestStream_EndsSoonAfterItsToken(t *testing.T) {
	t.Parallel()
	auth, app := standHousehold(t, "pft_a", "pft_b"), lasting(t)
	d := open(t, map[string]string{"AUTH_UPSTREAM": auth.addr(), "ROUTES": photos(app.addr()), "GUARD_RECHECK": "200ms"})
	device := func(headers string) net.Conn {
		conn, resp := d.openStream(t, strings.Replace(upgrade("/photos/live", "x"), "Cookie: svc.sid=x", headers, 1))
		if resp.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("%s: %d", headers, resp.StatusCode)
		}
		return conn
	}
	kept, byHeader, byBasic := device("X-Pforte-Token: pft_b"), device("X-Pforte-Token: pft_a"), device("Authorization: Basic YW5uYTpwZnRfYQ==")
	time.Sleep(time.Second) // each is checked several times
	for name, conn := range map[string]net.Conn{"by header": byHeader, "by Basic": byBasic, "another's": kept} {
		wantEcho(t, name, conn)
	}
	// auth takes a request with one of these for a WebSocket, and refuses it without an Origin.
	for _, check := range auth.received() {
		for name := range check.Header {
			if check.Header.Get("X-Auth-Renew") == "no" && strings.HasPrefix(name, "Sec-Websocket-") {
				t.Fatalf("a check of what lasts has %s", name)
			}
		}
	}
	auth.revoke("pft_a")
	wantEnd(t, "a WebSocket by header", byHeader)
	wantEnd(t, "a WebSocket by Basic", byBasic)
	wantEcho(t, "another's WebSocket", kept)
}

// To a navigation auth would answer with a redirect, which is no refusal.
func TestStream_OfAPageEndsSoonAfterItsSession(t *testing.T) {
	t.Parallel()
	auth, app := standHousehold(t), lasting(t)
	d := open(t, map[string]string{"AUTH_UPSTREAM": auth.addr(), "ROUTES": photos(app.addr()), "GUARD_RECHECK": "200ms", "GUARD_GRACE": "10m"})
	_, resp := d.openStream(t, "GET /photos/events HTTP/1.1\r\nHost: x\r\nCookie: svc.app=member\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\nAccept: text/html\r\n\r\n")
	if _, err := io.CopyN(io.Discard, resp.Body, 100); err != nil {
		t.Fatal(err)
	}
	auth.logout()
	wantEnd(t, "it", resp.Body)
}
