package main

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
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
		{map[string]string{"TLS": "dns", "SITE_ADDRESS": host, "DNS_UPDATE_SERVER": "b.example", "DNS_UPDATE_KEY": "`a secret`"}, "TLS=dns: DNS_UPDATE_KEY has a backquote"},
		{map[string]string{"TLS": "dns", "SITE_ADDRESS": host, "DNS_UPDATE_SERVER": "b.example", "DNS_UPDATE_KEY": "a secret"}, "DNS_UPDATE_KEY has not the form"},
	} {
		c.settings["ADMIN_PORT"] = freePort(t)
		out, err := program(t, c.settings).CombinedOutput()
		if err == nil || !bytes.Contains(out, []byte(c.want)) || bytes.Contains(out, []byte("a secret")) {
			t.Errorf("%v: %v\n%s", c.settings, err, out)
		}
	}
}

func TestTLSDNS_WithoutApplicationsSaysThatItHasNoWildcard(t *testing.T) {
	for _, c := range []struct{ tls, apps, want string }{
		{"dns", "off", "TLS=dns with APPS=off: there is no wildcard"}, {"dns", "on", ""}, {"auto", "off", ""},
	} {
		t.Setenv("TLS", c.tls)
		t.Setenv("APPS_SWITCH", c.apps)
		if got := noWildcard(); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%+v: got %q", c, got)
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
	page.body = strings.ReplaceAll(page.body, "<wbr>", "")
	wantPage(t, page, 200, false, print, "Trust this household", root.Subject.CommonName)
	plain := &server{url: "http://127.0.0.1:" + port}
	wantPage(t, plain.request(t, "GET", "/pforte/root", "", "Host", "localhost", "Accept-Language", "de"), 200, false, print[:11], "Diesem Haushalt vertrauen")
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

// listedTLS runs a proxy with certificates for the hosts of a list, as far as the settings let it.
func listedTLS(t *testing.T, a *listingAuth, settings map[string]string, at ...*upstream) *server {
	t.Helper()
	var to []string
	for _, u := range at {
		to = append(to, u.addr())
	}
	all := map[string]string{
		"AUTH_UPSTREAM": a.addr(), "APPS": "lan", "APPS_TO": strings.Join(to, ","), "SITE_ADDRESS": "home.internal:PORT",
		"APPS_FILE": filepath.Join(t.TempDir(), "apps.json"),
	}
	maps.Copy(all, settings)
	d, _ := openTLSWith(t, "off", freePort(t), all)
	d.awaitList(t)
	return d
}

// handshake returns the certificate that a visitor of a host gets.
func (d *server) handshake(host string) (*x509.Certificate, error) {
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: 5 * time.Second}, Config: &tls.Config{ServerName: host, InsecureSkipVerify: true}}
	conn, err := dialer.Dial("tcp", d.addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
}

// wantCertificate waits until a host has one.
func (d *server) wantCertificate(t *testing.T, host string) {
	t.Helper()
	var leaf *x509.Certificate
	var err error
	for begun := time.Now(); time.Since(begun) < 20*time.Second; time.Sleep(50 * time.Millisecond) {
		if leaf, err = d.handshake(host); err == nil {
			if err = leaf.VerifyHostname(host); err == nil {
				return
			}
		}
	}
	t.Errorf("%s has no certificate: %v", host, err)
}

// certified returns what the last question of a proxy says of certificates.
func (a *listingAuth) certified() (mode string, slugs []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.asked) == 0 {
		return "", nil
	}
	q := a.asked[len(a.asked)-1]
	mode, _ = q["tls"].(string)
	list, _ := q["certified"].([]any)
	for _, slug := range list {
		slugs = append(slugs, slug.(string))
	}
	slices.Sort(slugs)
	return mode, slugs
}

