package app

import (
	"context"
	"time"

	"github.com/pforte/pforte/pkg/clientaddr"
	"github.com/pforte/pforte/pkg/tracing"
	"github.com/pforte/pforte/services/verifier/internal/httpapi"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// startTracing gives nil when no traces are wanted.
func (s *service) startTracing(ctx context.Context, version string) (*tracing.Tracer, error) {
	return tracing.Start(ctx, tracing.Options{
		Settings: s.Tracing, Service: "verifier", Version: version, Log: s.log,
		Trusted: clientaddr.Proxies(s.TrustedProxies).Sent,
	})
}

// scrapeTimeout bounds each question to the ledger that a scrape asks.
const scrapeTimeout = time.Second

func (s *service) registerStanding(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	return httpapi.RegisterQuotaStatus(s.registry, func() httpapi.QuotaStatus {
		ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
		defer cancel()
		left, unknown := s.paywall.Left(ctx)
		return httpapi.QuotaStatus{Left: left, Limit: s.Facilitator.FreeSettlements, Unknown: unknown, Oldest: s.paywall.Oldest(), Failed: s.paywall.Failed()}
	}, func() error {
		ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
		defer cancel()
		return s.ledger.Ping(ctx)
	})
}

// observedChainLog counts the looks at the payment network.
type observedChainLog struct {
	payment.ChainLog
	metrics *httpapi.Metrics
}

// Authorization implements payment.ChainLog.
func (w observedChainLog) Authorization(ctx context.Context, q payment.AuthorizationQuery) (payment.Authorization, error) {
	began := time.Now()
	found, err := w.ChainLog.Authorization(ctx, q)
	w.metrics.LookedAt(found, err, time.Since(began))
	return found, err
}
