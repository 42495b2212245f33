package main

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"
)

func TestTheGuardAnswersForTheApplication(t *testing.T) {
	t.Parallel()
	h := household(t, nil)
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
		before := len(h.app.asked())
		got := h.ask(t, c.method, "/api/v1/lists", "body", "Cookie", c.cookie, "X-CSRF-Token", c.token)
		if got.StatusCode != c.status {
			t.Errorf("%+v: %d %s", c, got.StatusCode, got.body)
		}
		if passed := len(h.app.asked()) > before; passed != (c.status == 200) {
			t.Errorf("%+v: passed is %t", c, passed)
		}
		if token := got.Header.Get("X-CSRF-Token"); c.status == 403 && token != csrfToken {
			t.Errorf("%+v: the refusal carries the token %q", c, token)
		}
	}
}

// The session cookie is sent anew by any answer to who is logged in, and many
// browsers ask for nothing but the application.
func TestTheGuardsCookiesReachTheBrowserBesideTheApplications(t *testing.T) {
	t.Parallel()
	themes := stand(t, "themes", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Set-Cookie", "theme=dark") })
	h := household(t, map[string]string{"APP_UPSTREAM": themes.addr()})
	got := h.ask(t, "GET", "/api/v1/lists?old", "", "Cookie", "svc.sid=member").Header.Values("Set-Cookie")
	want := []string{"svc.sid=member; Path=/; HttpOnly", "csrf-token=new; Expires=Sat, 28 Nov 2026 10:00:00 GMT", "theme=dark"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if got := h.ask(t, "GET", "/api/v1/lists", "", "Cookie", "svc.sid=member").Header.Values("Set-Cookie"); len(got) != 1 {
		t.Errorf("got %q", got)
	}
}

func TestTheClientsQueryIsTheApplicationsNotTheGuards(t *testing.T) {
	t.Parallel()
	h := household(t, nil)
	got := h.ask(t, "GET", "/api/v1/lists?role=admin", "", "Cookie", "svc.sid=member")
	if got.StatusCode != 200 {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
}

func TestTheApplicationIsToldWhoAsksAndNeverGetsTheSession(t *testing.T) {
	t.Parallel()
	h := household(t, nil)
	for cookies, want := range map[string]string{
		"svc.sid=member":                           "",
		"a=1; svc.sid=member; b=2":                 "a=1; b=2",
		"svc.sid=member; b=2":                      "b=2",
		"a=1; svc.sid=member":                      "a=1",
		"svc.sid=member; svc.sid=member":           "",
		"svc.sid=member; my-svc.sid=1; svcxsid=2":  "my-svc.sid=1; svcxsid=2",
		"csrf-token=t;svc.sid=member;connect.sid=": "csrf-token=t;connect.sid=",
	} {
		if got := h.ask(t, "GET", "/api/v1/lists", "", "Cookie", cookies); got.StatusCode != 200 {
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

func TestNobodyPassesWhomAuthDoesNotName(t *testing.T) {
	t.Parallel()
	silent := stand(t, "", func(http.ResponseWriter, *http.Request) {})
	h := household(t, map[string]string{"AUTH_UPSTREAM": silent.addr()})
	got := h.ask(t, "GET", "/api/v1/lists", "", forged...)
	if n := len(h.app.asked()); got.StatusCode != 502 || n != 0 {
		t.Errorf("%d, %d requests passed", got.StatusCode, n)
	}
}

func TestNobodyPassesWhileAuthIsAway(t *testing.T) {
	t.Parallel()
	h := household(t, nil)
	h.auth.Close()
	german(t, h.ask(t, "GET", "/api/v1/lists", "", "Cookie", "svc.sid=member"), 502)
	if n := len(h.app.asked()); n != 0 {
		t.Errorf("%d requests passed", n)
	}
}

func TestAnAdminRouteWantsAnAdmin(t *testing.T) {
	t.Parallel()
	photos := stand(t, "photos", nil)
	h := household(t, map[string]string{"ROUTES": `handle /photos/* {
		import require_admin
		reverse_proxy ` + photos.addr() + `
	}`})
	for session, want := range map[string]int{"": 401, "member": 403, "admin": 200} {
		if got := h.ask(t, "GET", "/photos/1", "", "Cookie", "svc.sid="+session); got.StatusCode != want {
			t.Errorf("%q: %d, want %d", session, got.StatusCode, want)
		}
	}
	if got := photos.last(t).Header.Get("X-Auth-Role"); got != "admin" || len(photos.asked()) != 1 {
		t.Errorf("role %q in %d requests", got, len(photos.asked()))
	}
}

func TestAWebSocketPassesTheGuard(t *testing.T) {
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
	h := household(t, map[string]string{"APP_UPSTREAM": app.addr()})
	if got := h.raw(t, websocket("")); got != "HTTP/1.1 401 Unauthorized" {
		t.Errorf("without a session: %s", got)
	}
	conn, err := net.DialTimeout("tcp", h.addr, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
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
func TestALargeUploadStreamsThroughTheGuard(t *testing.T) {
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
	h := household(t, map[string]string{"APP_UPSTREAM": app.addr()})
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

func TestALargeUploadWithoutASessionIsNotReadToItsEnd(t *testing.T) {
	t.Parallel()
	h := household(t, nil)
	r, w := io.Pipe()
	t.Cleanup(func() { _ = w.Close() })
	go func() { _, _ = io.CopyN(w, zeros{}, 1<<20) }() // and never more
	if got := h.send(t, "POST", "/api/v1/files", r); got.StatusCode != 401 {
		t.Errorf("got %d", got.StatusCode)
	}
}
