package main

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestGuard_AnswersForTheApplication(t *testing.T) {
	t.Parallel()
	h := openSite(t, nil)
	for _, c := range []struct {
		method, cookie, token string
		status                int
	}{
		{"GET", "", "", 401},
		{"GET", "svc.sid=unknown", "", 401},
		{"POST", "", csrfToken, 401},
		{"POST", "svc.sid=member", "", 403},
		{"DELETE", "svc.sid=member", "wrong", 403},
		{"PURGE", "svc.sid=member", "", 403},
		{"GET", "svc.sid=member", "", 200},
		{"POST", "svc.sid=member", csrfToken, 200},
	} {
		before := len(h.app.received())
		got := h.request(t, c.method, "/api/v1/lists", "body", "Cookie", c.cookie, "X-CSRF-Token", c.token)
		if got.StatusCode != c.status {
			t.Errorf("%+v: %d %s", c, got.StatusCode, got.body)
		}
		if passed := len(h.app.received()) > before; passed != (c.status == 200) {
			t.Errorf("%+v: passed is %t", c, passed)
		}
		if token := got.Header.Get("X-CSRF-Token"); c.status == 403 && token != csrfToken {
			t.Errorf("%+v: the refusal carries the token %q", c, token)
		}
	}
}

// The session cookie is sent again with any answer to a logged-in user, and many
// browsers use nothing but the application.
func TestGuard_CookiesComeBesideTheApplications(t *testing.T) {
	t.Parallel()
	themes := stand(t, "themes", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Set-Cookie", "theme=dark") })
	h := openSite(t, map[string]string{"APP_UPSTREAM": themes.addr()})
	got := h.request(t, "GET", "/api/v1/lists?old", "", "Cookie", "svc.sid=member").Header.Values("Set-Cookie")
	want := []string{"svc.sid=member; Path=/; HttpOnly", "csrf-token=new; Expires=Sat, 28 Nov 2026 10:00:00 GMT", "theme=dark"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if got := h.request(t, "GET", "/api/v1/lists", "", "Cookie", "svc.sid=member").Header.Values("Set-Cookie"); len(got) != 1 {
		t.Errorf("got %q", got)
	}
}

func TestGuard_DoesNotUseTheClientsQuery(t *testing.T) {
	t.Parallel()
	h := openSite(t, nil)
	got := h.request(t, "GET", "/api/v1/lists?role=admin", "", "Cookie", "svc.sid=member")
	if got.StatusCode != 200 {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
}

func TestGuard_PassesTheUserNeverTheSession(t *testing.T) {
	t.Parallel()
	h := openSite(t, nil)
	for cookies, want := range map[string]string{
		"svc.sid=member":                                              "",
		"a=1; svc.sid=member; b=2":                                    "a=1; b=2",
		"svc.sid=member; b=2":                                         "b=2",
		"a=1; svc.sid=member":                                         "a=1",
		"svc.sid=member; svc.sid=member":                              "",
		"svc.sid=member; my-svc.sid=1; svcxsid=2":                     "my-svc.sid=1; svcxsid=2",
		"csrf-token=t;svc.sid=member;connect.sid=":                    "connect.sid=",
		"svc.sid=member; svc.sid2=x; svc.=y; svc=z":                   "svc=z",
		"a=\"x; svc.sid=member; csrf-token=t; b=y\"":                  "a=\"x; b=y\"",
		" a = 1 ;svc.sid=member;SVC.SID=x ;csrf-token ; Csrf-Token=y": "a = 1 ;SVC.SID=x ; Csrf-Token=y",
	} {
		if got := h.request(t, "GET", "/api/v1/lists", "", "Cookie", cookies); got.StatusCode != 200 {
			t.Fatalf("%s: %d", cookies, got.StatusCode)
		}
		got := h.app.last(t).Header
		if got.Get("Cookie") != want {
			t.Errorf("%s became %q, want %q", cookies, got.Get("Cookie"), want)
		}
		if got.Get("X-Auth-User-Id") != "7" || got.Get("X-Auth-Username") != "anna" || got.Get("X-Auth-Role") != "member" {
			t.Errorf("identity is %s", got)
		}
	}
}

// Whichever routes there are, and with or without a guard.
func TestGuard_OurCookiesReachAuthAlone(t *testing.T) {
	t.Parallel()
	other := stand(t, "other", nil)
	h := openSite(t, map[string]string{"FRONTEND_UPSTREAM": other.addr(), "APP_NAME": "haus", "ROUTES": `handle /open/* {
		reverse_proxy ` + other.addr() + `
	}
	handle /guarded/* {
		import require_login
		reverse_proxy ` + other.addr() + `
	}`, "AUTH_UPSTREAM": stand(t, "", func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Set-Cookie"] = r.Header["Cookie"] // what it got
		w.Header().Set("X-Auth-User-Id", "7")
		w.Header().Set("X-Auth-Username", "anna")
		w.Header().Set("X-Auth-Role", "member")
	}).addr()})
	lines := []string{"Cookie", "a=1; haus.sid=secret; csrf-token=secret", "Cookie", "haus.next=secret", "Cookie", "b=2; svc.sid=other"}
	for path, service := range map[string]*upstream{
		"/open/x": other, "/guarded/x": other, "/page": other, "/v1/things": h.verifier, "/health": h.verifier, "/api/v1/lists": h.app,
	} {
		got := h.request(t, "GET", path, "", lines...)
		if arrived := service.last(t); arrived.URL.Path != path || fmt.Sprint(arrived.Header["Cookie"]) != "[a=1 b=2; svc.sid=other]" {
			t.Errorf("%s: %d, %s got %q", path, got.StatusCode, arrived.URL, arrived.Header["Cookie"])
		}
	}
	for _, path := range []string{"/api/v1/auth/me", "/pforte/", "/.well-known/change-password"} {
		if got := h.request(t, "GET", path, "", lines...).Header["Set-Cookie"]; fmt.Sprint(got) != "[a=1; haus.sid=secret; csrf-token=secret haus.next=secret b=2; svc.sid=other]" {
			t.Errorf("%s: auth got %q", path, got)
		}
	}
}

func TestGuard_AnApplicationCannotSetOurCookies(t *testing.T) {
	t.Parallel()
	own := []string{"theme=dark", "SVC.SID=x", "my-svc.sid=1; Path=/"}
	app := stand(t, "", func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Set-Cookie"] = []string{
			"svc.sid=theirs; Path=/", own[0], " svc.sid =theirs", "csrf-token=theirs; Domain=x", own[1], "=svc.sid=theirs", "= csrf-token=theirs", "svc.other=1", "svc.sid", "csrf-token;x", own[2],
		}
		w.WriteHeader(http.StatusEarlyHints)
	})
	h := openSite(t, map[string]string{"APP_UPSTREAM": app.addr(), "FRONTEND_UPSTREAM": app.addr(), "VERIFIER_UPSTREAM": app.addr()})
	for _, path := range []string{"/api/v1/lists", "/page", "/v1/x"} {
		if got := h.request(t, "GET", path, "", "Cookie", "svc.sid=member").Header["Set-Cookie"]; !slices.Equal(got, own) {
			t.Errorf("%s: the answer sets %q", path, got)
		}
	}
	// Not in what comes before the answer either.
	conn := h.dial(t, 10*time.Second)
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, "GET /page HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if all, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(all), "HTTP/1.1 103") || strings.Contains(string(all), "theirs") {
		t.Errorf("got %v\n%s", err, all)
	}
}

