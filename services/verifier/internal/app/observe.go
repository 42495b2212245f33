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
	return httpapi.RegisterStanding(s.registry, func() httpapi.Standing {
		ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
		defer cancel()
		left, unknown := s.gate.Left(ctx)
		return httpapi.Standing{Left: left, Limit: s.Facilitator.FreeSettlements, Unknown: unknown, Oldest: s.gate.Oldest(), Failed: s.gate.Failed()}
	}, func() error {
		ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
		defer cancel()
		return s.ledger.Ping(ctx)
	})
}

// watchedTruth counts the looks at the payment network.
type watchedTruth struct {
	payment.Truth
	metrics *httpapi.Metrics
}

// Fate implements payment.Truth.
func (w watchedTruth) Fate(ctx context.Context, q payment.Question) (payment.Fate, error) {
	began := time.Now()
	fate, err := w.Truth.Fate(ctx, q)
	w.metrics.LookedAt(fate, err, time.Since(began))
	return fate, err
}
