package edge

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"golang.org/x/sys/unix"
)

// maxRefusing is how many refused connections a listener answers at once; any more are
// closed. refuseWithin is how long an answer to a refused connection may take, and to a
// request that is refused early.
const (
	maxRefusing  = 512
	refuseWithin = time.Second
)

// refuseAfter is the shortest delay before a request of a network that crowds out others gets
// Service.Refusal, and half of the longest. Without a delay, a client that sends its next request at once
// would take the processor from others by refusals alone. With the same delay for all, so would a
// thousand requests that are refused at one moment.
const refuseAfter = 500 * time.Millisecond

// refusalDelay returns the delay before one request is refused: a random one from refuseAfter to
// twice that.
func refusalDelay() time.Duration {
	return refuseAfter + rand.N(refuseAfter) //nolint:gosec // nothing depends on a client not guessing it
}

// crowdShare bounds who crowds out others: no network with at most 1/crowdShare of the connections that
// may be open does.
const crowdShare = 8

// maxStreams is how many requests a connection of HTTP/2 may have at once. The weight of a request is 1,
// and 1 more for each streamHeader bytes of its header. streamsEach is the weight that all requests
// together may have for each connection that may be open.
const (
	maxStreams   = 32
	streamsEach  = 2
	streamHeader = 16 << 10
)

// headerUnit is how many bytes of a header weigh 1 where the header has not been read to its end, and with HTTP/1 until
// the request is answered. Fields may have five bytes each, of which net/http makes twenty times as many.
// Each manyFields of a request weigh 1 more, because they are copied for its service.
const (
	headerUnit = 2 << 10
	manyFields = 100
)

// longestHeader is how many bytes a connection has read at most when a header has ended, or is refused: what follows is
// a body that is not read yet, or that no one reads.
const longestHeader = 68 << 10

// maxFrame is how many bytes a frame of HTTP/2 may have: the least that it allows. A connection keeps as much memory
// as its longest frame took, for which its client need not make a request, and without a bound here that is 1 MB.
const maxFrame = 16 << 10

// Connections is a listener wrapper that bounds the open connections, each of which
// costs memory, and the requests of HTTP/2 on them, which cost more. It stands before tls. A
// connection above the limit is answered with 503, or only closed, as where it begins with TLS;
// a request above the limit is refused. But where another network has more of them than the
// client's would then have, the network with most loses its newest connection instead: a single
// network cannot take them all. Networks are compared at each width, the widest first.
type Connections struct {
	// Max is how many connections each listener may have open.
	Max int `json:"max,omitempty"`
	// Refusal is the JSON of the 503 that a connection above the limit gets.
	Refusal string `json:"refusal,omitempty"`
	// Trusted are the networks of proxies in front, whose connections are those of many clients:
	// they are never closed for others.
	Trusted []string `json:"trusted,omitempty"`

	trusted  []netip.Prefix
	refusals *refusals
}

// CaddyModule returns the Caddy module information.
func (Connections) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "caddy.listeners.edge_connections", New: func() caddy.Module {
		return new(Connections)
	}}
}

// UnmarshalCaddyfile reads:
//
//	edge_connections <max> [<trusted proxies...>] {
//		refusal <json>
//	}
func (c *Connections) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if !d.NextArg() {
		return d.ArgErr()
	}
	var err error
	if c.Max, err = strconv.Atoi(d.Val()); err != nil || c.Max <= 0 {
		return d.Errf("edge_connections: not a number above zero: %s", d.Val())
	}
	for d.NextArg() {
		if d.Val() == "private_ranges" { // as trusted_proxies has it
			c.Trusted = append(c.Trusted, caddyhttp.PrivateRangesCIDR()...)
			continue
		}
		c.Trusted = append(c.Trusted, d.Val())
	}
	for d.NextBlock(0) {
		if d.Val() != "refusal" || !d.AllArgs(&c.Refusal) {
			return d.ArgErr()
		}
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
	for _, text := range c.Trusted {
		prefix, err := caddyhttp.CIDRExpressionToPrefix(text)
		if err != nil {
			return fmt.Errorf("edge_connections: %w", err)
		}
		c.trusted = append(c.trusted, prefix)
	}
	if server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok {
		var once sync.Once
		server.RegisterConnContext(func(ctx context.Context, conn net.Conn) context.Context {
			// Caddy has no option for it, and net/http reads this when a connection becomes one of HTTP/2.
			once.Do(func() {
				if plain, ok := ctx.Value(http.ServerContextKey).(*http.Server); ok {
					plain.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: maxStreams, MaxReadFrameSize: maxFrame}
				}
			})
			return withConnection(ctx, conn)
		})
		server.RegisterConnState(func(conn net.Conn, state http.ConnState) {
			if c := boundOf(conn); c != nil && state == http.StateIdle {
				c.leaveHeader()
				c.header.Store(0)
				c.begun.Store(false)
			}
		})
	}
	return nil
}

