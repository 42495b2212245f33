package edge

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

var errPin = errors.New("the application's certificate has another key than when it was entered")

// AppTransport is the transport of a reverse_proxy to an application of the list: Transport, but that connections are
// made only to where an application may be, never by a proxy of the environment, and that an application is known by
// the key of its certificate.
type AppTransport struct {
	Transport

	// App is the application's slug.
	App string `json:"app,omitempty"`
	// Pin is the SHA-256 of the public key of its certificate, hexadecimal. Empty: it has no TLS.
	Pin string `json:"pin,omitempty"`

	apps   *Applications
	faulty atomic.Bool
}

// CaddyModule returns the Caddy module information.
func (*AppTransport) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID: "http.reverse_proxy.transport.edge_app", New: func() caddy.Module { return new(AppTransport) },
	}
}

// Provision implements caddy.Provisioner.
func (t *AppTransport) Provision(ctx caddy.Context) (err error) {
	if t.apps, err = applicationsOf(ctx); err != nil {
		return fmt.Errorf("transport edge_app: %w", err)
	}
	if t.Pin != "" {
		t.TLS = &reverseproxy.TLSConfig{InsecureSkipVerify: true} // the pin is compared in its place
	}
	if err := t.Transport.Provision(ctx); err != nil {
		return err
	}
	reach := t.apps.reach.dialer(time.Duration(t.DialTimeout))
	t.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := reach(ctx, network, address)
		if err != nil || t.Pin == "" { // else verify says whether it is reached
			t.note(err)
		}
		return conn, err
	}
	net := t.HTTPTransport.Transport
	net.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil } //nolint:nilnil // none
	net.DialContext = t.dialNet
	if net.TLSClientConfig != nil {
		net.TLSClientConfig.VerifyConnection = t.verify
	}
	return nil
}

// dialNet is dial for net/http. Its errors are those after which Caddy may try the request again.
func (t *AppTransport) dialNet(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := t.dial(ctx, network, address)
	if err != nil {
		return nil, reverseproxy.NewDialError(err)
	}
	return conn, nil
}

// verify returns errPin unless the key of a server's certificate is that of Pin.
func (t *AppTransport) verify(state tls.ConnectionState) error {
	if pinOf(state) == t.Pin {
		t.note(nil)
		return nil
	}
	t.note(errPin)
	return errPin
}

// note has the next question tell auth that the application's address is not permitted or its key is another, or that
// it is reached again. Other errors are not told.
func (t *AppTransport) note(err error) {
	switch {
	case errors.Is(err, errReach):
		t.faulty.Store(true)
		t.apps.fault(t.App, skipAddress)
	case errors.Is(err, errPin):
		t.faulty.Store(true)
		t.apps.fault(t.App, skipCertificate)
	case err == nil && t.faulty.Swap(false):
		t.apps.fault(t.App, "")
	}
}

var _ caddy.Provisioner = (*AppTransport)(nil)
