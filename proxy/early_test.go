package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A service may answer before it has read the body. What is left of that body
// must never be read as the next request of the connection: behind another proxy
// that request would be in the name of another user.
func TestEarly_AnUnreadBodyIsNotTheNextRequest(t *testing.T) {
	t.Parallel()
	refuse := func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusTeapot) }
	h := openSite(t, map[string]string{
		"AUTH_UPSTREAM": stand(t, "", refuse).addr(), "VERIFIER_UPSTREAM": stand(t, "", refuse).addr(),
	})
	for range 20 {
		for _, path := range []string{"/api/v1/auth/login", "/api/v1/files", "/v1/verify/chain-transaction"} {
			for _, size := range []int{100_000, 300_000, 900_000} {
				twoRequests(t, h.server, path, size)
			}
		}
	}
}

// twoRequests sends a request with a long body and another one behind it, and
// wants the right answers: for the second one none when the connection ended.
func twoRequests(t *testing.T, d *server, path string, size int) {
	t.Helper()
	conn := d.dial(t, 10*time.Second)
	defer func() { _ = conn.Close() }()
	go func() {
		_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", path, size, strings.Repeat("x", size))
		_, _ = io.WriteString(conn, "GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n")
	}()
	r := bufio.NewReader(conn)
	for i, want := range []int{http.StatusTeapot, http.StatusNotFound} {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			if i == 0 {
				t.Errorf("%s, %d bytes: no answer: %v", path, size, err)
			}
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s, %d bytes: answer %d is %s", path, size, i+1, resp.Status)
		}
	}
}