// They would hold for the portal and the other applications too.
func TestGuard_AnApplicationDecidesNothingForTheSite(t *testing.T) {
	t.Parallel()
	app := stand(t, "", func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Clear-Site-Data"] = []string{`"cookies"`, "*"}
		w.Header().Set("NEL", `{"report_to":"x","max_age":31536000,"include_subdomains":true}`)
		w.Header().Set("Report-To", `{"group":"x","max_age":31536000,"endpoints":[{"url":"https://evil.example/"}]}`)
		w.WriteHeader(http.StatusEarlyHints)
	})
	h := openSite(t, map[string]string{"APP_UPSTREAM": app.addr(), "FRONTEND_UPSTREAM": app.addr()})
	for _, path := range []string{"/api/v1/lists", "/page"} {
		got := h.request(t, "GET", path, "", "Cookie", "svc.sid=member")
		for _, name := range []string{"Clear-Site-Data", "Nel", "Report-To"} {
			if lines := got.Header[name]; got.StatusCode != 200 || lines != nil {
				t.Errorf("%s: %d with %s: %q", path, got.StatusCode, name, lines)
			}
		}
	}
}

// A cache in front must not hand a session to the next member.
func TestGuard_ARenewedSessionIsForNoCache(t *testing.T) {
	t.Parallel()
	public := http.Header{"Cache-Control": {"public, max-age=3600"}, "Cdn-Cache-Control": {"max-age=60"}, "Expires": {"Sun, 22 Nov 2027 10:00:00 GMT"}, "Surrogate-Control": {"max-age=60"}, "Etag": {`"1"`}}
	app := stand(t, "", func(w http.ResponseWriter, r *http.Request) {
		for name, values := range public {
			w.Header()[name] = values
		}
		if r.URL.Path == "/api/v1/avatars/1" {
			w.WriteHeader(http.StatusNotModified)
		}
	})
	h := openSite(t, map[string]string{"APP_UPSTREAM": app.addr()})
	got := h.request(t, "GET", "/api/v1/lists?old", "", "Cookie", "svc.sid=member").Header
	if len(got["Set-Cookie"]) != 2 || got.Get("Cache-Control") != "private, no-store" || len(got["Cache-Control"]) != 1 {
		t.Errorf("with a new cookie: %s", got)
	}
	if got.Get("Cdn-Cache-Control")+got.Get("Expires")+got.Get("Surrogate-Control") != "" || got.Get("Etag") == "" {
		t.Errorf("with a new cookie: %s", got)
	}
	for _, path := range []string{"/api/v1/lists", "/api/v1/avatars/1"} {
		got = h.request(t, "GET", path, "", "Cookie", "svc.sid=member").Header
		for name, values := range public {
			if !slices.Equal(got[name], values) {
				t.Errorf("%s without a new cookie: %s", path, got)
			}
		}
	}
}

