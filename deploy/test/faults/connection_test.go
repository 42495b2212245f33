package faults

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"time"
)

// cut is a connection that its client ends early: after it has sent or read so
// many bytes, or after a time. Zero means never.
type cut struct {
	net.Conn
	sends, reads int
}

// Write sends until the limit.
func (c *cut) Write(b []byte) (int, error) {
	if c.sends == 0 {
		return c.Conn.Write(b)
	}
	n, err := c.Conn.Write(b[:min(len(b), c.sends)])
	if c.sends -= n; c.sends <= 0 && err == nil {
		_ = c.Close()
		err = net.ErrClosed
	}
	return n, err
}

// Read reads until the limit.
func (c *cut) Read(b []byte) (int, error) {
	if c.reads == 0 {
		return c.Conn.Read(b)
	}
	n, err := c.Conn.Read(b[:min(len(b), c.reads)])
	if c.reads -= n; c.reads <= 0 && err == nil {
		_ = c.Close()
		err = net.ErrClosed
	}
	return n, err
}

// cutting returns a client that hangs up at a random stage of its one call: while
// it sends, soon after, or while it reads.
func cutting(random *rand.Rand, from net.Addr) *http.Client {
	c := cut{}
	after := time.Duration(0)
	switch random.IntN(3) {
	case 0:
		c.sends = 1 + random.IntN(4000)
	case 1:
		after = time.Duration(1+random.IntN(1500)) * time.Millisecond
	default:
		c.reads = 1 + random.IntN(3000)
	}
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{LocalAddr: from}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if after > 0 {
			time.AfterFunc(after, func() { _ = conn.Close() })
			return conn, nil
		}
		return &cut{Conn: conn, sends: c.sends, reads: c.reads}, nil
	}
	return &http.Client{Timeout: answerWithin, Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
}

// answerWithin is the longest wait for one answer.
const answerWithin = 8 * time.Second

// waiting returns a client that waits for its answer, at an address of this machine
// or, with nil, at any.
func waiting(from net.Addr) *http.Client {
	return &http.Client{Timeout: answerWithin, Transport: &http.Transport{
		DialContext: (&net.Dialer{LocalAddr: from}).DialContext, DisableKeepAlives: true,
	}}
}
