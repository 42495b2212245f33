package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/pkg/logging"
	"github.com/pforte/pforte/pkg/serve"
	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/pkg/tracing"
	"github.com/pforte/pforte/services/auth/internal/config"
	"github.com/pforte/pforte/services/auth/internal/password"
)

// serveCommand is "auth serve".
func serveCommand(ctx context.Context, p Process, args []string) error {
	if _, err := parse(newFlags("serve"), args); err != nil {
		return err
	}
	cfg, err := config.Load(p.Getenv)
	if err != nil {
		return fmt.Errorf("the settings are wrong:\n%w", err)
	}
	log, err := logging.New(p.Stderr, cfg.LogLevel)
	if err != nil {
		return err
	}
	redis.SetLogger(redisLog{log})
	if cfg.RandomSecret {
		log.WarnContext(ctx, "SESSION_SECRET is not set: all sessions end with this process")
	}
	if cfg.WeakSecret() {
		log.WarnContext(ctx, "SESSION_SECRET or SESSION_SECRET_PREVIOUS is short: who guesses it makes session cookies; openssl rand -hex 32 makes a good one")
	}
	tracer, err := startTracing(ctx, cfg, p.Version, log)
	if err != nil {
		return err
	}
	defer tracer.Stop(ctx)
	s := &service{
		cfg: cfg, log: log, tracer: tracer, passwords: p.Passwords, registry: newRegistry(), watch: newStoreMetrics(), ready: p.Ready,
		addr: make(chan net.Addr, 1), admin: make(chan net.Addr, 1),
	}
	return s.run(ctx)
}

// service is the running program.
type service struct {
	cfg       config.Config
	log       *slog.Logger
	tracer    *tracing.Tracer
	passwords password.Options
	registry  *prometheus.Registry
	watch     *storeMetrics
	ready     func(addr, admin net.Addr)
	main      starting
	// stores is set while they are open. They are closed after the last request.
	stores *stores
	// addr and admin get the addresses once both servers listen.
	addr, admin chan net.Addr
}

// run serves at once, and in earnest when the stores are there. It ends with ctx,
// after the requests under way, or with the first failure.
func (s *service) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var failure error
	var work sync.WaitGroup
	work.Go(func() {
		if failure = s.work(ctx); failure != nil {
			stop()
		}
	})
	err := serve.Run(ctx,
		serve.Server{Name: "ADDR", Addr: s.cfg.Addr, Handler: &s.main, Leave: s.cfg.ShutdownDelay, Ready: func(a net.Addr) { s.addr <- a }},
		serve.Server{
			Name: "ADMIN_ADDR", Addr: s.cfg.AdminAddr, Handler: serve.Admin(promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{})),
			Leave: s.cfg.ShutdownDelay,
			Ready: func(a net.Addr) { s.admin <- a },
		},
	)
	stop()
	work.Wait()
	if s.stores != nil {
		failure = errors.Join(failure, s.stores.Close())
	}
	if err = errors.Join(failure, err); err == nil {
		s.log.Info("stopped")
	}
	return err
}

// work waits for the stores, opens the house, and does what has to be done
// beside the requests, until ctx ends.
func (s *service) work(ctx context.Context) error {
	if err := s.open(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // told to stop while it waited
		}
		return err
	}
	handler, err := s.handler() //nolint:contextcheck // requests bring their own
	if err != nil {
		return err
	}
	if err := s.stores.accounts.LearnCosts(ctx); err != nil {
		return err
	}
	bootstrapped := make(chan struct{})
	s.main.set(serve.Ready(heldUntil(bootstrapped, handler)))
	err = s.bootstrap(ctx)
	close(bootstrapped)
	if err != nil {
		return err
	}
	s.announce(ctx)
	var background sync.WaitGroup
	background.Go(func() { s.stores.accounts.Replay(ctx) })
	background.Go(func() { sweep(ctx, s.stores.sessions, s.log) })
	background.Wait()
	return nil
}

// open waits for both stores.
func (s *service) open(ctx context.Context) error {
	err := waitFor(ctx, s.log, "the database", func(ctx context.Context) (err error, later bool) {
		s.stores, err = openStores(ctx, s.cfg.Stores, s.passwords, s.log, s.watch)
		return err, errors.Is(err, sqldb.ErrUnreachable)
	})
	if err != nil {
		return err
	}
	return waitFor(ctx, s.log, "Redis", func(ctx context.Context) (error, bool) { return s.stores.pingRedis(ctx), true })
}

// announce tells that the service serves.
func (s *service) announce(ctx context.Context) {
	var at [2]net.Addr
	for i, listening := range []chan net.Addr{s.addr, s.admin} {
		select {
		case at[i] = <-listening:
		case <-ctx.Done():
			return
		}
	}
	s.log.InfoContext(ctx, "serving", "addr", at[0].String(), "admin_addr", at[1].String())
	if s.ready != nil {
		s.ready(at[0], at[1])
	}
}

// bootstrap creates the first admin of the settings while there is no user.
func (s *service) bootstrap(ctx context.Context) error {
	if s.cfg.BootstrapAdminUsername == "" {
		return nil
	}
	created, err := s.stores.accounts.Bootstrap(ctx, s.cfg.BootstrapAdminUsername, s.cfg.BootstrapAdminPassword)
	if err != nil {
		return fmt.Errorf("BOOTSTRAP_ADMIN_USERNAME, BOOTSTRAP_ADMIN_PASSWORD: %w", err)
	}
	if created {
		s.log.InfoContext(ctx, "audit", "event", "first_admin_created", "username", s.cfg.BootstrapAdminUsername)
	}
	return nil
}
