package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// readyPath is what the proxy requests from each replica.
const readyPath = "/internal/ready"

// replica is a stand-in that answers its name and the request's body, and can be
// set to leave or to drop every request that it got.
type replica struct {
	*upstream
	leaves, drops atomic.Bool
}

func standReplica(t *testing.T, name string) *replica {
	t.Helper()
	r := &replica{}
	r.upstream = stand(t, name, func(w http.ResponseWriter, req *http.Request) {
		switch {
		case req.URL.Path == readyPath && r.leaves.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		case req.URL.Path == readyPath:
		case r.drops.Load():
			panic(http.ErrAbortHandler)
		default:
			body, _ := io.ReadAll(req.Body)
			_, _ = io.WriteString(w, name+" "+string(body))
		}
	})
	return r
}

// requests counts what came from clients.
func (r *replica) requests() (n int) {
	for _, req := range r.received() {
		if req.URL.Path != readyPath {
			n++
		}
	}
	return n
}

// pair opens a proxy before two replicas of each service.
func pair(t *testing.T, separator string) (*server, [2]*replica) {
	t.Helper()
	both := [2]*replica{standReplica(t, "first"), standReplica(t, "second")}
	addrs := both[0].addr() + separator + both[1].addr()
	return open(t, map[string]string{"AUTH_UPSTREAM": addrs, "VERIFIER_UPSTREAM": addrs}), both
}

func TestReplicas_AreAskedInTurn(t *testing.T) {
	t.Parallel()
	for _, separator := range []string{" ", ",", " , "} {
		d, both := pair(t, separator)
		for range 6 {
			d.request(t, "GET", "/api/v1/auth/me", "")
		}
		if a, b := both[0].requests(), both[1].requests(); a != 3 || b != 3 {
			t.Errorf("separated by %q: %d and %d of 6 requests", separator, a, b)
		}
	}
}

func TestReplicas_OneAddressIsNotCheckedForReadiness(t *testing.T) {
	t.Parallel()
	only := standReplica(t, "only")
	only.leaves.Store(true)
	d := open(t, map[string]string{"AUTH_UPSTREAM": only.addr(), "VERIFIER_UPSTREAM": only.addr()})
	time.Sleep(3 * time.Second)
	if got := d.request(t, "GET", "/health", ""); got.StatusCode != http.StatusOK || len(only.received()) != 1 {
		t.Errorf("%d after %d requests", got.StatusCode, len(only.received()))
	}
}

func TestReplicas_WhatOneDidNotGetGoesToAnother(t *testing.T) {
	t.Parallel()
	d, both := pair(t, " ")
	both[0].Close()
	for i := range 20 {
		method, path := "GET", "/api/v1/auth/me"
		if i%2 == 0 {
			method, path = "POST", "/v1/verify/chain-transaction"
		}
		if got := d.request(t, method, path, "a body"); got.StatusCode != http.StatusOK || got.body != "second a body" {
			t.Errorf("%s: %d %q", method, got.StatusCode, got.body)
		}
	}
}

func TestReplicas_OnlyWhatIsSafeIsSentAgain(t *testing.T) {
	t.Parallel()
	d, both := pair(t, " ")
	both[0].drops.Store(true)
	for range 4 {
		for _, method := range []string{"GET", "HEAD"} {
			if got := d.request(t, method, "/api/v1/auth/me", ""); got.StatusCode != http.StatusOK {
				t.Errorf("%s: %d", method, got.StatusCode)
			}
		}
	}
	for _, method := range []string{"POST", "PATCH", "DELETE"} {
		var lost int
		before := both[0].requests() + both[1].requests()
		for range 4 {
			if got := d.request(t, method, "/api/v1/auth/users", "{}"); got.StatusCode == http.StatusBadGateway {
				lost++
			}
		}
		if arrived := both[0].requests() + both[1].requests() - before; arrived != 4 || lost != 2 {
			t.Errorf("4 times %s: %d arrived, %d were lost", method, arrived, lost)
		}
	}
}

func TestReplicas_OneThatLeavesGetsNothingUntilItIsBack(t *testing.T) {
	t.Parallel()
	d, both := pair(t, " ")
	both[0].leaves.Store(true)
	time.Sleep(3500 * time.Millisecond)
	before := both[0].requests()
	for range 10 {
		if got := d.request(t, "POST", "/api/v1/auth/login", "{}"); got.body != "second {}" {
			t.Errorf("%d %q", got.StatusCode, got.body)
		}
	}
	if got := both[0].requests() - before; got != 0 {
		t.Errorf("it got %d requests", got)
	}
	both[0].leaves.Store(false)
	time.Sleep(2500 * time.Millisecond)
	for range 10 {
		d.request(t, "GET", "/api/v1/auth/me", "")
	}
	if both[0].requests() == before {
		t.Error("it is back and gets nothing")
	}
}

// A client that ends its bodies too early must not shut the replicas out.
func TestReplicas_BrokenRequestsTakeNoneOut(t *testing.T) {
	t.Parallel()
	d, _ := pair(t, " ")
	for range 10 {
		d.send(t, "POST", "/api/v1/auth/login", io.MultiReader(strings.NewReader(strings.Repeat("x", 2<<20))))
	}
	if got := d.request(t, "POST", "/api/v1/auth/login", "{}"); got.StatusCode != http.StatusOK {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
}

func TestReplicas_WithoutAnyTheServiceIsAway(t *testing.T) {
	t.Parallel()
	d, both := pair(t, " ")
	both[0].Close()
	both[1].Close()
	time.Sleep(3500 * time.Millisecond) // known to be away
	for _, path := range []string{"/api/v1/auth/me", "/health"} {
		got := d.request(t, "GET", path, "")
		var body struct {
			Code int `json:"code"`
		}
		if err := json.Unmarshal([]byte(got.body), &body); err != nil || got.StatusCode != http.StatusBadGateway || body.Code != got.StatusCode || got.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %q %v", path, got.StatusCode, got.body, err)
		}
	}
}