// A host has its certificate when it is in the list, and not before; a name that is in none has none. auth is told, so
// that its page can say so, and is asked about no name.
func TestListedTLS_HostsOfTheListHaveACertificateAndNoOthers(t *testing.T) {
	t.Parallel()
	for mode, photos := range map[string]string{"auto": "photos.home.internal", "internal": "photos.example.org"} {
		app := stand(t, "photos", nil)
		a := standListing(t)
		d := listedTLS(t, a, map[string]string{"TLS": mode}, app)
		d.wantCertificate(t, "home.internal")
		for _, host := range []string{photos, "stranger.example.org", "home.internal.example.org", "127.0.0.1"} {
			if _, err := d.handshake(host); err == nil {
				t.Errorf("%s: %s has a certificate", mode, host)
			}
		}
		a.set(entry("photos", photos, app.addr()))
		deadline := time.Now().Add(20 * time.Second)
		said, slugs := a.certified()
		for ; !slices.Equal(slugs, []string{"photos"}) && time.Now().Before(deadline); said, slugs = a.certified() {
			time.Sleep(20 * time.Millisecond)
		}
		if said != mode || !slices.Equal(slugs, []string{"photos"}) {
			t.Errorf("%s: auth is told %q %v\n%s", mode, said, slugs, d.log)
		}
		begun := time.Now()
		if leaf, err := d.handshake(photos); err != nil || leaf.VerifyHostname(photos) != nil {
			t.Errorf("%s: %v", mode, err)
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("%s: the first visitor waits for %v", mode, took)
		}
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: photos}}
		t.Cleanup(transport.CloseIdleConnections)
		visitor := &server{url: "https://" + d.addr, transport: transport}
		if got := visitor.request(t, "GET", "/x", "", member(photos)...); got.StatusCode != 200 || got.body != "photos" {
			t.Errorf("%s: %d %s", mode, got.StatusCode, got.body)
		}
		a.mu.Lock()
		for _, r := range a.seen {
			if r.URL.Path != "/internal/routes" && r.URL.Path != "/internal/forward-auth" {
				t.Errorf("%s: auth was asked %s", mode, r.URL)
			}
		}
		a.mu.Unlock()
	}
}

// While auth is away the file has the list: a host has its certificate. One that was removed has none after a start.
func TestListedTLS_FollowsTheFileWhileAuthIsAway(t *testing.T) {
	t.Parallel()
	app := stand(t, "app", nil)
	folder := t.TempDir()
	settings := map[string]string{"APPS_FILE": filepath.Join(folder, "apps.json"), "XDG_DATA_HOME": folder}
	a := standListing(t, entry("kept", "kept.home.internal", app.addr()), entry("gone", "gone.home.internal", app.addr()))
	d := listedTLS(t, a, settings, app)
	d.wantCertificate(t, "kept.home.internal")
	d.wantCertificate(t, "gone.home.internal")
	a.set(entry("kept", "kept.home.internal", app.addr()))
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if kept, err := os.ReadFile(settings["APPS_FILE"]); err == nil && !bytes.Contains(kept, []byte("gone")) {
			break
		}
	}
	d.close()
	a.Close()
	d = listedTLS(t, a, settings, app)
	d.wantCertificate(t, "kept.home.internal")
	if _, err := d.handshake("gone.home.internal"); err == nil {
		t.Error("a host that was removed has a certificate after a start")
	}
}

// A host that has left the list is unknown at once, on connections that are open too, and is not asked a certificate
// for. When it is back, it has the one of before.
func TestListedTLS_AHostThatLeftTheListHasNoCertificateWithinTwoSeconds(t *testing.T) {
	t.Parallel()
	app := stand(t, "app", nil)
	kept, gone := entry("kept", "kept.home.internal", app.addr()), entry("gone", "gone.home.internal", app.addr())
	a := standListing(t, kept, gone)
	a.any = true
	data := t.TempDir()
	d := listedTLS(t, a, map[string]string{"XDG_DATA_HOME": data}, app)
	d.wantCertificate(t, "kept.home.internal")
	d.wantCertificate(t, "gone.home.internal")
	before, err := d.handshake("gone.home.internal")
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: "gone.home.internal"}}
	t.Cleanup(transport.CloseIdleConnections)
	visitor := &server{url: "https://" + d.addr, transport: transport}
	visitor.await(t, "/x", "200 app", member("gone.home.internal")...)

	a.set(kept)
	removed := time.Now()
	for err = nil; err == nil && time.Since(removed) < 2*time.Second; time.Sleep(20 * time.Millisecond) {
		_, err = d.handshake("gone.home.internal")
	}
	if err == nil {
		t.Error("a host that was removed has its certificate after 2 s")
	}
	if got := visitor.request(t, "GET", "/x", "", member("gone.home.internal")...); fmt.Sprintf("%d %s", got.StatusCode, got.body) != nothingHere {
		t.Errorf("on a connection that is open: %d %s", got.StatusCode, got.body)
	}
	// What would renew it, would load and obtain another one where there is none.
	files, err := filepath.Glob(filepath.Join(data, "caddy", "certificates", "*", "gone.home.internal"))
	if err != nil || len(files) != 1 || os.RemoveAll(files[0]) != nil {
		t.Fatalf("%v: its certificate is in %v", err, files)
	}
	for _, name := range []string{"gone.home.internal", "GONE.home.internal", "stranger.home.internal", ""} {
		if _, err := d.handshake(name); err == nil {
			t.Errorf("%q has a certificate", name)
		}
	}
	if _, err := os.Stat(files[0]); !os.IsNotExist(err) {
		t.Errorf("a certificate was asked for: %v", err)
	}
	for _, host := range []string{"home.internal", "HOME.internal", "kept.home.internal"} {
		if _, err := d.handshake(host); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}

	a.set(kept, gone)
	d.wantCertificate(t, "gone.home.internal")
	if after, err := d.handshake("gone.home.internal"); err != nil || !after.Equal(before) {
		t.Errorf("a host that is back has another certificate: %v", err)
	}
}

