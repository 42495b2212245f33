package faults

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"time"
)

// cut is a connection that its client ends early: after it has sent or read so
// many bytes. Zero means never.
type cut struct {
	net.Conn
	sends, reads int
}

// Write sends until the limit.
func (c *cut) Write(b []byte) (int, error) { return c.until(&c.sends, b, c.Conn.Write) }

// Read reads until the limit.
func (c *cut) Read(b []byte) (int, error) { return c.until(&c.reads, b, c.Conn.Read) }

func (c *cut) until(left *int, b []byte, do func([]byte) (int, error)) (int, error) {
	if *left == 0 {
		return do(b)
	}
	n, err := do(b[:min(len(b), *left)])
	if *left -= n; *left <= 0 && err == nil {
		_ = c.Close()
		err = net.ErrClosed
	}
	return n, err
}

// cutting returns a client that hangs up at a random stage of its one call: while
// it sends, soon after, or while it reads.
func cutting(random *rand.Rand, from net.Addr) *http.Client {
	var sends, reads int
	var after time.Duration
	switch random.IntN(3) {
	case 0:
		sends = 1 + random.IntN(4000)
	case 1:
		after = time.Duration(1+random.IntN(1500)) * time.Millisecond
	default:
		reads = 1 + random.IntN(3000)
	}
	return calling(func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{LocalAddr: from}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if after > 0 {
			time.AfterFunc(after, func() { _ = conn.Close() })
		}
		return &cut{Conn: conn, sends: sends, reads: reads}, nil
	})
}

// answerWithin is the longest wait for one answer.
const answerWithin = 8 * time.Second

// waiting returns a client that waits for its answer, at an address of this machine
// or, with nil, at any.
func waiting(from net.Addr) *http.Client { return calling((&net.Dialer{LocalAddr: from}).DialContext) }

func calling(dial func(ctx context.Context, network, addr string) (net.Conn, error)) *http.Client {
	return &http.Client{Timeout: answerWithin, Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
}
