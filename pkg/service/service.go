package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pforte/pforte/pkg/clientaddr"
	"github.com/pforte/pforte/pkg/logging"
	"github.com/pforte/pforte/pkg/tracing"
)

// Settings are the settings that both services have.
type Settings struct {
	Addr, AdminAddr string
	ShutdownDelay   time.Duration
	LogLevel        string
	TrustedProxies  clientaddr.Proxies
	Tracing         tracing.Settings
}

// Service is a program that serves HTTP on two addresses: Addr, and AdminAddr
// with /livez and /metrics, which must not be reachable from outside.
type Service struct {
	Name string
	Settings
	Process  Process
	Log      *slog.Logger
	Tracer   *tracing.Tracer // nil when there are no traces
	Registry *prometheus.Registry
}

// Parts are what one service adds. All but Open may be left out.
type Parts struct {
	// Open opens the stores and returns the handler of Addr.
	Open func(context.Context) (http.Handler, error)
	// Opened runs once while the handler of Open serves already, before Background and
	// Process.Ready. Its error ends the service.
	Opened func(context.Context) error
	// Background is what runs beside the requests. Its context ends when the servers have stopped.
	Background []func(context.Context)
	// Close closes what Open opened, even where Open failed or never ran. It is called after all other parts.
	Close func(context.Context) error
	// Starting is the body of a 503 until Open has returned.
	Starting string
	// Drain bounds how long a stop waits for requests under way; zero means 30
	// seconds.
	Drain time.Duration
}

// New returns a service with its log, its metrics and, where the settings turn them on,
// its traces.
func New(ctx context.Context, name string, p Process, s Settings) (*Service, error) {
	log, err := logging.New(p.Stderr, s.LogLevel)
	if err != nil {
		return nil, err
	}
	for _, n := range s.TrustedProxies {
		if n.Bits() == 0 {
			log.WarnContext(ctx, "TRUSTED_PROXIES trusts every address: clients choose the address that limits "+
				"count them by", "network", n.String())
		}
	}
	tracer, err := tracing.Start(ctx, tracing.Options{
		Settings: s.Tracing, Service: name, Version: p.Version, Log: log, Trusted: s.TrustedProxies.Sent,
	})
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return &Service{Name: name, Settings: s, Process: p, Log: log, Tracer: tracer, Registry: registry}, nil
}

// Run listens on both addresses, opens the parts, and serves until ctx ends or
// something fails. It then stops the servers (Serve), ends what runs beside the
// requests, and closes the parts.
func (s *Service) Run(ctx context.Context, parts Parts) error {
	defer s.Tracer.Stop(ctx)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	background, end := context.WithCancel(context.WithoutCancel(ctx)) // the last requests need it as the first do
	defer end()
	first := &starting{body: parts.Starting}
	var failure error
	var work sync.WaitGroup
	ready := func(addrs []net.Addr) {
		work.Go(func() {
			if err := parts.open(ctx, first); err != nil {
				if ctx.Err() == nil {
					failure = err
				}
				stop()
				return
			}
			for _, run := range parts.Background {
				work.Go(func() { run(background) })
			}
			s.Log.InfoContext(ctx, "serving", "addr", addrs[0].String(), "admin_addr", addrs[1].String(), "version",
				s.Process.Version)
			if s.Process.Ready != nil {
				s.Process.Ready(addrs[0], addrs[1])
			}
		})
	}
	metrics := promhttp.HandlerFor(s.Registry, promhttp.HandlerOpts{})
	err := Serve(ctx, ready,
		Server{Name: "ADDR", Addr: s.Addr, Handler: first, Leave: s.ShutdownDelay, Drain: parts.Drain},
		Server{Name: "ADMIN_ADDR", Addr: s.AdminAddr, Handler: Admin(metrics), Leave: s.ShutdownDelay})
	stop()
	end()
	work.Wait()
	err = errors.Join(failure, err)
	if parts.Close != nil {
		err = errors.Join(err, parts.Close(context.WithoutCancel(ctx)))
	}
	if err == nil {
		s.Log.InfoContext(ctx, "stopped")
	}
	return err
}

// open calls Open, has first serve the handler that it returns, and calls Opened.
func (p Parts) open(ctx context.Context, first *starting) error {
	handler, err := p.Open(ctx)
	if err != nil {
		return err
	}
	first.next.Store(&handler)
	if p.Opened == nil {
		return nil
	}
	return p.Opened(ctx)
}

// starting answers 503 until there is a handler, so that the address is taken from the
// beginning. Then it passes requests on to the handler, except GET and HEAD of ReadyPath,
// which it answers.
type starting struct {
	body string
	next atomic.Pointer[http.Handler]
}

// ServeHTTP implements http.Handler.
func (s *starting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	next := s.next.Load()
	switch {
	case next == nil:
		w.Header().Set("Retry-After", "1")
		w.Header().Set(RequestIDHeader, RequestID(r))
		writeJSON(w, http.StatusServiceUnavailable, s.body)
	case isReadyRequest(r):
		writeJSON(w, http.StatusOK, `{"status":"ok"}`)
	default:
		(*next).ServeHTTP(w, r)
	}
}

func writeJSON(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// Bounds on one connection, and the default of Server.Drain. http.Server.WriteTimeout is not set,
// because it counts from the request: an answer may wait for a payment to settle, so handlers bound
// their own work. A client that does not take writePiece bytes within writeTimeout is cut off.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 30 * time.Second
	writePiece        = 128 << 10
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
	defaultDrain      = 30 * time.Second
)

