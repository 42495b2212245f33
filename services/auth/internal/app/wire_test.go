package app_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// wire is a TCP connection to a store that a test may cut or let hang.
type wire struct {
	t      *testing.T
	target string
	listen net.Listener
	// messages counts the messages to the store; from the hangAt-th on, unless that
	// is zero, the wire hangs.
	messages, hangAt atomic.Int64
	// cutAt is the message, or with cutAnswers the answer, that is lost with all
	// connections, unless it is zero.
	cutAt      atomic.Int64
	cutAnswers atomic.Bool
	answers    atomic.Int64
	// delay, in nanoseconds, is how long each message takes.
	delay atomic.Int64

	mu      sync.Mutex
	changed *sync.Cond
	hanging bool
	cut     bool
	open    map[net.Conn]bool
}

func newWire(t *testing.T, target string) *wire {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{t: t, target: target, listen: l, open: map[net.Conn]bool{}}
	w.changed = sync.NewCond(&w.mu)
	go w.serve()
	t.Cleanup(func() { _ = l.Close(); w.set(false, true) })
	return w
}

func (w *wire) addr() string { return w.listen.Addr().String() }

// hang holds back all bytes, while connections stay.
func (w *wire) hang() { w.set(true, false) }

// sever closes all connections and every new one.
func (w *wire) sever() { w.set(false, true) }

// losing severs the wire at the nth message from now, or at the nth answer.
func (w *wire) losing(n int64, answer bool) {
	from := w.messages.Load()
	if answer {
		from = w.answers.Load()
	}
	w.cutAnswers.Store(answer)
	w.cutAt.Store(from + n)
}

// severFrom severs the wire once, if n is the message that is to be lost or a later one: another may come while losing
// counts.
func (w *wire) severFrom(n int64) {
	if at := w.cutAt.Load(); at > 0 && n >= at && w.cutAt.CompareAndSwap(at, 0) {
		w.sever()
	}
}

// mend passes everything on again.
func (w *wire) mend() {
	w.cutAt.Store(0)
	w.set(false, false)
}

func (w *wire) set(hanging, cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hanging, w.cut = hanging, cut
	if cut {
		for conn := range w.open {
			_ = conn.Close()
		}
		clear(w.open)
	}
	w.changed.Broadcast()
}

func (w *wire) serve() {
	for {
		client, err := w.listen.Accept()
		if err != nil {
			return
		}
		go w.connect(client)
	}
}

func (w *wire) connect(client net.Conn) {
	server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", w.target)
	if err != nil || !w.keep(client, server) {
		_ = client.Close()
		if server != nil {
			_ = server.Close()
		}
		return
	}
	go w.copy(client, server, func() {
		if n := w.answers.Add(1); w.cutAnswers.Load() {
			w.severFrom(n)
		}
	})
	w.copy(server, client, func() {
		n := w.messages.Add(1)
		if at := w.hangAt.Load(); at > 0 && n >= at {
			w.hang()
		}
		if !w.cutAnswers.Load() {
			w.severFrom(n)
		}
		time.Sleep(time.Duration(w.delay.Load()))
	})
}

// keep remembers the connections, unless the wire is cut.
func (w *wire) keep(conns ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut {
		return false
	}
	for _, c := range conns {
		w.open[c] = true
	}
	return true
}

func (w *wire) copy(to, from net.Conn, count func()) {
	defer func() { _ = to.Close(); _ = from.Close() }()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			count()
			w.pass()
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass waits while the wire hangs.
func (w *wire) pass() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.hanging && !w.cut {
		w.changed.Wait()
	}
}
