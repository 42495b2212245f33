package edge

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddytls"
	"github.com/caddyserver/certmagic"
)

// When the proxy makes a handshake with itself for a host. Certificates of its own authority last for twelve hours, and
// are renewed by a handshake in the last four. A public authority takes five failures of a host in an hour.
const (
	handshakeWithin = 4 * time.Minute // certmagic asks an authority for three at most
	handshakeLong   = 5 * time.Second // after which shake makes another one
	handshakeAgain  = 2 * time.Hour
	handshakeFailed = 5 * time.Minute // for each refusal in a row, up to handshakeLatest
	handshakeLatest = 15 * time.Minute
	handshakeSoon   = 3 * time.Second // after a failure that is no refusal (noteHandshake)
	handshakeEvery  = 500 * time.Millisecond
)

// handshakesAtOnce is the most hosts for which the proxy makes a handshake at once, so that one host without a DNS
// record does not hold up the others.
const handshakesAtOnce = 4

// certificates are what the proxy knows of the certificates for hosts of the list.
type certificates struct {
	mu    sync.Mutex
	hosts map[string]*certificate
}

type certificate struct {
	certified, trying bool
	failures          int
	next              time.Time
}

// due returns the hosts for which a handshake is due now, and notes that they are being tried. It takes new hosts of
// the list, and forgets those that have left it and are not being tried.
func (h *certificates) due(hosts map[string]*App, now time.Time) (due []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for host, known := range h.hosts {
		if hosts[host] == nil && !known.trying {
			delete(h.hosts, host)
		}
	}
	for host := range hosts {
		known := h.hosts[host]
		if known == nil {
			known = new(certificate)
			h.hosts[host] = known
		}
		if !known.trying && !now.Before(known.next) {
			known.trying = true
			due = append(due, host)
		}
	}
	return due
}

// noteHandshake notes a handshake's outcome, and reports whether the host has a certificate now and had none, or the
// reverse. refused is whether the server refused it, or did not end it in time (shake), and that may have cost an
// attempt at an authority.
func (h *certificates) noteHandshake(host string, err error, refused bool, now time.Time) (changed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := h.hosts[host]
	if known == nil { // it has left the list
		return false
	}
	changed = known.certified != (err == nil)
	known.certified, known.trying = err == nil, false
	switch {
	case err == nil:
		known.failures, known.next = 0, now.Add(handshakeAgain)
	case refused:
		known.failures++
		known.next = now.Add(min(time.Duration(known.failures)*handshakeFailed, handshakeLatest))
	default:
		known.next = now.Add(handshakeSoon)
	}
	return changed
}

// mayTry reports whether a certificate may be loaded or obtained for a host now: after a refused handshake
// (noteHandshake) no visitor causes another attempt before the proxy's next handshake is due.
func (h *certificates) mayTry(host string, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := h.hosts[host]
	return known == nil || known.certified || known.trying || known.failures == 0 || !now.Before(known.next)
}

func (h *certificates) certified(host string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := h.hosts[host]
	return known != nil && known.certified
}

// isRefusal reports whether the server has ended a handshake by an alert, as it does without a certificate.
func isRefusal(err error) bool {
	fault, ok := errors.AsType[*net.OpError](err)
	return ok && fault.Op == "remote error"
}

// runHandshakes makes handshakes of the proxy with itself for each host of the list until ctx ends, so that its
// certificate is obtained and renewed where nobody visits it.
func (a *Applications) runHandshakes(ctx context.Context) {
	var under sync.WaitGroup
	defer under.Wait()
	places := make(chan struct{}, handshakesAtOnce)
	every := time.NewTicker(handshakeEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		for _, host := range a.certificates.due(a.now.Load().hosts, time.Now()) {
			under.Go(func() {
				places <- struct{}{}
				defer func() { <-places }()
				if a.shake(ctx, host) {
					a.log.Info("certificate", "host", host, "there", a.certificates.certified(host))
					a.askSoon()
				}
			})
		}
	}
}

// shake makes a handshake for a host and notes its outcome, which it returns as noteHandshake does.
//
// The server's own time for a handshake (read_header in the Caddyfile) may end before an authority has answered:
// then there is no alert, whatever the authority said. Unless TLS is dns, it is noted as refused then, so that
// Permission refuses further attempts, and a second handshake tells whether there is a certificate now. Were it
// not noted, each failure of an authority that takes long would at once cause the next attempt.
func (a *Applications) shake(ctx context.Context, host string) (changed bool) {
	began := time.Now()
	err := a.handshake(ctx, host)
	late := err != nil && !isRefusal(err) && time.Since(began) > handshakeLong
	if ctx.Err() != nil {
		return false
	}
	refused := (late || isRefusal(err)) && a.TLS != "dns"
	changed = a.certificates.noteHandshake(host, err, refused, time.Now())
	if late && refused && a.handshake(ctx, host) == nil {
		changed = a.certificates.noteHandshake(host, nil, false, time.Now())
	}
	return changed
}

// handshake makes a TLS handshake with the proxy itself for a host. Its error is why there was no
// certificate that is valid for the host.
func (a *Applications) handshake(ctx context.Context, host string) error {
	ctx, cancel := context.WithTimeout(ctx, handshakeWithin)
	defer cancel()
	dialer := tls.Dialer{Config: &tls.Config{
		ServerName:         host,
		InsecureSkipVerify: true, //nolint:gosec // of its own authority, perhaps; nothing is sent
		MinVersion:         tls.VersionTLS12,
	}}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(a.secure))))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	leaf := conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
	if err := leaf.VerifyHostname(host); err != nil {
		return err
	}
	if now := time.Now(); now.After(leaf.NotAfter) {
		return errors.New("the certificate is no longer valid")
	}
	return nil
}