type connectionKey struct{}

// withConnection returns ctx with the boundConn of a connection under connectionKey, if it has one.
func withConnection(ctx context.Context, conn net.Conn) context.Context {
	if c := boundOf(conn); c != nil {
		return context.WithValue(ctx, connectionKey{}, c)
	}
	return ctx
}

// boundOf returns a connection that is a boundConn or TLS on one, else nil.
func boundOf(conn net.Conn) *boundConn {
	if tls, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = tls.NetConn()
	}
	c, _ := conn.(*boundConn)
	return c
}

// enterStream counts a request, if it is one of HTTP/2 or has many fields, until leave is called. The error is
// errBusy where there is no place for it.
func enterStream(r *http.Request) (leave func(), err error) {
	c, ok := r.Context().Value(connectionKey{}).(*boundConn)
	if !ok {
		return func() {}, nil
	}
	c.begun.Store(true)
	length, fields := len(r.RequestURI), 0
	for name, values := range r.Header {
		for _, value := range values {
			length += len(name) + len(value)
		}
		fields += len(values)
	}
	much := fields / manyFields
	if r.ProtoMajor == 2 {
		c.leaveHeader() // its weight is counted here
		much += 1 + length/streamHeader
	}
	if much == 0 {
		return func() {}, nil
	}
	if !c.listener.enterStream(c, much) {
		return nil, errBusy
	}
	return func() { c.listener.leaveStream(c, much) }, nil
}

// WrapListener implements caddy.ListenerWrapper.
func (c *Connections) WrapListener(l net.Listener) net.Listener {
	return &boundListener{
		Listener: l, max: c.Max, trusted: c.trusted, refusals: c.refusals,
		refusal: fmt.Appendf(nil, tooMany, len(c.Refusal), c.Refusal), refusing: make(chan struct{}, maxRefusing),
	}
}

// tooMany is the answer to a connection above the limit.
const tooMany = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nCache-Control: no-store\r\n" +
	"Retry-After: 2\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"

type boundListener struct {
	net.Listener
	max      int
	trusted  []netip.Prefix
	refusals *refusals
	refusal  []byte
	refusing chan struct{}

	mu sync.Mutex
	// open is how many connections clients have, and streams the weight of their requests of HTTP/2.
	open, streams       int
	clients, requesting shares[*boundConn]
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
			sendLittleAhead(tcp)
			return bound, nil
		}
		select {
		case l.refusing <- struct{}{}:
			go func() {
				defer func() { <-l.refusing }()
				l.refuse(tcp)
			}()
		default:
			_ = tcp.Close()
		}
	}
}

// maxAhead is how many bytes of an answer wait for the line to the client, in the system's buffer.
const maxAhead = 128 << 10

// sendLittleAhead bounds what waits to be sent by a connection, but not what is on the way. Left to itself the
// system takes megabytes from a service at once, and then nothing for as long as a slow client needs for them:
// a service that times what is taken would cut off a client that reads all the time.
func sendLittleAhead(conn *net.TCPConn) {
	if raw, err := conn.SyscallConn(); err == nil {
		// Without it the answer is sent all the same.
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, maxAhead)
		})
	}
}

// refuse answers a connection above the limit if it begins with a capital letter, as HTTP does and TLS
// does not, and closes it. It reads first, because the answer could be lost if the connection is
// closed with something unread.
func (l *boundListener) refuse(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(refuseWithin))
	var request [4096]byte
	if n, _ := conn.Read(request[:]); n > 0 && 'A' <= request[0] && request[0] <= 'Z' { // no TLS
		_, _ = conn.Write(l.refusal)
	}
}

