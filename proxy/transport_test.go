package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Some clients leave before they get their answer.
func TestTransport_EveryAnswerIsThatOfItsRequest(t *testing.T) {
	t.Parallel()
	echo := stand(t, "", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Header.Get("X-Leaves") != "" {
			time.Sleep(20 * time.Millisecond)
		}
		if r.Method == http.MethodDelete {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		_, _ = fmt.Fprintf(w, "%s %s %s", r.Method, r.URL, body)
	})
	// Two hundred places for strangers: on a slow machine, waiting for one takes too long.
	h := openSite(t, map[string]string{"AUTH_UPSTREAM": echo.addr(), "AUTH_MAX_REQUESTS": "1600"})
	const clients, requests = 50, 40
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			for n := range requests {
				method := []string{"GET", "POST", "HEAD", "DELETE"}[n%4]
				path := fmt.Sprintf("/api/v1/auth/%d/%d", client, n)
				if client%4 == 0 {
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
					req, _ := http.NewRequestWithContext(ctx, method, h.url+path, strings.NewReader("left"))
					req.Header.Set("X-Leaves", "yes")
					if resp, err := ownTransport.RoundTrip(req); err == nil {
						_ = resp.Body.Close()
					}
					cancel()
					continue
				}
				body, want := "", ""
				switch method {
				case "POST":
					body = strings.Repeat("x", client*n)
					want = fmt.Sprintf("POST %s %s", path, body)
				case "GET":
					want = fmt.Sprintf("GET %s ", path)
				}
				begun := time.Now()
				if got := h.request(t, method, path, body); (got.StatusCode/100 != 2 || got.body != want) && !couldNotConnect(got, begun) {
					t.Errorf("%s %s: %d %.80s", method, path, got.StatusCode, got.body)
				}
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.Log(h.log)
	}
}

// standAt starts a service at an address, which may have had one before.
func standAt(t *testing.T, addr string, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	_ = s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func TestTransport_UsesNoClosedConnection(t *testing.T) {
	t.Parallel()
	addr := "127.0.0.1:" + freePort(t)
	var waiting sync.WaitGroup
	waiting.Add(10)
	first := standAt(t, addr, func(http.ResponseWriter, *http.Request) {
		waiting.Done()
		waiting.Wait() // so that there are ten connections
	})
	h := openSite(t, map[string]string{"AUTH_UPSTREAM": addr})
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() { h.request(t, "POST", "/api/v1/auth/login", "{}") })
	}
	all.Wait()
	first.Close()
	standAt(t, addr, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	for range 20 {
		if got := h.request(t, "POST", "/api/v1/auth/login", "the body"); got.StatusCode != http.StatusOK || got.body != "the body" {
			t.Errorf("%d %s", got.StatusCode, got.body)
		}
	}
}

func TestTransport_SendsASafeRequestAgain(t *testing.T) {
	t.Parallel()
	var drop atomic.Bool
	auth := stand(t, "", func(http.ResponseWriter, *http.Request) {
		if drop.CompareAndSwap(true, false) {
			panic(http.ErrAbortHandler)
		}
	})
	h := openSite(t, map[string]string{"AUTH_UPSTREAM": auth.addr()})
	for method, want := range map[string]int{"GET": 200, "HEAD": 200, "OPTIONS": 200, "POST": 502, "DELETE": 502} {
		h.request(t, "GET", "/api/v1/auth/me", "") // which leaves a connection
		drop.Store(true)
		if got := h.request(t, method, "/api/v1/auth/me", ""); got.StatusCode != want {
			t.Errorf("%s: %d", method, got.StatusCode)
		}
	}
}

func TestTransport_ARequestEndsWithItsClient(t *testing.T) {
	t.Parallel()
	entered, ended := make(chan struct{}), make(chan struct{})
	verifier := stand(t, "", func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(entered)
		<-r.Context().Done()
		close(ended)
	})
	h := openSite(t, map[string]string{"VERIFIER_UPSTREAM": verifier.addr()})
	conn := h.dial(t, 10*time.Second)
	if _, err := io.WriteString(conn, "POST /v1/verify/chain-transaction HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"); err != nil {
		t.Fatal(err)
	}
	<-entered
	_ = conn.Close()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("the service still works for it")
	}
}

