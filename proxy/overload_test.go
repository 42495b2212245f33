package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestAServiceGetsNoMoreRequestsThanItMayHave(t *testing.T) {
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
		"AUTH_UPSTREAM": auth.addr(), "VERIFIER_UPSTREAM": verifier.addr(), "AUTH_MAX_REQUESTS": "2", "VERIFIER_MAX_REQUESTS": "2",
	})
	var all sync.WaitGroup
	for _, path := range []string{"/api/v1/auth/me", "/api/v1/lists", "/v1/things", "/health"} { // two requests for each service
		all.Go(func() { h.request(t, "GET", path, "") })
	}
	for current.Load() < 4 {
		time.Sleep(10 * time.Millisecond)
	}
	// The guard's checks count, and no client waits longer than a second.
	for range 3 {
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

// A client may announce a body that the proxy does not wait for, and a service need
// not read it to answer.
func TestALongBodyDoesNotPassTheBound(t *testing.T) {
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
func TestConnectionsToTheServicesAreUsedAgain(t *testing.T) {
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

func TestAConnectionTooManyIsRefused(t *testing.T) {
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
