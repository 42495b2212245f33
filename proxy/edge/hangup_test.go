package edge

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
)

// listenerProbe is a handler that notes the listener of its request.
type listenerProbe struct{}

var probed = make(chan *boundListener, 1)

func (listenerProbe) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.edge_test_listener", New: func() caddy.Module { return new(listenerProbe) }}
}

func (listenerProbe) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	probed <- r.Context().Value(connectionKey{}).(*boundConn).listener
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// stalling is an upstream that answers after a while, and in all ways.
func stalling(w http.ResponseWriter, r *http.Request) {
	go func() { _, _ = io.Copy(io.Discard, r.Body) }()
	select {
	case <-r.Context().Done():
	case <-time.After(time.Duration(rand.IntN(25)) * time.Millisecond):
	}
	if r.URL.Path == "/internal/forward-auth" {
		if !strings.Contains(r.Header.Get("Cookie"), "svc.sid=member") {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		for _, name := range []string{"X-Auth-User-Id", "X-Auth-Username", "X-Auth-Role"} {
			w.Header().Set(name, "7")
		}
		return
	}
	if r.Header.Get("Upgrade") != "" {
		conn, in, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello")
		_, _ = io.Copy(conn, in)
		return
	}
	switch rand.IntN(8) {
	case 0:
		panic(http.ErrAbortHandler) // the server is away
	case 1: // a long answer
		for range 50 {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	case 2: // one that breaks off
		w.Header().Set("Content-Length", "100000")
		_, _ = io.WriteString(w, "some")
	default:
		_, _ = io.WriteString(w, "all")
	}
}

// streamsOf is what a client of HTTP/2 sends that begins requests, of which it resets some.
func streamsOf(method, path, length string, streams int) string {
	var all bytes.Buffer
	frame := func(kind, flags byte, stream int, payload []byte) {
		all.Write([]byte{0, byte(len(payload) >> 8), byte(len(payload)), kind, flags, 0, 0, byte(stream >> 8), byte(stream)})
		all.Write(payload)
	}
	all.WriteString("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	frame(4, 0, 0, nil)
	fields := [][2]string{{":method", method}, {":scheme", "http"}, {":authority", "x"}, {":path", path}, {"cookie", "svc.sid=member"}}
	end := byte(5)
	if length != "" {
		fields, end = append(fields, [2]string{"content-length", length}), 4
	}
	for i := range streams {
		var header []byte
		for _, field := range fields {
			header = append(append(header, 0, byte(len(field[0]))), field[0]...)
			header = append(append(header, byte(len(field[1]))), field[1]...)
		}
		frame(1, end, 2*i+1, header)
		if i%3 == 1 {
			frame(3, 0, 2*i+1, []byte{0, 0, 0, 8}) // canceled
		}
	}
	return all.String()
}

// leftOf describes what is counted, and is empty where nothing is.
func leftOf[T comparable](name string, s *shares[T]) string {
	if s.all.has == 0 && s.all.losing == 0 && len(s.byPrefix) == 0 && len(s.all.within) == 0 {
		return ""
	}
	return fmt.Sprintf("%s: %d, %d to lose, %d networks\n", name, s.all.has, s.all.losing, len(s.byPrefix))
}

// Whatever a client breaks off, at any moment, is counted no more.
func TestCounts_AreZeroAfterAllClientsHaveHungUp(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(stalling))
	t.Cleanup(upstream.Close)
	caddyfile, err := os.ReadFile("../Caddyfile")
	if err != nil {
		t.Fatal(err)
	}
	to := strings.TrimPrefix(upstream.URL, "http://")
	text := strings.Replace(string(caddyfile), "{$ROUTES:}", "@listener path /listener\nroute @listener {\n edge_test_listener\n}", 1)
	text, _, _ = strings.Cut(text, "# The internal address")
	for name, value := range map[string]string{
		"AUTH_UPSTREAM": to, "VERIFIER_UPSTREAM": to, "APP_UPSTREAM": to, "FRONTEND_UPSTREAM": to,
		"AUTH_MAX_REQUESTS": "16", "VERIFIER_MAX_REQUESTS": "16", "MAX_CONNECTIONS": "48", "LOG_LEVEL": "fatal", "HOME": t.TempDir(), "XDG_CONFIG_HOME": t.TempDir(),
	} {
		t.Setenv(name, value)
	}
	caddy.RegisterModule(listenerProbe{})
	httpcaddyfile.RegisterHandlerDirective("edge_test_listener", func(httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) { return listenerProbe{}, nil })
	var addr string
	for tries := 10; ; tries-- {
		free, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr = free.Addr().String()
		_ = free.Close()
		t.Setenv("SITE_ADDRESS", strings.TrimPrefix(addr, "127.0.0.1"))
		config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), nil)
		if err == nil {
			err = caddy.Load(config, true)
		}
		if err == nil {
			break
		}
		if tries == 0 || !strings.Contains(err.Error(), "address already in use") { // by another process meanwhile
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = caddy.Stop() })

	const cookie = "Host: x\r\nCookie: svc.sid=member\r\n"
	phases := []string{
		"GET /pforte/login HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /api/v1/auth/me HTTP/1.1\r\n" + cookie + "\r\n",
		"GET /api/v1/lists HTTP/1.1\r\n" + cookie + "\r\n",
		"POST /api/v1/lists HTTP/1.1\r\n" + cookie + "Content-Length: 70000\r\n\r\nsome",
		"POST /api/v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
		"POST /api/v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Length: 2000\r\n\r\n{",
		"POST /v1/verify HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n{",
		"POST /v1/verify HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n" + strings.Repeat("x", 200000),
		"POST /mcp HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: X-A\r\n\r\n2\r\n{}\r\n0\r\nX-A: b\r\n\r\n",
		"POST /mcp HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz",
		"POST /mcp HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
		"POST /v1/verify HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 20\r\n\r\n",
		"GET /page HTTP/1.1\r\n" + cookie + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x\r\n\r\nhello",
		"GET /api/v1/lists HTTP/1.1\r\n" + cookie + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x\r\n\r\nhello",
		"CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n",
		strings.Repeat("GET /v1/log/x HTTP/1.1\r\nHost: x\r\n\r\n", 8),
		strings.Repeat("GET /pforte/login HTTP/1.1\r\nHost: x\r\n\r\n", 8),
		"GET /pforte/login HTTP/1.1\r\nHos",
		"\x16\x03\x01\x02\x00\x01",
		streamsOf("GET", "/api/v1/lists", "", 40),
		streamsOf("GET", "/v1/log/x", "", 30),
		streamsOf("POST", "/api/v1/auth/login", "2000", 40),
		streamsOf("POST", "/v1/verify", "90000", 30),
	}
	app, err := gatesOf(caddy.ActiveContext())
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	// One becomes known, so that the places of known users are tried too. Some answers break off.
	known := func() int {
		app.users.mu.RLock()
		defer app.users.mu.RUnlock()
		return len(app.users.now)
	}
	for deadline := time.Now().Add(20 * time.Second); known() == 0; {
		if time.Now().After(deadline) {
			t.Fatal("no request has reached auth")
		}
		req, err := http.NewRequest(http.MethodGet, "http://"+addr+"/api/v1/lists", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Cookie", "svc.sid=member")
		if got, err := client.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, got.Body)
			_ = got.Body.Close()
		}
	}
	var all sync.WaitGroup
	const each = 48
	work := make(chan int)
	for range 64 {
		all.Go(func() {
			for i := range work {
				dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, byte(i%5), byte(1+i%7))}, Timeout: 5 * time.Second}
				conn, err := dialer.DialContext(context.Background(), "tcp", addr)
				if err != nil {
					t.Error(err)
					continue
				}
				_, _ = io.WriteString(conn, phases[i%len(phases)])
				_ = conn.SetReadDeadline(time.Now().Add(time.Duration(rand.IntN(40)) * time.Millisecond))
				_, _ = io.CopyN(io.Discard, conn, rand.Int64N(100_000))
				if i%2 == 0 {
					_ = conn.(*net.TCPConn).SetLinger(0) // a reset
				}
				_ = conn.Close()
			}
		})
	}
	for i := range each * len(phases) {
		work <- i
	}
	close(work)
	all.Wait()

	kept, err := net.Dial("tcp", addr) // whose requests end before it does
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = kept.Close() }()
	go func() { _, _ = io.Copy(io.Discard, kept) }()
	if _, err := io.WriteString(kept, streamsOf("HEAD", "/v1/log/x", "", 30)); err != nil {
		t.Fatal(err)
	}

	var l *boundListener
	for deadline := time.Now().Add(time.Minute); l == nil; time.Sleep(50 * time.Millisecond) {
		got, err := client.Get("http://" + addr + "/listener")
		if err == nil {
			_ = got.Body.Close()
		}
		select {
		case l = <-probed:
		default: // while connections are left that clients have closed there may be no place
			if time.Now().After(deadline) {
				t.Fatalf("/listener: %v, %v", got, err)
			}
		}
	}
	left := func() (all string) {
		app.mu.Lock()
		defer app.mu.Unlock()
		for service, of := range app.byName {
			for kind, g := range map[string]*gate{"common": of.common, "quick": of.quick, "known": of.known, "crowd": of.crowd, "long": of.long} {
				g.mu.Lock()
				all += leftOf(service+", "+kind, &g.clients)
				if g.taken+g.waiting != 0 {
					all += fmt.Sprintf("%s, %s: %d taken, %d wait\n", service, kind, g.taken, g.waiting)
				}
				g.mu.Unlock()
			}
		}
		app.bodies.mu.Lock()
		defer app.bodies.mu.Unlock()
		all += leftOf("bodies", &app.bodies.clients)
		l.mu.Lock()
		defer l.mu.Unlock()
		all += leftOf("connections", &l.clients) + leftOf("streams", &l.requesting)
		if l.open != 0 || l.streams != 0 || len(l.refusing) != 0 {
			all += fmt.Sprintf("%d open, %d streams, %d being refused\n", l.open, l.streams, len(l.refusing))
		}
		return all
	}
	requests := func() string {
		l.mu.Lock()
		defer l.mu.Unlock()
		return leftOf("streams", &l.requesting)
	}
	for deadline := time.Now().Add(time.Minute); requests() != "" && time.Now().Before(deadline); {
		time.Sleep(50 * time.Millisecond)
	}
	if what := requests(); what != "" {
		t.Errorf("counted beside a connection whose requests were canceled:\n%s", what)
	}
	_ = kept.Close()
	for deadline := time.Now().Add(time.Minute); left() != "" && time.Now().Before(deadline); {
		time.Sleep(50 * time.Millisecond)
	}
	if what := left(); what != "" {
		t.Errorf("counted after %d clients have hung up:\n%s", each*len(phases), what)
	}
}
