package main

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A wrong setting says what is wrong in one sentence, without a secret.
func TestTLS_WrongSettingsEndTheProgram(t *testing.T) {
	t.Parallel()
	const host, account = "home.example.org", `{"username":"u","password":"a secret","subdomain":"s"}`
	file := filepath.Join(t.TempDir(), "account")
	if err := os.WriteFile(file, []byte(`{"password":"a secret"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		settings map[string]string
		want     string
	}{
		{map[string]string{"TLS": "on"}, "TLS=on: it is auto, dns, internal or off"},
		{map[string]string{"TLS": "off", "SITE_ADDRESS": host}, "TLS=off: TRUSTED_PROXIES must have the address"},
		{map[string]string{"TLS": "off", "SITE_ADDRESS": "https://" + host, "TRUSTED_PROXIES": "192.0.2.1"}, "TLS=off: SITE_ADDRESS has https://"},
		{map[string]string{"TLS": "internal"}, "TLS=internal: SITE_ADDRESS must name a host"},
		{map[string]string{"TLS": "internal", "SITE_ADDRESS": "http://localhost"}, "TLS=internal: SITE_ADDRESS must name a host"},
		{map[string]string{"TLS": "dns", "SITE_ADDRESS": host}, "TLS=dns: either ACMEDNS_SERVER or DNS_UPDATE_SERVER"},
		{map[string]string{"TLS": "dns", "SITE_ADDRESS": host, "ACMEDNS_SERVER": "https://a.example", "DNS_UPDATE_SERVER": "b.example"}, "TLS=dns: either ACMEDNS_SERVER"},
		{map[string]string{"TLS": "dns", "SITE_ADDRESS": host, "ACMEDNS_SERVER": "https://a.example"}, "TLS=dns: ACMEDNS_ACCOUNT must be set"},
		{map[string]string{"TLS": "dns", "SITE_ADDRESS": host, "ACMEDNS_SERVER": "https://a.example", "ACMEDNS_ACCOUNT_FILE": "/nonexistent"}, "ACMEDNS_ACCOUNT_FILE: open /nonexistent"},
		{map[string]string{"TLS": "dns", "SITE_ADDRESS": host, "ACMEDNS_SERVER": "https://a.example", "ACMEDNS_ACCOUNT_FILE": file}, "ACMEDNS_ACCOUNT is not what the server answered"},
		{map[string]string{"TLS": "dns", "SITE_ADDRESS": host, "ACMEDNS_SERVER": "a.example", "ACMEDNS_ACCOUNT": account}, "ACMEDNS_SERVER is no URL"},
		{map[string]string{"TLS": "dns", "SITE_ADDRESS": host, "DNS_UPDATE_SERVER": "b.example", "DNS_UPDATE_KEY": "a secret"}, "DNS_UPDATE_KEY has not the form"},
	} {
		c.settings["ADMIN_PORT"] = freePort(t)
		out, err := program(t, c.settings).CombinedOutput()
		if err == nil || !bytes.Contains(out, []byte(c.want)) || bytes.Contains(out, []byte("a secret")) {
			t.Errorf("%v: %v\n%s", c.settings, err, out)
		}
	}
}

// Behind a proxy in front the site has no certificate, and that proxy alone says that a request came by https.
func TestTLSOff_IsPlainHTTPBehindAProxy(t *testing.T) {
	t.Parallel()
	for trusted, want := range map[string]string{"127.0.0.1": "https", "192.0.2.1": "http"} {
		verifier := stand(t, "verifier", nil)
		d := open(t, map[string]string{
			"TLS": "off", "SITE_ADDRESS": "home.example.org:PORT", "TRUSTED_PROXIES": trusted, "VERIFIER_UPSTREAM": verifier.addr(),
		})
		got := d.request(t, "GET", "/health", "", "Host", "home.example.org", "X-Forwarded-Proto", "https")
		if proto := verifier.last(t).Header.Get("X-Forwarded-Proto"); got.StatusCode != 200 || proto != want {
			t.Errorf("%s is trusted: %d, and the service got %q", trusted, got.StatusCode, proto)
		}
	}
}

// Who wants to trust the household's own authority gets its certificate, and reads the same fingerprint everywhere.
func TestTLSInternal_GivesOutTheRoot(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	d, transport := openTLSWith(t, stand(t, "", nil).addr(), port, map[string]string{"TLS": "internal"})
	file := overTLS(t, transport, d, "/pforte/root.crt")
	root, err := x509.ParseCertificate([]byte(file.body))
	if err != nil || file.Header.Get("Content-Type") != "application/x-x509-ca-cert" {
		t.Fatalf("%v %v", err, file.Header)
	}
	roots := x509.NewCertPool()
	roots.AddCert(root)
	conn, err := tls.Dial("tcp", d.addr, &tls.Config{RootCAs: roots, ServerName: "localhost"})
	if err != nil {
		t.Fatalf("who trusts it does not trust the site: %v", err)
	}
	_ = conn.Close()
	sum := sha256.Sum256(root.Raw)
	print := strings.ReplaceAll(fmt.Sprintf("% X", sum[:]), " ", ":")
	if n := strings.Count(d.log.String(), print); n != 1 {
		t.Errorf("the fingerprint is in the log %d times", n)
	}
	page := overTLS(t, transport, d, "/pforte/root")
	wantPage(t, page, 200, false, print, "Trust this household", root.Subject.CommonName)
	plain := &server{url: "http://127.0.0.1:" + port}
	wantPage(t, plain.request(t, "GET", "/pforte/root", "", "Host", "localhost", "Accept-Language", "de"), 200, false, print, "Diesem Haushalt vertrauen")
	if got := plain.request(t, "GET", "/pforte/root.crt", "", "Host", "localhost"); got.body != file.body {
		t.Errorf("by http: %d", got.StatusCode)
	}
	if got := plain.request(t, "GET", "/pforte/", "", "Host", "localhost"); got.StatusCode != http.StatusPermanentRedirect {
		t.Errorf("another page by http: %d", got.StatusCode)
	}
}

// Where certificates are of a public authority, auth has these paths.
func TestTLS_WithoutAnAuthorityOfItsOwnHasNoRoot(t *testing.T) {
	t.Parallel()
	auth := stand(t, "auth", nil)
	d := open(t, map[string]string{"AUTH_UPSTREAM": auth.addr()})
	for _, path := range []string{"/pforte/root", "/pforte/root.crt"} {
		if got := d.request(t, "GET", path, ""); got.body != "auth" {
			t.Errorf("%s: %s", path, got.body)
		}
	}
	for address, want := range map[string]bool{
		"home.internal": true, "https://localhost:8443/x": true, "192.168.1.2": true, "[fd00::1]:8443": true, "home.fritz.local": true, "home.home.arpa": true,
		"home.example.org": false, "home.example.org:8443": false, ":8080": false, "http://localhost": false, "https://home.example.org": false,
	} {
		if got := isInternal(address); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
}
