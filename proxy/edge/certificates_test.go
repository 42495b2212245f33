package edge

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddytls"
)

var errAlert = &net.OpError{Op: "remote error", Err: errors.New("internal error")}

// A public authority counts failures: visitors cause none, and the proxy's own attempts are few.
func TestHands_AFailureIsTriedAgainLaterAndByNoVisitor(t *testing.T) {
	t.Parallel()
	h := certificates{hosts: map[string]*certificate{}}
	hosts := map[string]*App{"photos.example.org": {Slug: "photos"}}
	const host = "photos.example.org"
	now := time.Unix(1_800_000_000, 0)
	attempts := 0
	for end := now.Add(time.Hour); now.Before(end); now = now.Add(time.Second) {
		for range h.due(hosts, now) {
			attempts++
			if !h.mayTry(host, now) {
				t.Fatal("the proxy's own attempt is refused")
			}
			h.noteHandshake(host, errAlert, isRefusal(errAlert), now)
		}
		if h.mayTry(host, now) {
			t.Fatal("a visitor causes an attempt")
		}
	}
	if attempts != 5 {
		t.Errorf("%d attempts in an hour", attempts)
	}
	if h.due(hosts, now.Add(handshakeLatest)); !h.noteHandshake(host, nil, false, now) || !h.certified(host) || !h.mayTry(host, now) {
		t.Error("a certificate changes nothing")
	}
	if len(h.due(hosts, now.Add(handshakeAgain-time.Second))) != 0 || len(h.due(hosts, now.Add(handshakeAgain))) != 1 {
		t.Error("the hand is not shaken again after two hours")
	}
}

// The server's own time for a handshake may end before a public authority answers. The certificate is there soon.
func TestHands_AHandshakeThatWasTooSlowIsRepeatedSoon(t *testing.T) {
	t.Parallel()
	h := certificates{hosts: map[string]*certificate{}}
	hosts := map[string]*App{"a.example.org": {}}
	now := time.Now()
	h.due(hosts, now)
	if h.noteHandshake("a.example.org", io.EOF, isRefusal(io.EOF), now); !h.mayTry("a.example.org", now) || len(h.due(hosts, now.Add(handshakeSoon))) != 1 {
		t.Error("it is taken for a refusal")
	}
	if h.due(nil, now); len(h.hosts) != 1 {
		t.Error("a host whose hand is shaken is forgotten")
	}
	h.noteHandshake("a.example.org", nil, false, now)
	if h.due(nil, now); len(h.hosts) != 0 {
		t.Error("a host that is no more is kept")
	}
}

// An authority that fails after the server's own time for a handshake is asked once, and what it gave is found.
func TestHands_AnAuthorityThatTakesLongIsAskedOnce(t *testing.T) {
	t.Parallel()
	own := httptest.NewUnstartedServer(nil)
	own.StartTLS()
	own.Close()
	leaf := own.TLS.Certificates[0]
	for host, succeeds := range map[string]bool{"example.com": true, "gone.example.com": false} {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			a := &Applications{TLS: "auto"}
			a.certificates.hosts = map[string]*certificate{}
			a.certificates.due(map[string]*App{host: {}}, time.Now())
			var asked atomic.Int64
			var obtained atomic.Bool
			plain, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			server := &http.Server{ReadHeaderTimeout: handshakeLong, ErrorLog: log.New(io.Discard, "", 0)}
			defer func() { _ = server.Close() }()
			obtain := func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
				if obtained.Load() {
					return &leaf, nil
				}
				if !a.certificates.mayTry(hello.ServerName, time.Now()) {
					return nil, errors.New("no certificate")
				}
				asked.Add(1)
				time.Sleep(handshakeLong + 200*time.Millisecond)
				obtained.Store(succeeds)
				return &leaf, map[bool]error{false: errors.New("the authority cannot reach the host")}[succeeds]
			}
			go func() { _ = server.Serve(tls.NewListener(plain, &tls.Config{GetCertificate: obtain})) }()
			a.secure = uint16(plain.Addr().(*net.TCPAddr).Port)
			changed := a.shake(t.Context(), host)
			if changed != succeeds || a.certificates.certified(host) != succeeds || asked.Load() != 1 {
				t.Errorf("changed: %t, certified: %t, asked %d times", changed, a.certificates.certified(host), asked.Load())
			}
			soon := a.certificates.due(map[string]*App{host: {}}, time.Now().Add(handshakeSoon))
			if !succeeds && (a.certificates.mayTry(host, time.Now()) || len(soon) != 0) {
				t.Error("it is asked again at once")
			}
		})
	}
}

