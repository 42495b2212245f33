package main

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A name as SITE_ADDRESS is all that TLS needs. The test's file differs from the
// built-in one in one line: port 80 is not for tests.
func TestANameGetsTLSByItself(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "Caddyfile")
	text := strings.Replace(configuration, "admin off", "admin off\n\tauto_https disable_redirects", 1)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	verifier := stand(t, "verifier", nil)
	settings := map[string]string{"SITE_ADDRESS": "localhost:PORT", "VERIFIER_UPSTREAM": verifier.addr()}
	d := open(t, settings, "run", "--config", file, "--adapter", "caddyfile")
	transport := &http.Transport{
		ForceAttemptHTTP2: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, network, d.addr)
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	got := overTLS(t, transport, d, "/health")
	if got.StatusCode != 200 || got.body != "verifier" || got.ProtoMajor != 2 {
		t.Errorf("got %s %d %s", got.Proto, got.StatusCode, got.body)
	}
	if proto := verifier.last(t).Header.Get("X-Forwarded-Proto"); proto != "https" {
		t.Errorf("the service got %q", proto)
	}
	for _, path := range []string{"/health", "/nothing"} {
		if got := overTLS(t, transport, d, path).Header.Get("Strict-Transport-Security"); got != "max-age=31536000" {
			t.Errorf("%s: Strict-Transport-Security is %q", path, got)
		}
	}
}

// overTLS sends requests until the proxy has its certificate.
func overTLS(t *testing.T, transport http.RoundTripper, d *server, path string) answer {
	t.Helper()
	url := "https://localhost:" + d.addr[strings.LastIndex(d.addr, ":")+1:] + path
	for deadline := time.Now().Add(20 * time.Second); ; {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := transport.RoundTrip(req)
		if err == nil {
			_ = resp.Body.Close()
			return roundTrip(t, transport, req)
		}
		if time.Now().After(deadline) {
			t.Fatalf("no TLS: %v\n%s", err, d.log)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
