package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
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

// Server is one HTTP server of a program.
type Server struct {
	// Name says in errors which server it is.
	Name string
	// Addr is the TCP address to listen on; port 0 takes a free one.
	Addr    string
	Handler http.Handler
	// Leave is how long a stop goes on serving first, so that load balancers
	// that ask for ReadyPath send nothing more; zero for none.
	Leave time.Duration
	// Drain bounds how long a stop then waits for requests under way; zero means 30
	// seconds.
	Drain time.Duration
	// Ready, when set, is called with the address once the server listens.
	Ready func(net.Addr)
}

// Run listens on all addresses, then serves until ctx ends or a server fails,
// and then stops all servers: after Leave no new requests, those under way finish
// within Drain. It returns nil after a stop by ctx in which all requests finished.
func Run(ctx context.Context, servers ...Server) error {
	listeners, err := listen(ctx, servers)
	if err != nil {
		return err
	}
	defer keepHeapRoom()()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, len(servers))
	for i, s := range servers {
		go func() {
			defer stop()
			ended <- s.run(ctx, listeners[i])
		}()
	}
	var faults []error
	for range servers {
		faults = append(faults, <-ended)
	}
	return errors.Join(faults...)
}

// listen takes all addresses before the first request is served, so that a
// program never half starts.
func listen(ctx context.Context, servers []Server) ([]net.Listener, error) {
	var listeners []net.Listener
	for _, s := range servers {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Addr)
		if err != nil {
			for _, l := range listeners {
				_ = l.Close()
			}
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		listeners = append(listeners, l)
	}
	return listeners, nil
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
	if s.Ready != nil {
		s.Ready(l.Addr())
	}
	drained := make(chan error, 1)
	go func() {
		<-ctx.Done()
		handler.leave.Store(true)
		time.Sleep(s.Leave)
		drain := s.Drain
		if drain == 0 {
			drain = defaultDrain
		}
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
		defer cancel()
		drained <- server.Shutdown(within)
	}()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	if err := <-drained; err != nil {
		return fmt.Errorf("%s: stopped with requests under way: %w", s.Name, err)
	}
	return nil
}