func TestGuard_OnlyWhatIsNamedIsPublic(t *testing.T) {
	t.Parallel()
	app := stand(t, "app", nil)
	h := openSite(t, map[string]string{"FRONTEND_UPSTREAM": app.addr(), "FRONTEND_PUBLIC": "/ /assets/* /login"})
	for target, public := range map[string]bool{
		"/": true, "/?x=/lists": true, "/login": true, "/login?next=%2F": true, "/assets/": true, "/assets/app.js": true, "/assets/a%2Fb": true,
		"/lists": false, "/login/": false, "/login2": false, "/Login": false, "/%6cogin": false, "/assets": false, "/ASSETS/x": false, "/%61ssets/x": false,
		"/assets%2fx": false, "/uploads/1.jpg": false, "/socket.io/?x=/assets/": false, "/graphql": false,
	} {
		want := http.StatusUnauthorized
		if public {
			want = http.StatusOK
		}
		if status, body := h.exchange(t, "GET", target, ""); status != want {
			t.Errorf("%s: %d %s", target, status, body)
		}
		if status, _ := h.exchange(t, "GET", target, "svc.sid=member"); status != http.StatusOK || app.last(t).RequestURI != target {
			t.Errorf("%s with a session: %d", target, status)
		}
		if id := app.last(t).Header.Get("X-Auth-User-Id"); id == "7" == public {
			t.Errorf("%s: the application got %q", target, id)
		}
	}
}

// With the settings that the page shows for an application that is both.
func TestGuard_HouseholdsPageGuardsAllButWhatItNames(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../deploy/docs/moving.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```\n(FRONTEND_UPSTREAM=[^`]*FRONTEND_PUBLIC=[^`]*)```").FindSubmatch(page)
	if block == nil {
		t.Fatal("the page shows no such settings")
	}
	app := stand(t, "app", nil)
	settings := map[string]string{}
	for line := range strings.Lines(string(block[1])) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		settings[name] = strings.ReplaceAll(strings.Trim(value, `"`), "127.0.0.1:3000", app.addr())
	}
	h := openSite(t, settings)
	for path, want := range map[string]int{
		"/": 200, "/login": 200, "/assets/app.js": 200, "/favicon.ico": 200,
		"/api/v1/lists": 401, "/uploads/1.jpg": 401, "/socket.io/?EIO=4": 401, "/graphql": 401, "/calendar.ics": 401, "/api/v1": 404, "/api/v2/lists": 404,
	} {
		if got := h.request(t, "GET", path, ""); got.StatusCode != want {
			t.Errorf("%s without a login: %d, want %d", path, got.StatusCode, want)
		}
		if want != 401 {
			continue
		}
		if got := h.request(t, "GET", path, "", "Cookie", "svc.sid=member"); got.StatusCode != 200 || app.last(t).Header.Get("X-Auth-Username") != "anna" {
			t.Errorf("%s with a login: %d", path, got.StatusCode)
		}
	}
}

func TestGuard_NoRequestPassesWithoutAUser(t *testing.T) {
	t.Parallel()
	silent := stand(t, "", func(http.ResponseWriter, *http.Request) {})
	h := openSite(t, map[string]string{"AUTH_UPSTREAM": silent.addr()})
	got := h.request(t, "GET", "/api/v1/lists", "", forged...)
	if n := len(h.app.received()); got.StatusCode != 502 || n != 0 {
		t.Errorf("%d, %d requests passed", got.StatusCode, n)
	}
}

