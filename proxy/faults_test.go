package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestFault_AnAbsentServiceIsABadGateway(t *testing.T) {
	t.Parallel()
	h := openSite(t, nil)
	h.verifier.Close()
	h.app.Close()
	english(t, h.request(t, "POST", "/v1/verify/chain-transaction", "{}"), 502, "service_unavailable", true)
	english(t, h.request(t, "GET", "/.well-known/receipt-signing-key.json", ""), 502, "service_unavailable", true)
	german(t, h.request(t, "GET", "/api/v1/lists", "", "Cookie", "svc.sid=member"), 502)
	h.auth.Close()
	german(t, h.request(t, "POST", "/api/v1/auth/login", "{}"), 502)
}

func TestFault_AHangingServiceIsAGatewayTimeout(t *testing.T) {
	t.Parallel()
	leave := make(chan struct{})
	hang := func(http.ResponseWriter, *http.Request) { <-leave }
	auth, verifier := stand(t, "", hang), stand(t, "", hang)
	t.Cleanup(func() { close(leave) })
	h := openSite(t, map[string]string{
		"AUTH_UPSTREAM": auth.addr(), "VERIFIER_UPSTREAM": verifier.addr(), "AUTH_TIMEOUT": "300ms", "VERIFIER_TIMEOUT": "300ms",
	})
	german(t, h.request(t, "POST", "/api/v1/auth/login", "{}"), 504)
	german(t, h.request(t, "GET", "/api/v1/lists", ""), 504)
	english(t, h.request(t, "POST", "/v1/verify/chain-transaction", "{}"), 504, "service_timeout", true)
	if n := len(verifier.received()); n != 1 {
		t.Errorf("a paid call was sent %d times", n)
	}
}

func TestFault_AHangUpIsABadGatewayAndNoSecondCall(t *testing.T) {
	t.Parallel()
	verifier := stand(t, "", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	h := openSite(t, map[string]string{"VERIFIER_UPSTREAM": verifier.addr()})
	english(t, h.request(t, "POST", "/v1/verify/chain-transaction", "{}"), 502, "service_unavailable", true)
	if n := len(verifier.received()); n != 1 {
		t.Errorf("a paid call was sent %d times", n)
	}
}

func TestFault_ARequestWaitsForARestart(t *testing.T) {
	t.Parallel()
	addr := "127.0.0.1:" + freePort(t)
	h := openSite(t, map[string]string{"AUTH_UPSTREAM": addr})
	time.AfterFunc(500*time.Millisecond, func() {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Error(err)
			return
		}
		restarted := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
		_ = restarted.Listener.Close()
		restarted.Listener = l
		restarted.Start()
		t.Cleanup(restarted.Close)
	})
	if got := h.request(t, "POST", "/api/v1/auth/login", "the body"); got.StatusCode != 200 || got.body != "the body" {
		t.Errorf("got %d %s", got.StatusCode, got.body)
	}
}

func TestFault_OneOfSeveralReplicasMayBeAway(t *testing.T) {
	t.Parallel()
	one := stand(t, "one", nil)
	h := openSite(t, map[string]string{"AUTH_UPSTREAM": one.addr() + " 127.0.0.1:" + freePort(t)})
	for range 10 {
		if got := h.request(t, "POST", "/api/v1/auth/login", "{}"); got.body != "one" {
			t.Errorf("got %d %s", got.StatusCode, got.body)
		}
	}
}

// No client can make a service unavailable to others.
func TestFault_AFailedRequestTakesNoServiceFromOthers(t *testing.T) {
	t.Parallel()
	auth := stand(t, "auth", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/auth/fail" {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, "auth")
	})
	h := openSite(t, map[string]string{"AUTH_UPSTREAM": auth.addr()})
	h.request(t, "POST", "/api/v1/auth/fail", "{}")
	h.request(t, "POST", "/api/v1/auth/login", strings.Repeat("x", 2<<20))
	started := time.Now()
	got := h.request(t, "POST", "/api/v1/auth/login", "{}")
	if took := time.Since(started); got.body != "auth" || took > time.Second {
		t.Errorf("got %d %s after %s", got.StatusCode, got.body, took)
	}
}

func TestBody_TooLargeGetsTheServicesOwnAnswer(t *testing.T) {
	t.Parallel()
	refuse := func(limit int64, status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit)); err != nil {
				http.Error(w, "own answer", status)
			}
		}
	}
	h := openSite(t, map[string]string{
		"AUTH_UPSTREAM":     stand(t, "", refuse(64<<10, 413)).addr(),
		"VERIFIER_UPSTREAM": stand(t, "", refuse(16<<10, 400)).addr(),
	})
	for range 20 {
		for _, size := range []int{65 << 10, 500_000, 999_000} {
			body := strings.Repeat("x", size)
			if got := h.request(t, "POST", "/api/v1/auth/login", body); got.StatusCode != 413 || got.body != "own answer\n" {
				t.Errorf("auth, %d bytes: %d %s", size, got.StatusCode, got.body)
			}
			if got := h.request(t, "POST", "/v1/verify/chain-transaction", body); got.StatusCode != 400 || got.body != "own answer\n" {
				t.Errorf("verifier, %d bytes: %d %s", size, got.StatusCode, got.body)
			}
		}
	}
}

func TestBody_FarTooLargeIsRefusedByTheProxy(t *testing.T) {
	t.Parallel()
	h := openSite(t, nil)
	large := strings.Repeat("x", 1_000_001)
	german(t, h.request(t, "POST", "/api/v1/auth/login", large), 413)
	english(t, h.request(t, "POST", "/v1/verify/chain-transaction", large), 400, "invalid_request", false)
	english(t, h.request(t, "POST", "/health", large), 413, "too_large", false)
	if n := len(h.auth.received()) + len(h.verifier.received()); n != 0 {
		t.Errorf("%d requests arrived", n)
	}
	// A body without a length is counted as it comes.
	german(t, h.send(t, "POST", "/api/v1/auth/login", io.LimitReader(zeros{}, 1_000_001)), 413)
	english(t, h.send(t, "POST", "/v1/verify/chain-transaction", io.LimitReader(zeros{}, 1_000_001)), 400, "invalid_request", false)
}
