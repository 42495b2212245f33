package edge

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

const (
	// maxResponseHeader is how long the header of a service's response may be, in bytes, with the
	// responses 1xx before it.
	maxResponseHeader = 1 << 20
	// maxInformational is how many responses 1xx may come before the final one.
	maxInformational = 5
)

var (
	errHeaderLong    = errors.New("the header of the response is too long")
	errInformational = errors.New("too many informational responses, or an upgrade that was not requested")
)

// Transport is the transport of a reverse_proxy to a service of one's own: that of Caddy
// with the same options. But most requests whose body edge_service has read, without TLS to
// the service, do not go through net/http, which hands each request to two other goroutines
// and back: the goroutine of such a request writes it and reads the response.
type Transport struct {
	reverseproxy.HTTPTransport

	dial dialFunc
	pool *connPool
	// plain is whether the options let requests go without net/http's transport.
	plain bool
}

// CaddyModule returns the Caddy module information.
func (Transport) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.reverse_proxy.transport.edge", New: func() caddy.Module { return new(Transport) }}
}

// Provision implements caddy.Provisioner.
func (t *Transport) Provision(ctx caddy.Context) error {
	if err := t.HTTPTransport.Provision(ctx); err != nil {
		return fmt.Errorf("transport edge: %w", err)
	}
	t.dial = (&net.Dialer{Timeout: time.Duration(t.DialTimeout)}).DialContext
	t.pool = &connPool{
		timeout: time.Duration(t.KeepAlive.IdleConnTimeout), most: t.KeepAlive.MaxIdleConnsPerHost,
		idle: map[string][]*serverConn{},
	}
	t.plain = slices.Equal(t.Versions, []string{"1.1", "2"}) && t.ProxyProtocol == "" && t.LocalAddress == "" &&
		t.Resolver == nil &&
		t.MaxConnsPerHost == 0 && t.ReadTimeout == 0 && t.WriteTimeout == 0 && (t.KeepAlive.Enabled == nil ||
		*t.KeepAlive.Enabled)
	return nil
}

// Cleanup implements caddy.CleanerUpper.
func (t *Transport) Cleanup() error {
	t.pool.close()
	return t.HTTPTransport.Cleanup()
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	addr, ok := t.direct(r)
	if !ok {
		return t.HTTPTransport.RoundTrip(r)
	}
	if c := t.pool.get(addr); c != nil {
		res, err := t.exchange(c, r)
		// The service closed the connection just now, perhaps after it got the request. One
		// that did not answer in time has it, and gets no second one.
		if err == nil || c.answered || !repeatable(r) || r.Context().Err() != nil ||
			errors.Is(err, os.ErrDeadlineExceeded) {
			return res, err
		}
	}
	conn, err := t.dial(r.Context(), "tcp", addr)
	if err != nil {
		return nil, reverseproxy.NewDialError(err)
	}
	return t.exchange(newServerConn(conn, addr), r)
}

// direct returns the address of the server and reports whether a request can be sent
// without net/http's transport.
func (t *Transport) direct(r *http.Request) (addr string, ok bool) {
	x, ok := caddyhttp.GetVar(r.Context(), exchangeVar).(*exchange)
	if !ok || !x.whole || !t.plain || t.TLS != nil || len(r.Header["Upgrade"]) > 0 || len(r.Header["Expect"]) > 0 ||
		len(r.Trailer) > 0 {
		return "", false
	}
	server, ok := reverseproxy.GetDialInfo(r.Context())
	if !ok || server.Network != "tcp" {
		return "", false
	}
	t.SetScheme(r)
	if forward, err := t.Transport.Proxy(r); forward != nil || err != nil {
		return "", false
	}
	return server.Address, true
}

// repeatable reports whether a request that a server may have got can be sent again.
func repeatable(r *http.Request) bool {
	safe := r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions ||
		r.Method == http.MethodTrace
	return safe && (r.Body == nil || r.Body == http.NoBody)
}

