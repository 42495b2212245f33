package edge

import (
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// maxRefusing is how many refused connections are answered at once, and
// refuseWithin how long that may take. Any more are closed.
const (
	maxRefusing  = 512
	refuseWithin = time.Second
)

// tooManyConnections is the answer to a connection above the limit, in the format of
// both services.
const tooManyConnections = `{"error":"Der Dienst ist gerade überlastet. Bitte gleich erneut versuchen.","code":503,"reason":"service_unavailable","retryable":true}`

var refusal = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nCache-Control: no-store\r\nRetry-After: 2\r\nConnection: close\r\nContent-Length: " +
	strconv.Itoa(len(tooManyConnections)) + "\r\n\r\n" + tooManyConnections

// Connections is a listener wrapper that bounds the open connections, each of which
// costs memory. It stands before tls. One above the limit is answered with 503, or
// closed where it would have to be encrypted.
type Connections struct {
	// Max is of each listener.
	Max int `json:"max,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (Connections) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "caddy.listeners.edge_connections", New: func() caddy.Module { return new(Connections) }}
}

// UnmarshalCaddyfile reads: edge_connections <max>.
func (c *Connections) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if !d.NextArg() {
		return d.ArgErr()
	}
	var err error
	if c.Max, err = strconv.Atoi(d.Val()); err != nil || c.Max <= 0 || d.NextArg() {
		return d.Errf("edge_connections: not a number above zero: %s", d.Val())
	}
	return nil
}

// WrapListener implements caddy.ListenerWrapper.
func (c *Connections) WrapListener(l net.Listener) net.Listener {
	return &boundListener{Listener: l, open: make(chan struct{}, c.Max), refusing: make(chan struct{}, maxRefusing)}
}

type boundListener struct {
	net.Listener
	open, refusing chan struct{}
}

// Accept implements net.Listener.
func (l *boundListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		tcp, ok := conn.(*net.TCPConn)
		if !ok {
			return conn, nil
		}
		select {
		case l.open <- struct{}{}:
			return &boundConn{TCPConn: tcp, leave: sync.OnceFunc(func() { <-l.open })}, nil
		default:
		}
		select {
		case l.refusing <- struct{}{}:
			go func() {
				defer func() { <-l.refusing }()
				refuse(tcp)
			}()
		default:
			_ = tcp.Close()
		}
	}
}

// refuse reads the beginning of a request, because the answer could be lost if a
// connection is closed with something unread.
func refuse(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(refuseWithin))
	var request [4096]byte
	if n, _ := conn.Read(request[:]); n > 0 && 'A' <= request[0] && request[0] <= 'Z' { // no TLS
		_, _ = conn.Write([]byte(refusal))
	}
}

// boundConn is a TCPConn, which has more methods than a net.Conn.
type boundConn struct {
	*net.TCPConn
	leave func()
}

// Close implements net.Conn.
func (c *boundConn) Close() error {
	c.leave()
	return c.TCPConn.Close()
}

var (
	_ caddy.ListenerWrapper = (*Connections)(nil)
	_ caddyfile.Unmarshaler = (*Connections)(nil)
)