func TestGuard_NoRequestPassesWhileAuthIsAway(t *testing.T) {
	t.Parallel()
	h := openSite(t, nil)
	h.auth.Close()
	german(t, h.request(t, "GET", "/api/v1/lists", "", "Cookie", "svc.sid=member"), 502)
	if n := len(h.app.received()); n != 0 {
		t.Errorf("%d requests passed", n)
	}
}

func TestGuard_AnAdminRouteNeedsAnAdmin(t *testing.T) {
	t.Parallel()
	photos := stand(t, "photos", nil)
	h := openSite(t, map[string]string{"ROUTES": `handle /photos/* {
		import require_admin
		reverse_proxy ` + photos.addr() + `
	}`})
	for session, want := range map[string]int{"": 401, "member": 403, "admin": 200} {
		if got := h.request(t, "GET", "/photos/1", "", "Cookie", "svc.sid="+session); got.StatusCode != want {
			t.Errorf("%q: %d, want %d", session, got.StatusCode, want)
		}
	}
	if got := photos.last(t).Header.Get("X-Auth-Role"); got != "admin" || len(photos.received()) != 1 {
		t.Errorf("role %q in %d requests", got, len(photos.received()))
	}
}

func TestWebSocket_PassesTheGuard(t *testing.T) {
	t.Parallel()
	app := stand(t, "", func(w http.ResponseWriter, r *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: %s\r\nConnection: Upgrade\r\n\r\n", r.Header.Get("Upgrade"))
		_, _ = io.Copy(conn, buffered)
	})
	h := openSite(t, map[string]string{"APP_UPSTREAM": app.addr()})
	if got := h.raw(t, websocket("")); got != "HTTP/1.1 401 Unauthorized" {
		t.Errorf("without a session: %s", got)
	}
	conn := h.dial(t, 10*time.Second)
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, websocket("svc.sid=member"))
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %v, %v", resp, err)
	}
	for _, text := range []string{"hello", "again"} {
		_, _ = io.WriteString(conn, text)
		got := make([]byte, len(text))
		if _, err := io.ReadFull(r, got); err != nil || string(got) != text {
			t.Fatalf("sent %s, got %s, %v", text, got, err)
		}
	}
	if got := app.last(t).Header; got.Get("X-Auth-User-Id") != "7" || got.Get("Sec-Websocket-Key") == "" {
		t.Errorf("the application got %s", got)
	}
}

func websocket(cookie string) string {
	return "GET /api/v1/live HTTP/1.1\r\nHost: x\r\nCookie: " + cookie + "\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
}

// The upload is larger than any limit of the services' own routes, and passes as
// it comes: its end is sent only when the application has read its beginning.
func TestGuard_ALargeUploadStreams(t *testing.T) {
	t.Parallel()
	const size = 100 << 20
	began, length := make(chan struct{}), make(chan int64, 1)
	app := stand(t, "", func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadFull(r.Body, make([]byte, 1024)); err != nil {
			t.Error(err)
		}
		close(began)
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			t.Error(err)
		}
		length <- n + 1024
	})
	h := openSite(t, map[string]string{"APP_UPSTREAM": app.addr()})
	r, w := io.Pipe()
	go func() {
		_, _ = io.CopyN(w, rand.Reader, 1<<20)
		select {
		case <-began:
		case <-time.After(20 * time.Second):
			t.Error("the application does not see the beginning")
		}
		_, _ = io.CopyN(w, zeros{}, size-1<<20)
		_ = w.Close()
	}()
	got := h.send(t, "POST", "/api/v1/files", r, "Cookie", "svc.sid=member", "X-CSRF-Token", csrfToken, "Expect", "100-continue")
	if n := <-length; got.StatusCode != 200 || n != size {
		t.Errorf("status %d, %d bytes", got.StatusCode, n)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestGuard_ALargeUploadWithoutASessionIsNotRead(t *testing.T) {
	t.Parallel()
	h := openSite(t, nil)
	r, w := io.Pipe()
	t.Cleanup(func() { _ = w.Close() })
	go func() { _, _ = io.CopyN(w, zeros{}, 1<<20) }() // and never more
	if got := h.send(t, "POST", "/api/v1/files", r); got.StatusCode != 401 {
		t.Errorf("got %d", got.StatusCode)
	}
}
