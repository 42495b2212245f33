package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"
)

// Bounds on one connection. Writing is not bounded here: an answer may wait for
// a payment to settle, so handlers bound their own work.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
	defaultDrain      = 30 * time.Second
)

// heapReserve is what a server may leave to the collector of garbage before it has
// to run, in bytes. Go grows a heap to twice what is in use; a server of
// small answers uses a few megabytes, and would collect dozens of times a second.
const heapReserve = 32 << 20

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
// and those under way finish within Drain. It returns nil after a stop by ctx in
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
	// Nothing touches these bytes, so that they are addresses and no memory; the
	// garbage that may gather is. Unlike a higher GOGC that is no more for a large
	// heap than for a small one.
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
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	if err := <-drained; err != nil {
		return fmt.Errorf("%s: stopped with requests under way: %w", s.Name, err)
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
// ready, and every answer closes its connection. A client that keeps idle
// connections then has none on which it could send a request at the moment at
// which the server closes it.
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
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, `{"status":"ok"}`) })
	mux.Handle("GET /metrics", metrics)
	return mux
}
