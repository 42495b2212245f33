package app

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pforte/pforte/pkg/logging"
	"github.com/pforte/pforte/pkg/serve"
	"github.com/pforte/pforte/pkg/tracing"
	"github.com/pforte/pforte/services/verifier/internal/config"
	"github.com/pforte/pforte/services/verifier/internal/httpapi"
	"github.com/pforte/pforte/services/verifier/internal/payment/chainlog"
	"github.com/pforte/pforte/services/verifier/internal/payment/facilitator"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

// workTimeout bounds the making of one piece of evidence. A payment must stay
// good for as long and be settled after it.
const workTimeout = 15 * time.Second

// service is the running program.
type service struct {
	settings
	log      *slog.Logger
	registry *prometheus.Registry
	metrics  *httpapi.Metrics
	tracer   *tracing.Tracer
	ledger   *ledger.Ledger
	paywall  *paywall.Paywall
	chains   *chains
}

// serveAll serves until ctx ends, then finishes what is under way.
func serveAll(ctx context.Context, e Env) (err error) {
	set, err := load(e.Getenv)
	if err != nil {
		return err
	}
	s := &service{settings: set, registry: prometheus.NewRegistry()}
	if s.log, err = logging.New(e.Stderr, s.LogLevel); err != nil {
		return err
	}
	if s.AllowInsecure {
		s.log.Warn("ALLOW_INSECURE_UPSTREAMS: facilitators and nodes may be asked over plain http in public networks, where payments and evidence can be read and changed")
	}
	if s.tracer, err = s.startTracing(ctx, e.Version); err != nil {
		return err
	}
	defer s.tracer.Stop(ctx)
	if err := s.open(ctx, e); err != nil {
		return errors.Join(err, s.close(ctx))
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	handler, err := s.handler() //nolint:contextcheck // requests bring their own contexts
	if err != nil {
		return err
	}
	// The last requests need it as the first do.
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var all sync.WaitGroup
	all.Go(func() { s.paywall.Run(background) })
	all.Go(func() { s.chains.run(background) })
	all.Go(func() { s.hint(background) })
	err = serve.Run(ctx, s.servers(e, handler)...)
	stop()
	all.Wait()
	return err
}

// servers are the public address and the internal one.
func (s *service) servers(e Env, handler http.Handler) []serve.Server {
	metrics := promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{})
	var api string
	return []serve.Server{
		{Name: "ADDR", Addr: s.Addr, Handler: serve.Ready(handler), Leave: s.ShutdownDelay, Drain: s.drain(), Ready: func(addr net.Addr) {
			api = addr.String()
			s.log.Info("serving", "address", api, "public_url", s.PublicURL, "version", e.Version)
			if e.ready != nil {
				e.ready(api)
			}
		}},
		{Name: "ADMIN_ADDR", Addr: s.AdminAddr, Handler: serve.Admin(metrics), Leave: s.ShutdownDelay},
	}
}

// drain is how long a stop waits for payments under way.
func (s *service) drain() time.Duration {
	return s.Facilitator.VerifyTimeout + 2*s.Facilitator.SettleTimeout + workTimeout
}

// open opens everything that the settings name.
func (s *service) open(ctx context.Context, e Env) (err error) {
	s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if s.metrics, err = httpapi.NewMetrics(s.registry); err != nil {
		return err
	}
	if s.ledger, err = openLedger(ctx, s.DatabaseURL, s.log); err != nil {
		return err
	}
	if s.chains, err = openChains(ctx, s.settings, s.registry, s.log); err != nil {
		return err
	}
	options := paywall.Options{
		Ledger: s.ledger, FreeSettlements: s.Facilitator.FreeSettlements,
		VerifyTimeout: s.Facilitator.VerifyTimeout, SettleTimeout: s.Facilitator.SettleTimeout, WorkTimeout: workTimeout,
		AttemptsPerPayer: s.Payment.PerPayer, AttemptsPerAddress: s.Payment.PerAddress, KeepAnswers: s.Payment.AnswerRetention,
		FailuresPerPayer: s.Payment.FailedPerPayer, FailuresPerAddress: s.Payment.FailedPerAddress,
		Log: s.log, Now: time.Now, Ended: s.metrics.PaymentEnded, At: e.at, Heartbeat: e.heartbeat,
		Confirm: s.Payment.Confirm != config.ConfirmByFacilitator,
	}
	if options.Facilitator, err = s.facilitator(); err != nil {
		return err
	}
	if len(s.truth) == 0 {
		s.log.Warn("no node of the payment network is configured: a settlement that the facilitator leaves open stays open until it is resolved by hand (PAYMENT_RPC_URL)")
	} else if options.ChainLog, err = chainlog.New(s.terms.Network, s.truth, s.truthQuorum); err != nil {
		return fmt.Errorf("PAYMENT_RPC_URL: %w", err)
	}
	if options.ChainLog != nil {
		options.ChainLog = observedChainLog{options.ChainLog, s.metrics}
	}
	if options.ClientKey, err = s.clientKey(); err != nil {
		return err
	}
	if s.paywall, err = paywall.Open(ctx, options); err != nil {
		return err
	}
	return s.registerStanding(ctx)
}

// clientKey is for what stands for a client's address in the ledger: the same for
// all replicas, as the signing key is that it is made from.
func (s *service) clientKey() ([]byte, error) {
	pem, err := s.key.PEM()
	if err != nil {
		return nil, err
	}
	key := sha256.Sum256(append([]byte("clients in the payment ledger\n"), pem...))
	return key[:], nil
}

func (s *service) facilitator() (*facilitator.Client, error) {
	client, err := facilitator.New(facilitator.Options{
		URL: s.Facilitator.URL, Token: s.cdp, Now: time.Now, Called: s.metrics.FacilitatorCalled,
	})
	if err != nil {
		return nil, fmt.Errorf("FACILITATOR_URL: %w", err)
	}
	return client, nil
}

func (s *service) handler() (http.Handler, error) {
	return httpapi.New(httpapi.Options{
		Chains: s.chains.api(), Paywall: s.paywall, Terms: s.terms, Key: s.key, Keys: s.keys, PublicURL: s.PublicURL,
		Health: s.health, Proxies: s.TrustedProxies, Metrics: s.metrics, Tracer: s.tracer, Log: s.log, Now: time.Now,
	})
}

// health fails while the ledger is away, or a chain was never reached.
func (s *service) health(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return errors.Join(s.ledger.Ping(ctx), s.chains.reached(ctx))
}

// close waits for payments under way and closes what was opened.
func (s *service) close(ctx context.Context) error {
	var faults []error
	if s.paywall != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.drain())
		defer cancel()
		faults = append(faults, s.paywall.Close(ctx))
	}
	if s.ledger != nil {
		faults = append(faults, s.ledger.Close())
	}
	return errors.Join(faults...)
}

// migrate opens the ledger once.
func migrate(ctx context.Context, e Env) error {
	cfg, err := config.LoadLedger(e.Getenv)
	if err != nil {
		return err
	}
	ledger, err := ledger.Open(ctx, cfg.DatabaseURL, time.Now)
	if err != nil {
		return err
	}
	return ledger.Close()
}
