package faults

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// linkFault is what a proxy between two programs does to what passes.
type linkFault string

const (
	noFault   linkFault = ""           // forwards everything
	slow      linkFault = "slow"       // holds everything up for a while
	hang      linkFault = "hang"       // forwards nothing and closes nothing
	refuse    linkFault = "refuse"     // closes every connection at once
	cutBefore linkFault = "cut before" // closes the connection in place of forwarding the request
	cutAfter  linkFault = "cut after"  // forwards the request and closes the connection in place of the answer

	// Of HTTP only.
	status500 linkFault = "500"       // answers 500 in place of forwarding the request
	late500   linkFault = "500, done" // forwards the request and answers 500
	garbage   linkFault = "garbage"   // forwards the request and answers what is no JSON
	half      linkFault = "half"      // forwards the request and answers the first half of the answer
	lying     linkFault = "lie"       // answers by a function
)

// tcpProxy forwards connections to one address.
type tcpProxy struct {
	net.Listener
	to string

	mu    sync.Mutex
	fault linkFault
	delay time.Duration
	conns map[net.Conn]bool
}

// newTCPProxy listens on a free port of this machine until the test ends.
func newTCPProxy(ctx context.Context, t *testing.T, to string) *tcpProxy {
	t.Helper()
	p := &tcpProxy{Listener: listen(ctx, t), to: to, conns: map[net.Conn]bool{}}
	go func() {
		for {
			conn, err := p.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				go p.pass(ctx, conn)
			}
		}
	}()
	t.Cleanup(func() {
		_ = p.Close()
		p.set(refuse, 0)
	})
	return p
}

func listen(ctx context.Context, t *testing.T) net.Listener {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

func (p *tcpProxy) addr() string { return p.Addr().String() }

// set begins a fault, with the delay of slow.
func (p *tcpProxy) set(f linkFault, delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault, p.delay = f, delay
	if f == refuse {
		for conn := range p.conns {
			_ = conn.Close()
		}
	}
}

func (p *tcpProxy) now() (linkFault, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault, p.delay
}

// keep notes a connection, unless connections are refused.
func (p *tcpProxy) keep(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault == refuse {
		_ = conn.Close()
		return false
	}
	p.conns[conn] = true
	return true
}

func (p *tcpProxy) drop(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
	_ = conn.Close()
}

func (p *tcpProxy) pass(ctx context.Context, client net.Conn) {
	if !p.keep(client) {
		return
	}
	defer p.drop(client)
	server, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", p.to)
	if err != nil || !p.keep(server) {
		return
	}
	defer p.drop(server)
	var both sync.WaitGroup
	both.Go(func() { p.copy(server, client, cutBefore) })
	both.Go(func() { p.copy(client, server, cutAfter) })
	both.Wait()
}

// copy forwards one direction, until a fault of that direction cuts it.
func (p *tcpProxy) copy(to, from net.Conn, cut linkFault) {
	defer func() { _, _ = to.Close(), from.Close() }()
	chunk := make([]byte, 32<<10)
	for {
		n, err := from.Read(chunk)
		fault, delay := p.now()
		if fault == slow {
			time.Sleep(delay)
		}
		for ; fault == hang; fault, _ = p.now() {
			time.Sleep(5 * time.Millisecond)
		}
		if fault == cut || fault == refuse {
			return
		}
		if _, failed := to.Write(chunk[:n]); failed != nil || err != nil {
			return
		}
	}
}

// exchange is a request to a program that lies.
type exchange struct {
	path    string
	request []byte
	// pass forwards the request, or another one in its place, and returns the answer.
	pass func(request []byte) (status int, answer []byte)
	// later forwards the request after a while, also when the client has gone.
	later func(after time.Duration)
	// gone is closed when the client has gone.
	gone   <-chan struct{}
	random *rand.Rand
}

// liar returns an answer of its own; a status of 0 means that there is none.
type liar func(exchange) (status int, answer []byte)

// httpProxy forwards requests to one address.
type httpProxy struct {
	*httptest.Server
	to string

	mu     sync.Mutex
	fault  linkFault
	delay  time.Duration
	share  float64 // of the requests that the fault hits
	lie    liar
	random *rand.Rand     // decides which requests those are
	late   sync.WaitGroup // what is forwarded later
}

// newHTTPProxy listens on a free port of this machine until the test ends.
func newHTTPProxy(t *testing.T, to string) *httpProxy {
	t.Helper()
	p := &httpProxy{to: to, random: source(0, 0)}
	p.Server = httptest.NewServer(p)
	t.Cleanup(func() {
		p.CloseClientConnections()
		p.Close()
	})
	return p
}

// set begins a fault that hits a share of the requests; delay is that of slow.
func (p *httpProxy) set(f linkFault, share float64, delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault, p.share, p.delay = f, share, delay
}

// setLiar sets what answers where the fault is lying, and what decides from now on.
func (p *httpProxy) setLiar(lie liar, random *rand.Rand) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lie, p.random = lie, random
}

