package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestOverload_AServiceGetsNoMoreThanItMayHave(t *testing.T) {
	t.Parallel()
	leave := make(chan struct{})
	var current, most atomic.Int64
	slow := func(http.ResponseWriter, *http.Request) {
		most.Store(max(most.Load(), current.Add(1)))
		<-leave
		current.Add(-1)
	}
	auth, verifier := stand(t, "", slow), stand(t, "", slow)
	h := openSite(t, map[string]string{
		"AUTH_UPSTREAM": auth.addr(), "VERIFIER_UPSTREAM": verifier.addr(), "AUTH_MAX_REQUESTS": "16", "VERIFIER_MAX_REQUESTS": "4",
	})
	var all sync.WaitGroup
	for _, path := range []string{"/api/v1/auth/me", "/api/v1/lists", "/v1/things", "/health"} { // the two quick requests of strangers that each service may have
		all.Go(func() { h.request(t, "GET", path, "") })
	}
	for current.Load() < 4 {
		time.Sleep(10 * time.Millisecond)
	}
	// The guard's checks count, and no client waits longer than a second.
	for range 5 {
		for _, path := range []string{"/api/v1/auth/me", "/api/v1/lists", "/v1/things"} {
			all.Go(func() {
				started := time.Now()
				got := h.request(t, "GET", path, "")
				if path == "/v1/things" {
					english(t, got, 503, "service_unavailable", true)
				} else {
					german(t, got, 503)
				}
				if took := time.Since(started); took > 2*time.Second {
					t.Errorf("%s: refused after %s", path, took)
				}
			})
		}
	}
	time.Sleep(time.Second)
	close(leave)
	all.Wait()
	if most.Load() > 4 {
		t.Errorf("both services had %d requests at once", most.Load())
	}
	if got := h.request(t, "GET", "/api/v1/auth/me", ""); got.StatusCode != http.StatusOK {
		t.Errorf("afterwards: %d", got.StatusCode)
	}
}

// Requests that wait for a password's hash or a facilitator are many at once, and others
// come more often than a service can answer them.
func TestOverload_NoKindKeepsOutTheOther(t *testing.T) {
	t.Parallel()
	me, lists, add := []string{"GET", "/api/v1/auth/me"}, []string{"GET", "/api/v1/lists"}, []string{"POST", "/api/v1/lists"}
	login, logout := []string{"POST", "/api/v1/auth/login"}, []string{"DELETE", "/api/v1/auth/session"}
	exchange, revoke := []string{"POST", "/pforte/oidc/token"}, []string{"POST", "/pforte/oidc/revoke"}
	unpaid, health := []string{"POST", "/v1/verify"}, []string{"GET", "/health"}
	empty := []string{"POST", "/v1/verify", "X-Payment", ""}
	paid, paidV1 := []string{"POST", "/v1/verify", "Payment-Signature", "e30="}, []string{"POST", "/v1/verify", "x-payment", "e30="}
	tool, log, final := []string{"POST", "/mcp"}, []string{"GET", "/v1/log/1/checkpoint"}, []string{"GET", "/v1/finality/ethereum/0x00"}
	for name, test := range map[string]struct {
		full            []string
		refused, served [][]string
	}{
		"the guard and /me":  {me, [][]string{me, lists, add}, [][]string{login, logout, exchange, unpaid}},
		"logins":             {login, [][]string{login, logout}, [][]string{me, lists, add, exchange, revoke, unpaid}},
		"exchanges of codes": {exchange, [][]string{exchange, revoke}, [][]string{me, lists, add, login, logout, unpaid}},
		"unpaid calls":       {unpaid, [][]string{unpaid, empty, health}, [][]string{paid, paidV1, tool, log, final, me}},
		"paid calls":         {paid, [][]string{paid, paidV1}, [][]string{unpaid, empty, health, tool, log, final, me}},
		"tools":              {tool, [][]string{tool}, [][]string{unpaid, health, paid, paidV1, log, final, me}},
		"reads of the log":   {log, [][]string{log}, [][]string{unpaid, health, paid, paidV1, tool, final, me}},
		"proofs of finality": {final, [][]string{final}, [][]string{unpaid, health, paid, paidV1, tool, log, me}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			leave := make(chan struct{})
			service := stand(t, "", func(_ http.ResponseWriter, r *http.Request) {
				if r.URL.RawQuery == "wait" {
					<-leave
				}
			}).addr()
			h := openSite(t, map[string]string{"AUTH_UPSTREAM": service, "VERIFIER_UPSTREAM": service, "AUTH_MAX_REQUESTS": "1", "VERIFIER_MAX_REQUESTS": "1"})
			defer h.keepFull(t, leave, test.full[0], test.full[1]+"?wait", test.full[2:]...)()
			ask := h.kept(t, h.url)
			for range 3 { // the first is refused late, the last early
				for _, r := range test.refused {
					if got := ask(r[0], r[1], r[2:]...); got.StatusCode != http.StatusServiceUnavailable {
						t.Errorf("%q: %d although there is no place", r, got.StatusCode)
					}
				}
				for _, r := range test.served {
					if got := ask(r[0], r[1], r[2:]...); got.StatusCode == http.StatusServiceUnavailable {
						t.Errorf("%q has no place", r)
					}
				}
			}
		})
	}
}

