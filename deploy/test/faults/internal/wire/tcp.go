package wire

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// Fault is what happens to what passes.
type Fault int

// The faults. Those below Lie are of HTTP only, except where TCP names them.
const (
	// None forwards everything.
	None Fault = iota
	// Slow holds everything up for a while (TCP, HTTP).
	Slow
	// Hang forwards nothing and closes nothing (TCP, HTTP).
	Hang
	// Refuse closes every connection at once (TCP, HTTP).
	Refuse
	// CutBefore closes the connection before the request was forwarded (TCP, HTTP).
	CutBefore
	// CutAfter forwards the request and closes the connection in place of the
	// answer (TCP, HTTP).
	CutAfter
	// Status500 answers 500 in place of forwarding the request.
	Status500
	// Late500 forwards the request and answers 500.
	Late500
	// Garbage forwards the request and answers what is no JSON.
	Garbage
	// Half forwards the request and answers the first half of the answer.
	Half
	// Lie answers by a function.
	Lie
)

// TCP forwards connections to one address.
type TCP struct {
	listener net.Listener
	to       string

	mu    sync.Mutex
	fault Fault
	delay time.Duration
	conns map[net.Conn]bool
}

// NewTCP listens on a free port of this machine and forwards to an address.
func NewTCP(ctx context.Context, to string) (*TCP, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	t := &TCP{listener: listener, to: to, conns: map[net.Conn]bool{}}
	go t.serve() //nolint:contextcheck // until it is closed
	return t, nil
}

// Addr is where it listens.
func (t *TCP) Addr() string { return t.listener.Addr().String() }

// Set begins a fault, with the delay of Slow.
func (t *TCP) Set(f Fault, delay time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fault, t.delay = f, delay
	if f == Refuse {
		t.closeAll()
	}
}

// Close ends it and all that passes.
func (t *TCP) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fault = Refuse
	t.closeAll()
	return t.listener.Close()
}

func (t *TCP) closeAll() {
	for conn := range t.conns {
		_ = conn.Close()
	}
}

func (t *TCP) now() (Fault, time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.fault, t.delay
}

func (t *TCP) serve() {
	for {
		conn, err := t.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			go t.pass(conn)
		}
	}
}

// keep notes a connection, unless connections are refused.
func (t *TCP) keep(conn net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fault == Refuse {
		_ = conn.Close()
		return false
	}
	t.conns[conn] = true
	return true
}

func (t *TCP) drop(conn net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.conns, conn)
	_ = conn.Close()
}

func (t *TCP) pass(client net.Conn) {
	if !t.keep(client) {
		return
	}
	defer t.drop(client)
	server, err := (&net.Dialer{Timeout: time.Second}).DialContext(context.Background(), "tcp", t.to)
	if err != nil || !t.keep(server) {
		return
	}
	defer t.drop(server)
	var both sync.WaitGroup
	both.Go(func() { t.copy(server, client, CutBefore) })
	both.Go(func() { t.copy(client, server, CutAfter) })
	both.Wait()
}

// copy forwards one direction, until a fault of that direction cuts it.
func (t *TCP) copy(to, from net.Conn, cut Fault) {
	defer func() { _, _ = to.Close(), from.Close() }()
	chunk := make([]byte, 32<<10)
	for {
		n, err := from.Read(chunk)
		fault, delay := t.now()
		if fault == Slow {
			time.Sleep(delay)
		}
		for ; fault == Hang; fault, _ = t.now() {
			time.Sleep(5 * time.Millisecond)
		}
		if fault == cut || fault == Refuse {
			return
		}
		if _, failed := to.Write(chunk[:n]); failed != nil || err != nil {
			return
		}
	}
}