// decide returns the fault of one request.
func (p *httpProxy) decide() (linkFault, time.Duration, liar, *rand.Rand) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault == noFault || p.random.Float64() >= p.share {
		return noFault, 0, nil, nil
	}
	return p.fault, p.delay, p.lie, source(p.random.Uint64(), 0)
}

// ServeHTTP forwards one request, or fails.
func (p *httpProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	kind := "application/json"
	pass := func(request []byte) (int, []byte) {
		status, header, answer := p.forwardWhole(r, request)
		if header != "" {
			kind = header
		}
		return status, answer
	}
	fault, delay, lie, random := p.decide()
	switch fault {
	case slow:
		pause(r.Context(), delay)
	case hang:
		pause(r.Context(), time.Minute)
		panic(http.ErrAbortHandler)
	case refuse, cutBefore:
		panic(http.ErrAbortHandler)
	case status500:
		reply(w, http.StatusInternalServerError, []byte(`{"error":"internal"}`))
		return
	case lying:
		pass = func(request []byte) (int, []byte) {
			return lie(exchange{
				path: r.URL.Path, request: request, gone: r.Context().Done(), random: random,
				pass:  func(request []byte) (int, []byte) { return p.forward(r, request) },
				later: func(after time.Duration) { p.late.Go(func() { time.Sleep(after); p.forward(r, request) }) },
			})
		}
	}
	status, answer := pass(request)
	switch {
	case fault == cutAfter || status == 0:
		panic(http.ErrAbortHandler)
	case fault == late500:
		reply(w, http.StatusInternalServerError, []byte(`{"error":"internal"}`))
	case fault == garbage:
		reply(w, http.StatusOK, []byte("<html><body>Bad gateway</body></html>"))
	case fault == half:
		reply(w, status, answer[:len(answer)/2])
	default:
		replyAs(w, kind, status, answer)
	}
}

func reply(w http.ResponseWriter, status int, body []byte) {
	replyAs(w, "application/json", status, body)
}

func replyAs(w http.ResponseWriter, kind string, status int, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func (p *httpProxy) forward(r *http.Request, request []byte) (int, []byte) {
	status, _, answer := p.forwardWhole(r, request)
	return status, answer
}

// forwardWhole forwards a request, also when its client has gone, and returns the answer
// with its media type; a status of 0 means that there was no whole answer.
func (p *httpProxy) forwardWhole(r *http.Request, request []byte) (status int, kind string, answer []byte) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), time.Minute)
	defer cancel()
	onward, err := http.NewRequestWithContext(ctx, r.Method, "http://"+p.to+r.URL.RequestURI(), bytes.NewReader(request))
	if err != nil {
		return 0, "", nil
	}
	onward.Header = r.Header.Clone()
	onward.Header.Del("Content-Length")  // that of this request is set
	onward.Header.Del("Accept-Encoding") // so that the answer can be read here
	response, err := http.DefaultClient.Do(onward)
	if err != nil {
		return 0, "", nil
	}
	defer func() { _ = response.Body.Close() }()
	answer, err = io.ReadAll(response.Body)
	if err != nil {
		return 0, "", nil
	}
	return response.StatusCode, response.Header.Get("Content-Type"), answer
}