// Permission is the permission for certificates on demand. Hosts of the list of Applications have it, but not while the
// next attempt is put off because one was refused. No other name has it. It makes no request, so that no list of names
// leaves the proxy, and certificates are there while auth is away.
type Permission struct{ apps *Applications }

// CaddyModule returns the Caddy module information.
func (Permission) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "tls.permission.edge_apps", New: func() caddy.Module { return new(Permission) }}
}

// UnmarshalCaddyfile reads: permission edge_apps.
func (*Permission) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if d.NextArg() {
		return d.ArgErr()
	}
	return nil
}

// Provision implements caddy.Provisioner.
func (p *Permission) Provision(ctx caddy.Context) (err error) {
	p.apps, err = applicationsOf(ctx)
	return err
}

// CertificateAllowed implements caddytls.OnDemandPermission. Its errors wrap caddytls.ErrPermissionDenied.
func (p *Permission) CertificateAllowed(_ context.Context, name string) error {
	if _, found := p.apps.Host(name); !found {
		return fmt.Errorf("%w: %s is no application's host", caddytls.ErrPermissionDenied, name)
	}
	if !p.apps.certificates.mayTry(strings.ToLower(name), time.Now()) {
		return fmt.Errorf("%w: the last attempt for %s failed", caddytls.ErrPermissionDenied, name)
	}
	return nil
}

// acmeProtocol is the only protocol that an authority offers when it checks that a host is ours
// (RFC 8737).
const acmeProtocol = "acme-tls/1"

var errHandshake = errors.New("no application has this host")

// Handshake ends handshakes for names that would have a certificate on demand and are not in the list, as a host that
// has left it, but not one by which an authority checks a host. The host's certificate stays in Caddy's cache, but
// without handshakes it is not renewed. Apps.Provision sets Handshake for each policy of its server.
type Handshake struct {
	apps *Applications
	tls  *caddytls.TLS
}

// CaddyModule returns the Caddy module information.
func (Handshake) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "tls.context.edge_apps", New: func() caddy.Module { return new(Handshake) }}
}

// Provision implements caddy.Provisioner.
func (h *Handshake) Provision(ctx caddy.Context) (err error) {
	if h.apps, err = applicationsOf(ctx); err != nil {
		return err
	}
	app, err := ctx.App("tls")
	if err != nil {
		return fmt.Errorf("edge_apps: %w", err)
	}
	h.tls = app.(*caddytls.TLS)
	return nil
}

// HandshakeContext implements caddytls.HandshakeContext. Its error is errHandshake.
func (h *Handshake) HandshakeContext(hello *tls.ClientHelloInfo) (context.Context, error) {
	name := hello.ServerName
	if name == "" { // a certificate of an address
		name, _, _ = net.SplitHostPort(hello.Conn.LocalAddr().String())
		name, _, _ = strings.Cut(name, "%")
	}
	// An authority may come to a replica that does not have the list yet.
	asks := len(hello.SupportedProtos) == 1 && hello.SupportedProtos[0] == acmeProtocol
	if _, found := h.apps.Host(name); !found && !asks && h.onDemand(name) {
		return nil, errHandshake
	}
	return hello.Context(), nil
}

// onDemand reports whether a name has its certificate on demand, which hosts of the site do not. The first policy
// that is for the name decides, as it does for Caddy.
func (h *Handshake) onDemand(name string) bool {
	if h.tls.Automation == nil {
		return false
	}
	for _, policy := range h.tls.Automation.Policies {
		subjects := policy.Subjects()
		is := func(subject string) bool { return certmagic.MatchWildcard(name, subject) }
		if len(subjects) == 0 || slices.ContainsFunc(subjects, is) {
			return policy.OnDemand
		}
	}
	return false
}

// OwnIssuer issues certificates of Caddy's own authority for internal names (certmagic.SubjectIsInternal), and leaves
// all others to the issuer after it.
type OwnIssuer struct{ caddytls.InternalIssuer }

// CaddyModule returns the Caddy module information.
func (OwnIssuer) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "tls.issuance.edge_own", New: func() caddy.Module { return new(OwnIssuer) }}
}

var errPublic = errors.New("a public authority has certificates for this name")

// PreCheck implements certmagic.PreChecker. Its errors wrap errPublic.
func (*OwnIssuer) PreCheck(_ context.Context, names []string, _ bool) error {
	for _, name := range names {
		if !certmagic.SubjectIsInternal(name) {
			return fmt.Errorf("%w: %s", errPublic, name)
		}
	}
	return nil
}

var (
	_ caddytls.OnDemandPermission = (*Permission)(nil)
	_ caddy.Provisioner           = (*Permission)(nil)
	_ caddyfile.Unmarshaler       = (*Permission)(nil)
	_ caddytls.HandshakeContext   = (*Handshake)(nil)
	_ caddy.Provisioner           = (*Handshake)(nil)
	_ certmagic.Issuer            = (*OwnIssuer)(nil)
	_ certmagic.PreChecker        = (*OwnIssuer)(nil)
	_ caddyfile.Unmarshaler       = (*OwnIssuer)(nil)
)