// A client may announce a body that the proxy does not wait for, and a service need
// not read it to answer.
func TestOverload_ALongBodyDoesNotPassTheBound(t *testing.T) {
	t.Parallel()
	leave := make(chan struct{})
	var current, most atomic.Int64
	auth := stand(t, "", func(http.ResponseWriter, *http.Request) {
		most.Store(max(most.Load(), current.Add(1)))
		<-leave
		current.Add(-1)
	})
	h := openSite(t, map[string]string{"AUTH_UPSTREAM": auth.addr(), "AUTH_MAX_REQUESTS": "8"})
	const requests = 24
	var refused atomic.Int64
	var all sync.WaitGroup
	for range requests {
		all.Go(func() {
			if h.request(t, "GET", "/api/v1/auth/me", strings.Repeat("x", 70000)).StatusCode == http.StatusServiceUnavailable {
				refused.Add(1)
			}
		})
	}
	time.Sleep(time.Second)
	if got := h.request(t, "GET", "/health", ""); got.StatusCode != http.StatusOK {
		t.Errorf("the other service: %d", got.StatusCode)
	}
	close(leave)
	all.Wait()
	if most.Load() > 8 || refused.Load() == 0 {
		t.Errorf("%d at once, %d refused of %d", most.Load(), refused.Load(), requests)
	}
}

// A connection for each request would cost more than the request.
func TestOverload_ConnectionsAreUsedAgain(t *testing.T) {
	t.Parallel()
	var opened atomic.Int64
	service := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Auth-User-Id", "7")
		w.Header().Set("X-Auth-Username", "anna")
		w.Header().Set("X-Auth-Role", "member")
	}))
	service.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	service.Start()
	t.Cleanup(service.Close)
	addr := service.Listener.Addr().String()
	h := openSite(t, map[string]string{"AUTH_UPSTREAM": addr, "VERIFIER_UPSTREAM": addr})
	const clients, requests = 32, 100
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for range requests {
				for _, path := range []string{"/api/v1/auth/me", "/api/v1/lists", "/health"} {
					h.request(t, "GET", path, "")
				}
			}
		})
	}
	all.Wait()
	// One pool for auth, one for the guard and one for the verifier.
	if n := opened.Load(); n > 3*clients {
		t.Errorf("%d connections for %d requests of %d clients", n, 3*clients*requests, clients)
	}
}

func TestOverload_AConnectionTooManyIsRefused(t *testing.T) {
	t.Parallel()
	h := openSite(t, map[string]string{"MAX_CONNECTIONS": "3"})
	const text = "GET /api/v1/auth/me HTTP/1.1\r\nHost: x\r\n\r\n"
	var open []net.Conn
	for i := range 5 {
		conn, resp := h.openStream(t, text)
		open = append(open, conn)
		if want := []int{200, 503}[i/3]; resp.StatusCode != want || (want == 503) != (resp.Header.Get("Retry-After") != "") {
			t.Errorf("connection %d: %d %s", i, resp.StatusCode, resp.Header)
		}
	}
	_ = open[0].Close()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, resp := h.openStream(t, text); resp.StatusCode == http.StatusOK {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a place that is free is not given")
		}
	}
}

// kept returns requests over one connection, which no other request uses.
func (d *server) kept(t *testing.T, url string) func(method, path string, headers ...string) answer {
	t.Helper()
	transport := &http.Transport{MaxConnsPerHost: 1}
	t.Cleanup(transport.CloseIdleConnections)
	alone := &server{url: url, transport: transport}
	return func(method, path string, headers ...string) answer {
		t.Helper()
		return alone.request(t, method, path, "", headers...)
	}
}

