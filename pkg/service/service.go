package service

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
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
	// Opened runs once while the handler of Open serves already, before the service
	// is announced. Its error ends the service.
	Opened func(context.Context) error
	// Background is what runs beside the requests. Its context ends after the last
	// request.
	Background []func(context.Context)
	// Close closes what Open opened, even where Open failed. It is called last.
	Close func(context.Context) error
	// Starting is the body of a 503 until Open has returned.
	Starting string
	// Drain bounds how long a stop waits for requests under way; zero means 30
	// seconds.
	Drain time.Duration
}

// New returns a service with its log, its metrics and, where the settings name a
// collector, its traces.
func New(ctx context.Context, name string, p Process, s Settings) (*Service, error) {
	log, err := logging.New(p.Stderr, s.LogLevel)
	if err != nil {
		return nil, err
	}
	tracer, err := tracing.Start(ctx, tracing.Options{
		Settings: s.Tracing, Service: name, Version: p.Version, Log: log, Trusted: s.TrustedProxies.Sent,
	})
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return &Service{Name: name, Settings: s, Process: p, Log: log, Tracer: tracer, Registry: registry}, nil
}

// Run listens on both addresses, opens the parts, and serves until ctx ends or
// something fails. It then finishes the requests under way, ends what runs
// beside them, and closes the parts.
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
			s.Log.InfoContext(ctx, "serving", "addr", addrs[0].String(), "admin_addr", addrs[1].String(), "version", s.Process.Version)
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

// open has first serve what Open returns, and runs Opened.
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

// starting answers 503 until there is a handler, so that the address is taken
// from the beginning. Then it adds the answer to ReadyPath.
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

// Pauses between two attempts to reach a store.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
)

// WaitFor calls open until it succeeds, with growing pauses and a line in the log
// for each, and returns an error for which mayCome does not report true.
func WaitFor(ctx context.Context, log *slog.Logger, store string, open func(context.Context) error, mayCome func(error) bool) error {
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