// heapReserve is by how much more the garbage of a server may grow before it is collected,
// in bytes. Go collects when a heap has grown to twice what is in use; a server of small
// answers uses a few megabytes, and would collect dozens of times a second.
const heapReserve = 8 << 20

// Server is one HTTP server of a program.
type Server struct {
	// Name is the setting of its address, for errors.
	Name string
	// Addr is the TCP address to listen on; port 0 takes a free one.
	Addr    string
	Handler http.Handler
	// Leave is how long a stop first goes on serving, so that load balancers, which
	// request ReadyPath, send no more requests; zero for not at all.
	Leave time.Duration
	// Drain bounds how long a stop then waits for requests under way; zero means 30
	// seconds.
	Drain time.Duration
}

// Serve listens on all addresses, calls ready with them, serves until ctx ends or a
// server fails, and then stops all servers: after Leave they take no new requests,
// and those under way have Drain to finish. It returns nil after a stop by ctx in
// which all requests finished.
func Serve(ctx context.Context, ready func([]net.Addr), servers ...Server) error {
	listeners, addrs := make([]net.Listener, len(servers)), make([]net.Addr, len(servers))
	for i, s := range servers {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Addr)
		if err != nil {
			for _, l := range listeners[:i] {
				_ = l.Close()
			}
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		listeners[i], addrs[i] = l, l.Addr()
	}
	// Nothing touches these bytes, so that the system allocates no memory for them; the garbage
	// that they allow for takes some. Unlike a higher GOGC they allow for no more in a
	// large heap than in a small one.
	defer runtime.KeepAlive(make([]byte, heapReserve))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, len(servers))
	for i, s := range servers {
		go func() {
			defer stop()
			ended <- s.run(ctx, listeners[i])
		}()
	}
	ready(addrs)
	var errs []error
	for range servers {
		errs = append(errs, <-ended)
	}
	return errors.Join(errs...)
}

func (s Server) run(ctx context.Context, l net.Listener) error {
	handler := &leaving{next: s.Handler}
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
	}
	drained := make(chan error, 1)
	context.AfterFunc(ctx, func() {
		handler.leave.Store(true)
		time.Sleep(s.Leave)
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), cmp.Or(s.Drain, defaultDrain))
		defer cancel()
		drained <- server.Shutdown(within)
	})
	if err := server.Serve(listener{l, writeTimeout}); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	if err := <-drained; err != nil {
		return fmt.Errorf("%s: stopped with requests under way: %w", s.Name, err)
	}
	return nil
}

// listener accepts connections whose peers have to read what is written.
type listener struct {
	net.Listener
	timeout time.Duration // of each writePiece
}

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	// The kernel takes more only when a third of its buffer has been read, and grows that to megabytes: a client
	// that reads far more than writePiece within the timeout would be cut off.
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(writePiece)
	}
	return conn{c, l.timeout}, nil
}

// conn is a connection whose peer has timeout for each writePiece bytes.
type conn struct {
	net.Conn
	timeout time.Duration
}

// Write implements net.Conn.
func (c conn) Write(p []byte) (n int, err error) {
	for piece := range slices.Chunk(p, writePiece) {
		if err := c.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
			return n, err
		}
		m, err := c.Conn.Write(piece)
		if n += m; err != nil {
			return n, err
		}
	}
	return n, nil
}

// CloseWrite is what net/http looks for, so that a client reads an answer that ends its connection.
func (c conn) CloseWrite() error {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		return tcp.CloseWrite()
	}
	return nil
}

// ReadyPath is the path that a load balancer requests of each replica. Like all
// paths below /internal/ it is not for outside. The status is 200 whatever the
// stores do: replicas share them, so that one that cannot reach a store is no
// worse than the others. It is 503 before a service has opened its stores, and
// while it stops.
const ReadyPath = "/internal/ready"

func isReadyRequest(r *http.Request) bool {
	return r.URL.Path == ReadyPath && (r.Method == http.MethodGet || r.Method == http.MethodHead)
}

// leaving is a handler whose clients are to leave once leave is set: it is not
// ready, and the answer to each later request closes its connection. A client that
// keeps idle connections then has fewer on which it could send a request at the
// moment at which the server closes them.
type leaving struct {
	next  http.Handler
	leave atomic.Bool
}

// ServeHTTP implements http.Handler.
func (l *leaving) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if l.leave.Load() {
		w.Header().Set("Connection", "close")
		if isReadyRequest(r) {
			writeJSON(w, http.StatusServiceUnavailable, `{"status":"leaving"}`)
			return
		}
	}
	l.next.ServeHTTP(w, r)
}

// Admin returns the handler of a program's internal address: GET /livez reports
// that the process runs, whatever its stores do, and GET /metrics is metrics.
func Admin(metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, `{"status":"ok"}`)
	})
	mux.Handle("GET /metrics", metrics)
	return mux
}

// Pauses between two attempts to reach a store.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
)

// WaitFor calls open until it succeeds, with growing pauses and a line in the log before
// each. mayCome reports whether the store may still come after an error of open, which is
// returned at once if not. When ctx ends it returns ctx.Err().
func WaitFor(
	ctx context.Context, log *slog.Logger, store string, open func(context.Context) error, mayCome func(error) bool,
) error {
	began := time.Now()
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		err := open(ctx)
		if err == nil {
			if waited := time.Since(began); waited > firstPause {
				log.InfoContext(ctx, "reached "+store, "after", waited.Round(time.Millisecond).String())
			}
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !mayCome(err) {
			return err
		}
		log.WarnContext(ctx, "waiting for "+store, "error", err, "next_attempt_in", pause.String())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}