// exchange sends a request and returns the response, whose body returns the connection
// to the pool when it is read to its end. A request whose context ends, or whose response
// does not have its header in time, ends the connection.
func (t *Transport) exchange(c *serverConn, r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	c.answered, c.left = false, maxResponseHeader
	if t.ResponseHeaderTimeout > 0 {
		_ = c.SetDeadline(time.Now().Add(time.Duration(t.ResponseHeaderTimeout))) // an error comes again at once
	}
	b := &responseBody{pool: t.pool, conn: c, stop: context.AfterFunc(ctx, c.abort)}
	res, err := c.roundTrip(r)
	if err != nil {
		b.end(false)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	c.left = math.MaxInt64
	if t.ResponseHeaderTimeout > 0 && (res.ContentLength < 0 || res.ContentLength > int64(c.r.Buffered())) {
		_ = c.SetDeadline(time.Time{})
		if ctx.Err() != nil { // abort may have come before
			c.abort()
		}
	}
	b.keep = !res.Close
	if res.Body == http.NoBody {
		b.end(true)
		return res, nil
	}
	b.ReadCloser, res.Body = res.Body, b
	return res, nil
}

type serverConn struct {
	net.Conn
	addr string
	r    *bufio.Reader
	w    *bufio.Writer
	raw  syscall.RawConn
	// abort ends what is read and written.
	abort func()
	// left is how many bytes may still be read.
	left int64
	// answered is whether a byte of the response has come.
	answered bool
	idle     time.Time
}

func newServerConn(conn net.Conn, addr string) *serverConn {
	c := &serverConn{Conn: conn, addr: addr, w: bufio.NewWriter(conn), abort: func() {
		_ = conn.SetDeadline(time.Unix(1, 0))
	}}
	c.r = bufio.NewReader(c)
	if tcp, ok := conn.(syscall.Conn); ok {
		c.raw, _ = tcp.SyscallConn() // nil is a connection that cannot be checked
	}
	return c
}

// Read implements io.Reader.
func (c *serverConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errHeaderLong
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	c.answered = c.answered || n > 0
	return n, err
}

// alive reports whether the connection can be checked, and the server has neither closed
// it nor sent anything unasked. The deadline of the last exchange, which may have passed,
// does not matter: Control ignores deadlines.
func (c *serverConn) alive() bool {
	if c.raw == nil {
		return false
	}
	var fault error
	err := c.raw.Control(func(fd uintptr) {
		var b [1]byte
		_, _, fault = syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	})
	return err == nil && (fault == syscall.EAGAIN || fault == syscall.EINTR)
}

// roundTrip sends a request and reads the header of its response.
func (c *serverConn) roundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Write(c.w); err != nil {
		return nil, err
	}
	if err := c.w.Flush(); err != nil {
		return nil, err
	}
	for range maxInformational + 1 {
		res, err := http.ReadResponse(c.r, r)
		if err != nil {
			return nil, err
		}
		if res.StatusCode >= http.StatusOK {
			return res, nil
		}
		trace := httptrace.ContextClientTrace(r.Context())
		if res.StatusCode == http.StatusSwitchingProtocols || trace == nil {
			break
		}
		if err := trace.Got1xxResponse(res.StatusCode, textproto.MIMEHeader(res.Header)); err != nil {
			return nil, err
		}
	}
	return nil, errInformational
}

// responseBody is the body of a response, and ends the use of its connection.
type responseBody struct {
	io.ReadCloser
	pool *connPool
	conn *serverConn
	stop func() bool
	// keep is whether the server keeps the connection.
	keep  bool
	ended bool
}

// Read implements io.Reader.
func (b *responseBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end(errors.Is(err, io.EOF))
	}
	return n, err
}

// Close implements io.Closer.
func (b *responseBody) Close() error {
	b.end(false)
	return nil
}

// end returns the connection to the pool if the body was read whole and the connection can be
// used again, or closes it.
func (b *responseBody) end(whole bool) {
	if b.ended {
		return
	}
	b.ended = true
	if !b.stop() || !whole || !b.keep || b.conn.r.Buffered() > 0 {
		_ = b.conn.Conn.Close()
		return
	}
	b.pool.put(b.conn)
}

// connPool has connections that nothing uses.
type connPool struct {
	// timeout is how long one is kept, most how many of a server.
	timeout time.Duration
	most    int

	mu sync.Mutex
	// idle are the connections to each address, in the order in which they came.
	idle   map[string][]*serverConn
	timer  *time.Timer
	closed bool
}

// get takes the connection to an address that was used last and is still alive, nil where there is none.
func (p *connPool) get(addr string) *serverConn {
	for {
		p.mu.Lock()
		all := p.idle[addr]
		if len(all) == 0 {
			p.mu.Unlock()
			return nil
		}
		c := all[len(all)-1]
		all[len(all)-1] = nil
		p.idle[addr] = all[:len(all)-1]
		p.mu.Unlock()
		if time.Since(c.idle) < p.timeout && c.alive() {
			return c
		}
		_ = c.Conn.Close()
	}
}

func (p *connPool) put(c *serverConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle[c.addr]) >= p.most {
		_ = c.Conn.Close()
		return
	}
	c.idle = time.Now()
	p.idle[c.addr] = append(p.idle[c.addr], c)
	if p.timer == nil {
		p.timer = time.AfterFunc(p.timeout, p.sweep)
	}
}

// sweep closes the connections that have been kept for timeout, and all if the pool is closed.
func (p *connPool) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := time.Now().Add(-p.timeout)
	p.timer = nil
	var oldest time.Time // of those that are left
	for addr, all := range p.idle {
		n := 0
		for ; n < len(all) && (p.closed || !all[n].idle.After(old)); n++ {
			_ = all[n].Conn.Close()
		}
		if all = slices.Delete(all, 0, n); len(all) == 0 {
			delete(p.idle, addr)
			continue
		}
		p.idle[addr] = all
		if oldest.IsZero() || all[0].idle.Before(oldest) {
			oldest = all[0].idle
		}
	}
	if !oldest.IsZero() {
		p.timer = time.AfterFunc(oldest.Sub(old), p.sweep)
	}
}

func (p *connPool) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.sweep()
}

var (
	_ caddy.Provisioner  = (*Transport)(nil)
	_ caddy.CleanerUpper = (*Transport)(nil)
	_ http.RoundTripper  = (*Transport)(nil)
)