// With a record of DNS there is one certificate for all hosts below the portal's, which nobody's handshake asks for.
func TestTLSDNS_HasOneCertificateForTheHostsOfTheList(t *testing.T) {
	t.Parallel()
	for settings, provider := range map[[4]string]string{
		{"ACMEDNS_SERVER", "https://auth.acme-dns.example", "ACMEDNS_ACCOUNT", `{"username":"u","password":"p","subdomain":"s"}`}: "acmedns",
		{"DNS_UPDATE_SERVER", "ns.example.org", "DNS_UPDATE_KEY", "pforte:c2VjcmV0"}:                                              "dnsupdate",
	} {
		out, err := program(t, map[string]string{
			"TLS": "dns", "APPS": "lan", "SITE_ADDRESS": "home.example.org, photos.home.example.org", "DNS_RESOLVERS": "192.0.2.53, 192.0.2.54",
			settings[0]: settings[1], settings[2]: settings[3],
		}, "adapt", "--config", "Caddyfile", "--adapter", "caddyfile").Output()
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Apps struct {
				HTTP struct {
					Servers map[string]struct {
						Routes []struct {
							Match []struct{ Host []string }
						}
					}
				}
				TLS struct {
					Automation struct {
						Policies []struct {
							OnDemand bool `json:"on_demand"`
							Issuers  []struct {
								Challenges struct {
									DNS struct {
										Provider  struct{ Name string }
										Resolvers []string
									}
								}
							}
						}
					}
				}
			}
		}
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatal(err)
		}
		var hosts []string
		for _, server := range got.Apps.HTTP.Servers {
			for _, route := range server.Routes {
				for _, match := range route.Match {
					hosts = append(hosts, match.Host...)
				}
			}
		}
		slices.Sort(hosts)
		if want := []string{"*.home.example.org", "home.example.org", "photos.home.example.org"}; !slices.Equal(hosts, want) {
			t.Errorf("the sites are %v", hosts)
		}
		if len(got.Apps.TLS.Automation.Policies) == 0 {
			t.Error("there is no policy")
		}
		for _, policy := range got.Apps.TLS.Automation.Policies {
			for _, issuer := range policy.Issuers {
				dns := issuer.Challenges.DNS
				if policy.OnDemand || dns.Provider.Name != provider || !slices.Equal(dns.Resolvers, []string{"192.0.2.53", "192.0.2.54"}) {
					t.Errorf("a policy is %+v", policy)
				}
			}
		}
	}
}

// Hosts of the list are plain http, too, behind a proxy that has their certificates.
func TestTLSOff_HasTheHostsOfTheList(t *testing.T) {
	t.Parallel()
	app := stand(t, "photos", nil)
	a := standListing(t, entry("photos", photosHost, app.addr()))
	d := openListed(t, a, map[string]string{"TLS": "off", "SITE_ADDRESS": "home.example.org:PORT", "TRUSTED_PROXIES": "127.0.0.1"}, app)
	d.await(t, "/x", "200 photos", append(member(photosHost), "X-Forwarded-Proto", "https")...)
	if proto := app.last(t).Header.Get("X-Forwarded-Proto"); proto != "https" {
		t.Errorf("the application got %q", proto)
	}
	if said, slugs := a.certified(); said != "off" || len(slugs) > 0 {
		t.Errorf("auth is told %q %v", said, slugs)
	}
	// Nor waits auth's page for a certificate where the site is plain http by its address.
	a = standListing(t)
	openListed(t, a, map[string]string{"SITE_ADDRESS": "http://localhost:PORT"})
	if said, _ := a.certified(); said != "off" {
		t.Errorf("of a trial auth is told %q", said)
	}
}
