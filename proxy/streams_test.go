package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// sessions is a stand-in for auth whose sessions can end and change their role.
type sessions struct {
	*upstream
	mu    sync.Mutex
	roles map[string]string
	away  atomic.Bool
	// renewing counts checks that renewed a session, rechecks the others.
	renewing, rechecks atomic.Int64
}

func standSessions(t *testing.T) *sessions {
	t.Helper()
	s := &sessions{roles: map[string]string{"anna": "admin", "otto": "member"}}
	s.upstream = stand(t, "auth", func(w http.ResponseWriter, r *http.Request) {
		if s.away.Load() {
			panic(http.ErrAbortHandler)
		}
		if r.Header.Get("X-Auth-Renew") == "no" {
			if method := r.Header.Get("X-Forwarded-Method"); method != http.MethodGet { // auth may refuse any other
				t.Errorf("a later check is of %s", method)
			}
			s.rechecks.Add(1)
		} else {
			s.renewing.Add(1)
		}
		cookie, err := r.Cookie("svc.sid")
		if err != nil {
			refuse(w, http.StatusUnauthorized, `{"error":"Nicht angemeldet.","code":401}`)
			return
		}
		s.mu.Lock()
		role := s.roles[cookie.Value]
		s.mu.Unlock()
		switch {
		case role == "":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":"Nicht angemeldet.","code":401}`)
		case r.URL.Query().Get("role") == "admin" && role != "admin":
			w.WriteHeader(http.StatusForbidden)
		default:
			w.Header().Set("X-Auth-User-Id", "7")
			w.Header().Set("X-Auth-Username", cookie.Value)
			w.Header().Set("X-Auth-Role", role)
		}
	})
	return s
}

// set sets a session's role; none ends it.
func (s *sessions) set(name, role string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.roles[name] = role
}

// lasting is an application whose answers do not end: a WebSocket that
// echoes everything, events, a long poll that never begins, a download faster than
// any client reads, and an upload that it reads to its end.
func lasting(t *testing.T) *upstream {
	t.Helper()
	left := make(chan struct{})
	app := stand(t, "", func(w http.ResponseWriter, r *http.Request) {
		conn := http.NewResponseController(w)
		switch kind := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]; {
		case r.Header.Get("Upgrade") != "":
			hijacked, buffered, err := conn.Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = hijacked.Close() }()
			_, _ = io.WriteString(hijacked, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
			_, _ = io.Copy(hijacked, buffered)
		case kind == "poll":
			select {
			case <-left:
			case <-r.Context().Done():
			}
		case kind == "events":
			w.Header().Set("Content-Type", "text/event-stream")
			for i := 0; ; i++ {
				if _, err := fmt.Fprintf(w, "data: %d\n\n", i); err != nil {
					return
				}
				_ = conn.Flush()
				select {
				case <-left:
					return
				case <-r.Context().Done():
					return
				case <-time.After(20 * time.Millisecond):
				}
			}
		case kind == "download":
			w.Header().Set("Content-Length", "1000000000")
			_, _ = io.CopyN(w, zeros{}, 1_000_000_000)
		}
	})
	t.Cleanup(func() { close(left) }) // before the server closes, which waits for its requests
	return app
}

// openStream sends a request and returns the connection and what was answered.
func (d *server) openStream(t *testing.T, request string) (net.Conn, *http.Response) {
	t.Helper()
	conn := d.dial(t, 60*time.Second)
	t.Cleanup(func() { _ = conn.Close() })
	_, _ = io.WriteString(conn, request)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	return conn, resp
}

// wantEnd wants a stream to end. What came of it before is passed over.
func wantEnd(t *testing.T, what string, r io.Reader) {
	t.Helper()
	if _, err := io.Copy(io.Discard, r); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%s goes on", what)
	}
}

// wantEcho wants a WebSocket to be open.
func wantEcho(t *testing.T, what string, conn net.Conn) {
	t.Helper()
	got := make([]byte, 4)
	if _, err := io.WriteString(conn, "ping"); err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "ping" {
		t.Errorf("%s: %q, %v", what, got, err)
	}
}

func get(path, session string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: x\r\nCookie: svc.sid=" + session + "\r\n\r\n"
}

func upgrade(path, session string) string {
	return strings.Replace(strings.Replace(websocket("svc.sid="+session), "/api/v1/live", path, 1), "Host: x", "Host: x\r\nOrigin: http://x", 1)
}

func TestStream_EndsSoonAfterItsSession(t *testing.T) {
	t.Parallel()
	auth, app := standSessions(t), lasting(t)
	d := open(t, map[string]string{
		"AUTH_UPSTREAM": auth.addr(), "APP_UPSTREAM": app.addr(), "GUARD_RECHECK": "300ms",
		"ROUTES": "handle /chat/* {\nimport require_login\nreverse_proxy " + app.addr() + "\n}",
	})
	socket, _ := d.openStream(t, upgrade("/api/v1/live", "anna"))
	custom, _ := d.openStream(t, upgrade("/chat/live", "anna"))
	_, events := d.openStream(t, get("/api/v1/events", "anna"))
	_, download := d.openStream(t, get("/api/v1/download", "anna"))
	others, _ := d.openStream(t, upgrade("/api/v1/live", "otto"))
	poll := make(chan answer, 1)
	go func() { poll <- d.request(t, "GET", "/api/v1/poll", "", "Cookie", "svc.sid=anna") }()
	for auth.rechecks.Load() < 6 { // three sessions at two guards, each at least twice
		time.Sleep(50 * time.Millisecond)
	}
	for name, conn := range map[string]net.Conn{"a WebSocket": socket, "one of a further route": custom, "another's": others} {
		wantEcho(t, name, conn)
	}
	auth.set("anna", "")
	ended := time.Now()
	wantEnd(t, "a WebSocket", socket)
	wantEnd(t, "one of a further route", custom)
	wantEnd(t, "a stream of events", events.Body)
	if got := <-poll; got.StatusCode != 401 || !strings.Contains(got.body, "Nicht angemeldet.") {
		t.Errorf("a long poll: %d %s", got.StatusCode, got.body)
	}
	if took := time.Since(ended); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	wantEnd(t, "an unread download", download.Body)
	wantEcho(t, "another's WebSocket", others)
	if n := auth.renewing.Load(); n != 6 {
		t.Errorf("%d checks renewed a session, of 6 requests", n)
	}
}