func TestPermission_IsForHostsOfTheListAlone(t *testing.T) {
	t.Parallel()
	a := &Applications{}
	a.certificates.hosts = map[string]*certificate{}
	a.now.Store(&listing{appList: new(appList), hosts: map[string]*App{"photos.example.org": {Slug: "photos"}}})
	p := &Permission{a}
	for name, allowed := range map[string]bool{
		"photos.example.org": true, "PHOTOS.example.org": true, "": false, "example.org": false, "x.photos.example.org": false,
		"photos.example.org.": false, "*.example.org": false, "photos.example.org:443": false,
	} {
		err := p.CertificateAllowed(t.Context(), name)
		if (err == nil) != allowed || err != nil && !errors.Is(err, caddytls.ErrPermissionDenied) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// Hosts of the site are not those of the list, and an authority that looks at a host may come before the list does.
// It is not parallel, because caddy.ProvisionContext sets what the whole process has by default.
func TestHandshake_IsForHostsOfTheListAndOfTheSite(t *testing.T) {
	policies := `[{"subjects":["home.example.org","*.wild.example.org","192.0.2.1"]},{"on_demand":true}]`
	permission := `{"permission":{"module":"edge_apps"}}`
	ctx, err := caddy.ProvisionContext(&caddy.Config{
		Admin:      &caddy.AdminConfig{Disabled: true},
		StorageRaw: fmt.Appendf(nil, `{"module":"file_system","root":%q}`, t.TempDir()),
		AppsRaw: caddy.ModuleMap{
			"tls":       fmt.Appendf(nil, `{"automation":{"policies":%s,"on_demand":%s}}`, policies, permission),
			"edge_apps": fmt.Appendf(nil, `{"mode":"lan","auth":["127.0.0.1:9"],"file":%q}`, filepath.Join(t.TempDir(), "apps.json")),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	h := new(Handshake)
	if err := h.Provision(ctx); err != nil {
		t.Fatal(err)
	}
	h.apps.now.Store(&listing{appList: new(appList), hosts: map[string]*App{"photos.example.org": {}, "192.0.2.3": {}}})
	for _, c := range []struct {
		name, addr string
		protocols  []string
		allowed    bool
	}{
		{"photos.example.org", "192.0.2.9:443", []string{"h2", "http/1.1"}, true},
		{"PHOTOS.example.org", "192.0.2.9:443", nil, true},
		{"home.example.org", "192.0.2.9:443", nil, true},
		{"x.wild.example.org", "192.0.2.9:443", nil, true},
		{"", "192.0.2.1:443", nil, true},
		{"", "192.0.2.3:443", nil, true},
		{"gone.example.org", "192.0.2.9:443", nil, false},
		{" photos.example.org", "192.0.2.9:443", nil, false},
		{"", "192.0.2.9:443", nil, false},
		{"", "[fe80::1%eth0]:443", nil, false},
		{"gone.example.org", "192.0.2.9:443", []string{"acme-tls/1"}, true},
		{"gone.example.org", "192.0.2.9:443", []string{"acme-tls/1", "h2"}, false},
	} {
		local := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.addr))
		_, err := h.HandshakeContext(&tls.ClientHelloInfo{ServerName: c.name, SupportedProtos: c.protocols, Conn: localConn{addr: local}})
		if (err == nil) != c.allowed || err != nil && !errors.Is(err, errHandshake) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if (&Handshake{tls: new(caddytls.TLS)}).onDemand("gone.example.org") {
		t.Error("a certificate is on demand without a policy")
	}
}

// localConn is a connection at an address.
type localConn struct {
	net.Conn
	addr net.Addr
}

func (c localConn) LocalAddr() net.Addr { return c.addr }

func TestOwnIssuer_IsForNamesThatNoPublicAuthorityHas(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]bool{
		"notes.home.internal": true, "notes.fritz.local": true, "notes.home.arpa": true, "notes.localhost": true, "192.168.1.2": true,
		"notes.example.org": false, "internal.example.org": false,
	} {
		if err := new(OwnIssuer).PreCheck(t.Context(), []string{name}, false); (err == nil) != own {
			t.Errorf("%s: %v", name, err)
		}
	}
}