// keepFull sends one request to a service whose bound is one, and has always one more wait,
// for half a second, until end is called, which closes leave: then the service answers.
func (d *server) keepFull(t *testing.T, leave chan struct{}, method, path string, headers ...string) (end func()) {
	t.Helper()
	done := make(chan struct{})
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					d.request(t, method, path, "", headers...)
				}
			}
		})
	}
	time.Sleep(200 * time.Millisecond)
	return func() {
		close(done)
		close(leave)
		all.Wait()
	}
}

// While auth is full, a request is refused before it is read as one, and must meet what
// it would have met then.
func TestEarly_RefusalIsThatOfTheRoute(t *testing.T) {
	t.Parallel()
	leave := make(chan struct{})
	auth := stand(t, "", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery == "wait" {
			<-leave
		}
		guard(w, r)
	})
	h := openSite(t, map[string]string{"AUTH_UPSTREAM": auth.addr(), "AUTH_MAX_REQUESTS": "1", "TRUSTED_PROXIES": "127.0.0.1"})
	const path = "/api/v1/auth/me"
	occupy := func() {
		t.Helper()
		for range 2 { // one that auth has, and one that waits
			go h.request(t, "GET", path+"?wait", "")
			time.Sleep(100 * time.Millisecond)
		}
	}
	ask := h.kept(t, h.url)
	logged := func() int { return strings.Count(h.log.String(), `"handled request"`) }

	ask("GET", path) // the connection's first
	occupy()
	late := ask("GET", path)
	lines := logged()
	for _, id := range []string{"mine-1", "mine-2", "", "not an id"} {
		early := ask("GET", path+"?id="+url.QueryEscape(id), "X-Request-Id", id)
		german(t, early, http.StatusServiceUnavailable)
		if got := early.Header.Get("X-Request-Id"); strings.HasPrefix(id, "mine") != (got == id) {
			t.Errorf("the id is %q, sent as %q", got, id)
		}
		for _, answer := range []answer{late, early} {
			answer.Header.Del("Date") // RFC 9110, section 6.6.1: need not be in a 5xx
			answer.Header.Del("X-Request-Id")
		}
		if early.body != late.body || !reflect.DeepEqual(early.Header, late.Header) {
			t.Errorf("early %s %s, late %s %s", early.Header, early.body, late.Header, late.body)
		}
	}
	// The line of the request before may come late, and net/http may have begun to read the first.
	if got := logged() - lines; got > 2 {
		t.Errorf("%d requests were logged, so they were not refused early", got)
	}
	// What has another route, or another answer, goes its way.
	if got := ask("HEAD", path); got.StatusCode != http.StatusServiceUnavailable || got.body != "" {
		t.Errorf("HEAD: %d %q", got.StatusCode, got.body)
	}
	if got := ask("GET", "/health"); got.StatusCode != http.StatusOK {
		t.Errorf("the other service: %d", got.StatusCode)
	}
	for range 2 {
		german(t, ask("GET", "/api/v1/lists"), http.StatusServiceUnavailable)
	}
	metrics := (&server{url: h.admin}).request(t, "GET", "/metrics", "").body
	if !strings.Contains(metrics, "\nedge_refused_requests_total{kind=\"quick\",service=\"auth\"} 8\n") {
		t.Error("eight refusals are not counted as eight")
	}
	close(leave)
	for deadline := time.Now().Add(10 * time.Second); ask("GET", path).StatusCode != http.StatusOK; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it is refused although auth has places")
		}
	}
	if got := ask("GET", "/api/v1/lists", "Cookie", "svc.sid=member"); got.StatusCode != http.StatusOK {
		t.Errorf("behind the guard: %d", got.StatusCode)
	}
	if !strings.Contains(h.log.String(), `"requests were refused: the service has as many as it may have","service":"auth"`) {
		t.Error("no line tells of the refusals")
	}
}

