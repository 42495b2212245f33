package wire

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"
)

// maxBody bounds what is passed on, in bytes.
const maxBody = 64 << 20

// Exchange is a request. Pass forwards it, once or more often.
type Exchange struct {
	Path    string
	Request []byte
	// Pass forwards the request, or another one in its place, and returns the answer.
	Pass func(request []byte) (status int, answer []byte)
	// Later forwards the request after a while, also when the client has gone.
	Later func(after time.Duration)
	// Gone is closed when the client has gone.
	Gone   <-chan struct{}
	Random *rand.Rand
}

// Liar returns an answer of its own; a status of 0 means that there is none.
type Liar func(Exchange) (status int, answer []byte)

// HTTP forwards requests to one address.
type HTTP struct {
	server http.Server
	addr   string
	to     string

	mu     sync.Mutex
	fault  Fault
	delay  time.Duration
	share  float64
	lie    Liar
	random *rand.Rand
	later  sync.WaitGroup
}

// NewHTTP listens on a free port of this machine and forwards to an address.
// Random decides which requests a fault hits.
func NewHTTP(ctx context.Context, to string, random *rand.Rand) (*HTTP, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	h := &HTTP{addr: listener.Addr().String(), to: to, random: random}
	h.server = http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	go func() { _ = h.server.Serve(listener) }()
	return h, nil
}

// Addr is where it listens.
func (h *HTTP) Addr() string { return h.addr }

// Set begins a fault that hits a share of the requests; delay is that of Slow.
func (h *HTTP) Set(f Fault, share float64, delay time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fault, h.share, h.delay = f, share, delay
}

// SetLiar sets what answers where the fault is Lie, and what decides from now on.
func (h *HTTP) SetLiar(lie Liar, random *rand.Rand) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lie, h.random = lie, random
}

// Wait returns when nothing is left to be forwarded later.
func (h *HTTP) Wait() { h.later.Wait() }

// Close ends it and all that passes.
func (h *HTTP) Close() error { return h.server.Close() }

// decide returns the fault of one request.
func (h *HTTP) decide() (Fault, time.Duration, Liar, *rand.Rand) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fault == None || h.random.Float64() >= h.share {
		return None, 0, nil, nil
	}
	return h.fault, h.delay, h.lie, rand.New(rand.NewPCG(h.random.Uint64(), 0)) //nolint:gosec // not a secret
}

// ServeHTTP forwards one request, or fails.
func (h *HTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	fault, delay, lie, random := h.decide()
	pass := func(request []byte) (int, []byte) { return h.pass(context.WithoutCancel(r.Context()), r, request) } //nolint:contextcheck // what was forwarded is carried out, also when the client has gone
	switch fault {
	case Slow:
		wait(r.Context(), delay)
	case Hang:
		wait(r.Context(), time.Minute)
		panic(http.ErrAbortHandler)
	case Refuse, CutBefore:
		panic(http.ErrAbortHandler)
	case Status500:
		reply(w, http.StatusInternalServerError, []byte(`{"error":"internal"}`))
		return
	}
	status, answer := 0, []byte(nil)
	if fault == Lie && lie != nil {
		status, answer = lie(Exchange{
			Path: r.URL.Path, Request: request, Pass: pass, Gone: r.Context().Done(), Random: random,
			Later: func(after time.Duration) {
				h.later.Go(func() { time.Sleep(after); pass(request) })
			},
		})
	} else {
		status, answer = pass(request)
	}
	spoil(w, fault, status, answer)
}

// spoil answers with the faults that come after the request.
func spoil(w http.ResponseWriter, fault Fault, status int, answer []byte) {
	switch {
	case fault == CutAfter || status == 0:
		panic(http.ErrAbortHandler)
	case fault == Late500:
		reply(w, http.StatusInternalServerError, []byte(`{"error":"internal"}`))
	case fault == Garbage:
		reply(w, http.StatusOK, []byte("<html><body>Bad gateway</body></html>"))
	case fault == Half:
		reply(w, status, answer[:len(answer)/2])
	default:
		reply(w, status, answer)
	}
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func reply(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// pass forwards; a status of 0 means that there was no whole answer.
func (h *HTTP) pass(ctx context.Context, r *http.Request, request []byte) (int, []byte) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	onward, err := http.NewRequestWithContext(ctx, r.Method, "http://"+h.to+r.URL.RequestURI(), bytes.NewReader(request)) //nolint:gosec // to one address
	if err != nil {
		return 0, nil
	}
	onward.Header = r.Header.Clone()
	onward.Header.Del("Content-Length")            // that of this request is set
	onward.Header.Del("Accept-Encoding")           // so that the answer can be read here
	response, err := http.DefaultClient.Do(onward) //nolint:gosec // to one address
	if err != nil {
		return 0, nil
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err != nil {
		return 0, nil
	}
	return response.StatusCode, answer
}
