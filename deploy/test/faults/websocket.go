package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// streamsEndWithin is how long a WebSocket may stay open after its session has
// ended and nothing fails any more.
const streamsEndWithin = 20 * time.Second

// app is an application behind the guard, which ends no WebSocket by itself.
type app struct {
	http.Server
	addr string
}

func newApp(ctx context.Context) (*app, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	a := &app{addr: listener.Addr().String()}
	a.Handler, a.ReadHeaderTimeout = http.HandlerFunc(keepOpen), time.Minute
	go func() { _ = a.Serve(listener) }()
	return a, nil
}

// keepOpen makes a WebSocket of a request, and reads it to its end.
func keepOpen(w http.ResponseWriter, r *http.Request) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
	if err == nil {
		_, _ = io.Copy(io.Discard, conn) // until either side ends it
	}
}

// stream is a WebSocket that a session opened.
type stream struct {
	*session
	conn net.Conn
	done chan struct{} // closed when it has ended
}

// openStream opens a WebSocket to the application behind the guard with a session,
// and notes when it ends.
func (u *users) openStream(ctx context.Context, s *session) {
	if s == nil {
		return
	}
	conn, err := dialStream(ctx, u.URL, s.Cookie)
	if err != nil {
		u.note("a WebSocket of %s is not opened: %v", s.user.name, err)
		return
	}
	u.count("WebSockets opened", 1)
	done := make(chan struct{})
	u.mu.Lock()
	u.streams = append(u.streams, &stream{session: s, conn: conn, done: done})
	u.mu.Unlock()
	go func() {
		defer close(done)
		_, _ = io.Copy(io.Discard, conn)
		u.note("a WebSocket of %s has ended", s.user.name)
	}()
}

// dialStream returns a WebSocket once it is open.
func dialStream(ctx context.Context, url, cookies string) (net.Conn, error) {
	addr := strings.TrimPrefix(url, "http://")
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	end, _ := ctx.Deadline()
	_, err = io.WriteString(conn, "GET /api/v1/shopping HTTP/1.1\r\nHost: "+addr+"\r\nOrigin: "+url+"\r\nCookie: "+cookies+
		"\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	err = errors.Join(err, conn.SetDeadline(end))
	if err == nil {
		var answer *http.Response
		if answer, err = http.ReadResponse(bufio.NewReader(conn), nil); err == nil && answer.StatusCode != http.StatusSwitchingProtocols {
			err = errors.New(answer.Status)
			_ = answer.Body.Close()
		}
	}
	if err = errors.Join(err, conn.SetDeadline(time.Time{})); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// streamsEnd judges that the WebSockets of sessions that are over end soon, and
// closes the others.
func (u *users) streamsEnd(within time.Duration) {
	timeout := time.After(within)
	for _, s := range u.streams {
		if why := s.over(); why != "" {
			select {
			case <-s.done:
				u.count("WebSockets ended with their sessions", 1)
			case <-timeout:
				timeout = time.After(0) // for all that follow
				u.violated("a WebSocket of %s is still open after %s", s.user.name, why)
			}
		}
		_ = s.conn.Close()
	}
}
