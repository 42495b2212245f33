package edge

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// A connection to an application with another key is none, so that auth is not told of one before the key is looked at.
// It is not parallel, because caddy.ProvisionContext sets what the whole process has by default.
func TestAppTransport_AnotherKeyStaysNotedUntilItIsTheRightOne(t *testing.T) {
	app := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(app.Close)
	addr := strings.TrimPrefix(app.URL, "https://")
	ctx, err := caddy.ProvisionContext(&caddy.Config{
		Admin: &caddy.AdminConfig{Disabled: true},
		AppsRaw: caddy.ModuleMap{"edge_apps": fmt.Appendf(nil,
			`{"mode":"lan","to":[%q],"auth":["127.0.0.1:9"],"file":%q}`, addr, filepath.Join(t.TempDir(), "apps.json"))},
	})
	if err != nil {
		t.Fatal(err)
	}
	transport := &AppTransport{App: "photos", Pin: strings.Repeat("0", 64)}
	if err := transport.Provision(ctx); err != nil {
		t.Fatal(err)
	}
	told := func() string {
		transport.apps.mu.Lock()
		defer transport.apps.mu.Unlock()
		return transport.apps.faults["photos"]
	}
	get := func() error {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, app.URL, nil)
		answer, err := transport.HTTPTransport.Transport.RoundTrip(r)
		if err == nil {
			_ = answer.Body.Close()
		}
		return err
	}
	if err := get(); err == nil || told() != skipCertificate {
		t.Fatalf("%v, told %q", err, told())
	}
	conn, err := transport.dial(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if told() != skipCertificate {
		t.Errorf("connected, and told %q", told())
	}
	sum := sha256.Sum256(app.Certificate().RawSubjectPublicKeyInfo)
	transport.Pin = hex.EncodeToString(sum[:])
	if err := get(); err != nil || told() != "" {
		t.Errorf("the right key: %v, told %q", err, told())
	}
}
