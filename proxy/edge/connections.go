package edge

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// maxRefusing is how many refused connections are answered at once; any more are
// closed. refuseWithin is how long an answer to one may take, and to a request that is
// refused early.
const (
	maxRefusing  = 512
	refuseWithin = time.Second
)

// tooManyConnections is the answer to a connection above the limit, in the format of
// both services.
const tooManyConnections = `{"error":"Der Dienst ist gerade überlastet. Bitte gleich erneut versuchen.","code":503,"reason":"service_unavailable","retryable":true}`

var tooManyAnswer = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nCache-Control: no-store\r\nRetry-After: 2\r\nConnection: close\r\nContent-Length: " +
	strconv.Itoa(len(tooManyConnections)) + "\r\n\r\n" + tooManyConnections

// Connections is a listener wrapper that bounds the open connections, each of which
// costs memory. It stands before tls. One above the limit is answered with 503, or
// closed where it would have to be encrypted. But if another network has more than the
// client's then would, the newest connection of the one that has most is closed in its
// place: a single client cannot take them all. A network is an address, of IPv6 a /64.
type Connections struct {
	// Max is of each listener.
	Max int `json:"max,omitempty"`

	refusals *refusals
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

// Provision implements caddy.Provisioner.
func (c *Connections) Provision(ctx caddy.Context) error {
	all, err := gatesOf(ctx)
	if err != nil {
		return fmt.Errorf("edge_connections: %w", err)
	}
	c.refusals = &all.refusals
	return nil
}

// WrapListener implements caddy.ListenerWrapper.
func (c *Connections) WrapListener(l net.Listener) net.Listener {
	return &boundListener{Listener: l, max: c.Max, refusals: c.refusals, byNetwork: map[netip.Prefix][]*boundConn{}, refusing: make(chan struct{}, maxRefusing)}
}

type boundListener struct {
	net.Listener
	max      int
	refusals *refusals
	refusing chan struct{}

	mu   sync.Mutex
	open int
	// byNetwork has the open connections in the order of their arrival.
	byNetwork map[netip.Prefix][]*boundConn
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
		if bound := l.enter(tcp); bound != nil {
			return bound, nil
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
		_, _ = conn.Write([]byte(tooManyAnswer))
	}
}

// enter returns nil when there is no place for a connection.
func (l *boundListener) enter(conn *net.TCPConn) *boundConn {
	c := &boundConn{TCPConn: conn, listener: l, network: networkOf(conn.RemoteAddr()), local: conn.LocalAddr().String(), passed: time.Now()}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.max {
		var most []*boundConn
		for _, all := range l.byNetwork {
			if len(all) > len(most) {
				most = all
			}
		}
		if len(most) <= len(l.byNetwork[c.network])+1 {
			return nil
		}
		newest := most[len(most)-1]
		l.remove(newest)
		_ = newest.TCPConn.Close()
	}
	l.open++
	l.byNetwork[c.network] = append(l.byNetwork[c.network], c)
	return c
}

// remove removes a connection unless that was done before.
func (l *boundListener) remove(c *boundConn) {
	all := l.byNetwork[c.network]
	i := slices.Index(all, c)
	if i < 0 {
		return
	}
	l.open--
	if all = slices.Delete(all, i, i+1); len(all) == 0 {
		delete(l.byNetwork, c.network)
		return
	}
	l.byNetwork[c.network] = all
}

func networkOf(addr net.Addr) netip.Prefix {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap()
	network, _ := ip.Prefix(min(ip.BitLen(), 64)) // without the zone
	return network
}

// boundConn is a TCPConn, which has more methods than a net.Conn.
type boundConn struct {
	*net.TCPConn
	listener *boundListener
	network  netip.Prefix
	// local is the address that the client reached.
	local string
	// framing and passed, when a request was last passed on, are of the one goroutine
	// that reads.
	framing framing
	passed  time.Time
}

// Read implements net.Conn. It answers a request that its service would refuse, and
// returns the next one. Nothing is under way then, because net/http reads the next
// request after it has answered; but for one byte.
func (c *boundConn) Read(p []byte) (int, error) {
	for {
		n, err := c.TCPConn.Read(p)
		q, whole := c.framing.read(p[:n])
		if !whole {
			return n, err
		}
		now := time.Now()
		var answer []byte
		if now.Sub(c.passed) <= passEvery { // else edge_service refuses it, and counts it
			answer = c.listener.refusals.to(q, c.local)
		}
		if answer == nil {
			c.passed = now
			return n, err
		}
		// net/http has no deadline for writing set here, and a client that reads nothing
		// would keep its connection for ever.
		_ = c.SetWriteDeadline(now.Add(refuseWithin))
		if _, err := c.Write(answer); err != nil {
			return 0, err
		}
		_ = c.SetWriteDeadline(time.Time{})
	}
}

// Close implements net.Conn.
func (c *boundConn) Close() error {
	c.listener.mu.Lock()
	c.listener.remove(c)
	c.listener.mu.Unlock()
	return c.TCPConn.Close()
}

var (
	_ caddy.ListenerWrapper = (*Connections)(nil)
	_ caddy.Provisioner     = (*Connections)(nil)
	_ caddyfile.Unmarshaler = (*Connections)(nil)
)