// enter returns a connection with a place, or nil when there is none.
func (l *boundListener) enter(conn *net.TCPConn) *boundConn {
	c := &boundConn{
		TCPConn: conn, listener: l, addr: addrOf(conn.RemoteAddr()), local: conn.LocalAddr().String(),
		passed: time.Now(),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.admit(c)
}

// admit gives c a place and returns it, or nil when there is none. The caller holds the lock.
func (l *boundListener) admit(c *boundConn) *boundConn {
	c.trusted = slices.ContainsFunc(l.trusted, func(p netip.Prefix) bool { return p.Contains(c.addr) })
	if l.open >= l.max && !l.makePlace(&l.clients, c, 1) {
		return nil
	}
	l.open++
	c.network = l.clients.enter(c.addr)
	if !c.trusted {
		l.clients.canLose(c.network, c)
	}
	return c
}

// crowds reports whether the widest network of a connection crowds out others: it has more than
// 1/crowdShare of the connections that may be open, and more than the average of all widest networks.
// That of a trusted proxy never does.
func (l *boundListener) crowds(c *boundConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := c.network
	if n == nil || c.trusted {
		return false
	}
	for n.in != &l.clients.all {
		n = n.in
	}
	return n.has > l.max/crowdShare && n.has*len(l.clients.all.within) > l.clients.all.has
}

// crowding reports whether a request comes from a network that crowds out others.
func crowding(r *http.Request) bool {
	c, ok := r.Context().Value(connectionKey{}).(*boundConn)
	return ok && c.listener.crowds(c)
}

// refuseLate waits for refusalDelay, or until the request ends, if it comes from a network that
// crowds out others, and else returns at once.
func refuseLate(r *http.Request) {
	if !crowding(r) {
		return
	}
	timer := time.NewTimer(refusalDelay())
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
}

// makePlace closes the connection that is lost to the client of c, which wants much units
// (shares.loser), and reports whether there is one.
func (l *boundListener) makePlace(of *shares[*boundConn], c *boundConn, much int) bool {
	if c.trusted {
		much = math.MinInt / 2 // so that no network has less
	}
	loser, found := of.loser(c.addr, much)
	if found {
		l.remove(loser)
		_ = loser.TCPConn.Close()
	}
	return found
}

// enterStream counts a request of the weight much, and reports whether there is a place for it.
func (l *boundListener) enterStream(c *boundConn, much int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.network == nil {
		return false
	}
	for l.streams+much > streamsEach*l.max {
		if !l.makePlace(&l.requesting, c, much) {
			return false
		}
	}
	l.streams += much
	if c.streams == 0 {
		c.requests = l.requesting.enter(c.addr)
		if !c.trusted {
			l.requesting.canLose(c.requests, c)
		}
		l.requesting.add(c.requests, much-1)
	} else {
		l.requesting.add(c.requests, much)
	}
	c.streams += much
	return true
}

// leaveStream ends the count of a request that entered; it is called once for each.
func (l *boundListener) leaveStream(c *boundConn, much int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.network != nil {
		l.removeStreams(c, much)
	}
}

func (l *boundListener) removeStreams(c *boundConn, much int) {
	l.streams -= much
	if c.streams -= much; c.streams == 0 {
		l.requesting.lost(c.requests, c)
	}
	l.requesting.add(c.requests, -much)
}

// remove removes a connection, and its requests, unless that was done before.
func (l *boundListener) remove(c *boundConn) {
	if c.network == nil {
		return
	}
	if c.streams > 0 {
		l.removeStreams(c, c.streams)
	}
	l.clients.lost(c.network, c)
	l.clients.add(c.network, -1)
	c.network = nil
	l.open--
}

// boundConn is a connection that has a place at its listener. It is a TCPConn, which has more methods
// than a net.Conn.
type boundConn struct {
	*net.TCPConn
	listener *boundListener
	// addr is the peer's address, and trusted whether that is a proxy in front.
	addr    netip.Addr
	trusted bool
	// local is the address that the client reached.
	local string
	// framing and passed are used only by the one goroutine that reads. passed is when a
	// request that could be refused early was last passed on, or the connection accepted.
	framing framing
	passed  time.Time
	// header is how many bytes were read since the last answer, and begun whether a request is served, so that what is
	// read is its body. weighs is what the header weighs.
	header, weighs atomic.Int64
	begun          atomic.Bool

	// The fields below are the listener's own, under its lock. network is nil where the connection
	// is closed. streams is the weight of the connection's requests of HTTP/2; requests is their
	// network, and means nothing where there are none.
	network, requests *network[*boundConn]
	streams           int
}

// Read implements net.Conn. It answers a request that is refused early, and goes on to the next
// one. No other request of the connection is under way then, because net/http reads no more
// than one byte of a request before it has answered the one before.
func (c *boundConn) Read(p []byte) (int, error) {
	for {
		n, err := c.TCPConn.Read(p)
		q, whole := c.framing.read(p[:n])
		if !whole {
			return c.count(n, err)
		}
		now := time.Now()
		var answer []byte
		if now.Sub(c.passed) <= passEvery { // else edge_service refuses it, and counts it
			answer = c.listener.refusals.to(q, c)
		}
		if answer == nil {
			c.passed = now
			return c.count(n, err)
		}
		if c.listener.crowds(c) {
			time.Sleep(refusalDelay())
			now = time.Now()
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

// count counts what a read returned, and returns that, or io.EOF where the header has no place.
func (c *boundConn) count(n int, err error) (int, error) {
	if c.begun.Load() {
		return n, err
	}
	has := c.header.Add(int64(n))
	much := min(has, longestHeader)/headerUnit - min(has-int64(n), longestHeader)/headerUnit
	if much > 0 && !c.listener.enterStream(c, int(much)) {
		return 0, io.EOF
	}
	c.weighs.Add(much)
	if c.begun.Load() { // a request of HTTP/2 has begun meanwhile
		c.leaveHeader()
	}
	return n, err
}

// leaveHeader ends what count has counted.
func (c *boundConn) leaveHeader() {
	if much := c.weighs.Swap(0); much > 0 {
		c.listener.leaveStream(c, int(much))
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