// A refusal must never be taken for the answer to another request of its connection.
func TestEarly_EachRequestOfAFullServiceHasItsAnswer(t *testing.T) {
	t.Parallel()
	auth := stand(t, "", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Millisecond)
		_, _ = io.Copy(w, r.Body)
	})
	h := openSite(t, map[string]string{"AUTH_UPSTREAM": auth.addr(), "AUTH_MAX_REQUESTS": "4"})
	const clients, requests = 100, 100
	var served, refused atomic.Int64
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			conn, err := net.DialTimeout("tcp", h.addr, 5*time.Second)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			_ = conn.SetDeadline(time.Now().Add(60 * time.Second))
			in := bufio.NewReader(conn)
			for i := range requests {
				id := fmt.Sprintf("%d-%d", client, i)
				text := fmt.Sprintf("POST /api/v1/auth/echo HTTP/1.1\r\nHost: x\r\nX-Request-Id: %s\r\nContent-Length: %d\r\n\r\n%s", id, len(id), id)
				for _, part := range []string{text[:len(text)*(i%3)/3], text[len(text)*(i%3)/3:]} { // in one or two reads
					if _, err := io.WriteString(conn, part); err != nil {
						t.Error(err)
						return
					}
				}
				resp, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Error(err)
					return
				}
				body, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				switch {
				case err != nil || resp.Header.Get("X-Request-Id") != id:
					t.Errorf("%s is answered as %s: %v", id, resp.Header.Get("X-Request-Id"), err)
					return
				case resp.StatusCode == http.StatusOK && string(body) == id:
					served.Add(1)
				case resp.StatusCode == http.StatusServiceUnavailable && strings.Contains(string(body), "überlastet"):
					refused.Add(1)
				default:
					t.Errorf("%s: %s %s", id, resp.Status, body)
				}
			}
		})
	}
	all.Wait()
	if served.Load() == 0 || refused.Load() == 0 {
		t.Errorf("%d served, %d refused", served.Load(), refused.Load())
	}
}

// A route is refused early as it was before, so what is noted must be of the route
// alone: neither of a user, nor of another path, nor of another server.
func TestEarly_RefusalIsOfItsRouteAlone(t *testing.T) {
	t.Parallel()
	leave := make(chan struct{})
	verifier := stand(t, "", func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			<-leave
		}
	})
	auth := stand(t, "", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Cookie") != "" {
			w.Header().Set("Set-Cookie", "svc.sid=renewed")
		}
		guard(w, r)
	})
	h := openSite(t, map[string]string{"AUTH_UPSTREAM": auth.addr(), "VERIFIER_UPSTREAM": verifier.addr(), "VERIFIER_MAX_REQUESTS": "1", "ROUTES": `
handle /v1/mine {
	import require_login
	import verifier
}
handle /v1/shared {
	header Access-Control-Allow-Origin {header.Origin}
	import verifier
}
handle_path /prefix/* {
	import verifier
}`})
	site, admin := h.kept(t, h.url), h.kept(t, h.admin)
	get := func(from func(method, path string, headers ...string) answer, path string, headers ...string) answer {
		t.Helper()
		return from("GET", path, append(headers, "Host", "x")...)
	}
	get(site, "/nothing") // the connections' first
	get(admin, "/nothing")
	defer h.keepFull(t, leave, "PUT", "/v1/x")()

	if got := get(site, "/v1/mine", "Cookie", "svc.sid=member"); got.StatusCode != http.StatusServiceUnavailable || got.Header.Get("Set-Cookie") == "" {
		t.Errorf("a user: %d %s", got.StatusCode, got.Header)
	}
	for _, origin := range []string{"https://a.example", "https://b.example", "https://c.example"} {
		if got := get(site, "/v1/shared", "Origin", origin); got.StatusCode != http.StatusServiceUnavailable || got.Header.Get("Access-Control-Allow-Origin") != origin {
			t.Errorf("a page of %s: %d %s", origin, got.StatusCode, got.Header)
		}
	}
	for _, path := range []string{"/prefix/", "/prefix/livez", "/v1/things"} {
		if got := get(site, path); got.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s: %d", path, got.StatusCode)
		}
	}
	for range 3 { // net/http may have begun to read the first
		if got := get(site, "/v1/mine"); got.StatusCode != http.StatusUnauthorized || got.Header.Get("Set-Cookie") != "" {
			t.Errorf("a client without a session after a user: %d %s", got.StatusCode, got.Header)
		}
		if got := get(site, "/"); got.StatusCode != http.StatusOK {
			t.Errorf("a path that no service has: %d", got.StatusCode)
		}
		if got := get(admin, "/livez"); got.StatusCode != http.StatusOK {
			t.Errorf("the check of another server: %d", got.StatusCode)
		}
		if got := get(admin, "/v1/things"); got.StatusCode != http.StatusNotFound {
			t.Errorf("the same path of another server: %d", got.StatusCode)
		}
	}
}