func TestTransport_ABodyMayComeLaterThanTheHeaders(t *testing.T) {
	t.Parallel()
	verifier := stand(t, "", func(w http.ResponseWriter, _ *http.Request) {
		for range 3 {
			_, _ = io.WriteString(w, "part ")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(300 * time.Millisecond)
		}
	})
	h := openSite(t, map[string]string{"VERIFIER_UPSTREAM": verifier.addr(), "VERIFIER_TIMEOUT": "400ms"})
	if got := h.request(t, "POST", "/v1/verify/chain-transaction", "{}"); got.StatusCode != http.StatusOK || got.body != "part part part " {
		t.Errorf("%d %q", got.StatusCode, got.body)
	}
}

func TestTransport_InformationalAnswersArrive(t *testing.T) {
	t.Parallel()
	auth := stand(t, "", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		_, _ = io.WriteString(w, "the page")
	})
	h := openSite(t, map[string]string{"AUTH_UPSTREAM": auth.addr()})
	var hints []string
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(_ int, header textproto.MIMEHeader) error {
		hints = append(hints, header.Get("Link"))
		return nil
	}})
	req, err := http.NewRequestWithContext(ctx, "GET", h.url+"/api/v1/auth/me", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := roundTrip(t, ownTransport, req); got.body != "the page" || len(hints) != 1 || hints[0] != "</style.css>; rel=preload" {
		t.Errorf("%q after %q", got.body, hints)
	}
}

// speak starts a service that answers each request of a connection with what
// answer writes.
func speak(t *testing.T, answer func(conn net.Conn, r *http.Request)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				in := bufio.NewReader(conn)
				for {
					r, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					answer(conn, r)
				}
			}()
		}
	}()
	return l.Addr().String()
}

func TestTransport_WhatIsSentUnaskedIsNoAnswer(t *testing.T) {
	t.Parallel()
	const stray = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray"
	for _, later := range []bool{false, true} {
		sent := make(chan struct{}, 100)
		addr := speak(t, func(conn net.Conn, r *http.Request) {
			own := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(r.URL.Path), r.URL.Path)
			if !later {
				own += stray
			}
			_, _ = io.WriteString(conn, own)
			if later {
				time.Sleep(10 * time.Millisecond)
				_, _ = io.WriteString(conn, stray)
			}
			sent <- struct{}{}
		})
		h := openSite(t, map[string]string{"AUTH_UPSTREAM": addr})
		for n := range 5 {
			path := fmt.Sprintf("/api/v1/auth/%d", n)
			if got := h.request(t, "GET", path, ""); got.body != path {
				t.Errorf("later %v: %s is answered %d %q", later, path, got.StatusCode, got.body)
			}
			<-sent
		}
	}
}

func TestTransport_AnEndlessHeaderIsABadGateway(t *testing.T) {
	t.Parallel()
	addr := speak(t, func(conn net.Conn, _ *http.Request) {
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n")
		for line := "X-Long: " + strings.Repeat("x", 1000) + "\r\n"; ; {
			if _, err := io.WriteString(conn, line); err != nil {
				return
			}
		}
	})
	h := openSite(t, map[string]string{"VERIFIER_UPSTREAM": addr})
	english(t, h.request(t, "POST", "/v1/verify/chain-transaction", "{}"), 502, "service_unavailable", true)
}

func TestTransport_ALateAnswerCausesNoSecondRequest(t *testing.T) {
	t.Parallel()
	var got atomic.Int64
	auth := stand(t, "", func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/auth/users" {
			got.Add(1)
			<-r.Context().Done()
		}
	})
	// longer than the proxy tries to reach a service
	h := openSite(t, map[string]string{"AUTH_UPSTREAM": auth.addr(), "AUTH_TIMEOUT": "2500ms"})
	h.request(t, "GET", "/api/v1/auth/me", "") // which leaves a connection
	if resp := h.request(t, "GET", "/api/v1/auth/users", ""); resp.StatusCode != http.StatusGatewayTimeout || got.Load() != 1 {
		t.Errorf("%d after %d requests", resp.StatusCode, got.Load())
	}
}

func TestTransport_ReusesAConnectionAfterALongAnswer(t *testing.T) {
	t.Parallel()
	var opened atomic.Int64
	auth := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	auth.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	auth.Start()
	t.Cleanup(auth.Close)
	h := openSite(t, map[string]string{"AUTH_UPSTREAM": auth.Listener.Addr().String(), "AUTH_TIMEOUT": "1s"})
	for range 3 {
		if got := h.request(t, "GET", "/api/v1/auth/me", ""); got.StatusCode != http.StatusOK {
			t.Errorf("got %d", got.StatusCode)
		}
		time.Sleep(1200 * time.Millisecond)
	}
	if n := opened.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}