// Who waits for a page, or for the answer to a form, reads that the login has ended.
func TestStream_EndsWithAPageForAPerson(t *testing.T) {
	t.Parallel()
	auth, app := standSessions(t), lasting(t)
	d := open(t, map[string]string{"AUTH_UPSTREAM": auth.addr(), "APP_UPSTREAM": app.addr(), "GUARD_RECHECK": "200ms"})
	polls := map[string]chan answer{"GET": make(chan answer, 1), "POST": make(chan answer, 1)}
	for method, poll := range polls {
		go func() {
			poll <- d.request(t, method, "/api/v1/poll", "", append([]string{"Cookie", "svc.sid=anna", "Accept-Language", "de"}, opens["a browser"]...)...)
		}()
	}
	for auth.rechecks.Load() < 2 {
		time.Sleep(20 * time.Millisecond)
	}
	auth.set("anna", "")
	wantPage(t, <-polls["GET"], 401, false, "Du bist abgemeldet.", "Zur Startseite", "not:Nicht angemeldet.")
	wantPage(t, <-polls["POST"], 401, false, "Du bist abgemeldet.", ">Zurück<", "not:Nicht angemeldet.")
}

func TestStream_AnUploadEndsSoonAfterItsSession(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	app := stand(t, "", func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		ended <- err
	})
	auth := standSessions(t)
	d := open(t, map[string]string{"AUTH_UPSTREAM": auth.addr(), "APP_UPSTREAM": app.addr(), "GUARD_RECHECK": "200ms"})
	conn := d.dial(t, 10*time.Second)
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, "POST /api/v1/upload HTTP/1.1\r\nHost: x\r\nCookie: svc.sid=anna\r\nContent-Length: 1000\r\n\r\nthe beginning")
	for auth.rechecks.Load() < 2 {
		time.Sleep(20 * time.Millisecond)
	}
	auth.set("anna", "")
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the application takes what arrived for the whole")
		}
	case <-time.After(20 * time.Second):
		t.Error("the upload goes on")
	}
}

func TestStream_EndsWhenTheRoleChanges(t *testing.T) {
	t.Parallel()
	auth, app := standSessions(t), lasting(t)
	d := open(t, map[string]string{
		"AUTH_UPSTREAM": auth.addr(), "APP_UPSTREAM": app.addr(), "GUARD_RECHECK": "200ms",
		"ROUTES": "handle /admin/* {\nimport require_admin\nreverse_proxy " + app.addr() + "\n}",
	})
	member, _ := d.openStream(t, upgrade("/api/v1/live", "anna")) // whose role was "admin"
	admin, _ := d.openStream(t, upgrade("/admin/live", "anna"))
	wantEcho(t, "a WebSocket", member)
	wantEcho(t, "an admin's WebSocket", admin)
	auth.set("anna", "member")
	wantEnd(t, "a WebSocket of a former admin", member)
	wantEnd(t, "an admin's WebSocket", admin)
}

// Requests with the same cookies are checked together.
func TestStream_ManyOfASessionCostOneQuestion(t *testing.T) {
	t.Parallel()
	auth, app := standSessions(t), lasting(t)
	d := open(t, map[string]string{"AUTH_UPSTREAM": auth.addr(), "APP_UPSTREAM": app.addr(), "GUARD_RECHECK": "500ms"})
	started := time.Now() // streams are checked while the others are opened, too
	var conns []net.Conn
	for range 50 {
		conn, _ := d.openStream(t, upgrade("/api/v1/live", "anna"))
		conns = append(conns, conn)
	}
	time.Sleep(2 * time.Second)
	if n, most := auth.rechecks.Load(), int64(time.Since(started)/(500*time.Millisecond))+3; n < 2 || n > most {
		t.Errorf("%d checks, at most %d", n, most)
	}
	for _, conn := range conns {
		wantEcho(t, "a WebSocket", conn)
		_ = conn.Close()
	}
	// And there are no more checks when all have ended.
	var before int64
	for before = -1; before != auth.rechecks.Load(); time.Sleep(time.Second) {
		before = auth.rechecks.Load()
	}
}

func TestStream_OutlivesAShortSilenceOfAuthOnly(t *testing.T) {
	t.Parallel()
	auth, app := standSessions(t), lasting(t)
	d := open(t, map[string]string{"AUTH_UPSTREAM": auth.addr(), "APP_UPSTREAM": app.addr(), "GUARD_RECHECK": "200ms", "GUARD_GRACE": "4s"})
	conn, _ := d.openStream(t, upgrade("/api/v1/live", "anna"))
	for auth.rechecks.Load() < 2 {
		time.Sleep(20 * time.Millisecond)
	}
	auth.away.Store(true)
	time.Sleep(1500 * time.Millisecond)
	wantEcho(t, "a WebSocket while auth is away", conn)
	auth.away.Store(false)
	for before := auth.rechecks.Load(); auth.rechecks.Load() < before+2; {
		time.Sleep(20 * time.Millisecond)
	}
	wantEcho(t, "a WebSocket after auth is back", conn)
	auth.away.Store(true)
	wantEnd(t, "a WebSocket without auth", conn)
}
