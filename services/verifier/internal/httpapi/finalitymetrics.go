package httpapi

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/verifier/internal/beaconchain"
)

// FinalityMetrics counts what fails when proofs of finality are made, and reports how they
// stand.
type FinalityMetrics struct {
	registry prometheus.Registerer
	failures *prometheus.CounterVec
}

// NewFinalityMetrics registers the metrics; with no chain that has proofs there are none.
func NewFinalityMetrics(r prometheus.Registerer) (*FinalityMetrics, error) {
	m := &FinalityMetrics{r, counter("verifier_finality_failures_total", "What failed when proofs of finality were made, by chain and cause: node, network, update, handover, link, bundle.", "chain", "cause")}
	return m, service.Register(r, m.failures)
}

// Failed returns what counts the failures of a chain, from zero.
func (m *FinalityMetrics) Failed(chain string) func(cause string) {
	for _, cause := range beaconchain.Causes {
		m.failures.WithLabelValues(chain, cause)
	}
	return func(cause string) { m.failures.WithLabelValues(chain, cause).Inc() }
}

// Register adds how the proofs of a chain stand.
func (m *FinalityMetrics) Register(name string, chain *beaconchain.Chain, now func() time.Time) error {
	desc := func(metric, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(metric, help, labels, prometheus.Labels{"chain": name})
	}
	return m.registry.Register(&finalityStatus{
		chain: chain, now: now,
		anchorAge:     desc("verifier_finality_anchor_age_seconds", "Age of the newest block that is verified to be final, by chain; absent before the first."),
		participation: desc("verifier_finality_participation", "Part of the sync committee that signed the newest verified update, by chain; absent before the first."),
		bundles:       desc("verifier_finality_bundles", "Proofs of finality of sold blocks, by chain and state: pending, made, unavailable, expired.", "state"),
		pendingAge:    desc("verifier_finality_pending_age_seconds", "How long the oldest sold block waits for its proof of finality, by chain; 0 without one."),
	})
}

type finalityStatus struct {
	chain *beaconchain.Chain
	now   func() time.Time

	anchorAge, participation, bundles, pendingAge *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (m *finalityStatus) Describe(all chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.anchorAge, m.participation, m.bundles, m.pendingAge} {
		all <- d
	}
}

// Collect implements prometheus.Collector.
func (m *finalityStatus) Collect(all chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		all <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	s, err := m.chain.Status(ctx)
	now := m.now()
	if !s.Anchor.IsZero() {
		gauge(m.anchorAge, now.Sub(s.Anchor).Seconds())
		gauge(m.participation, s.Participation)
	}
	if err != nil {
		return // verifier_store_up reports it
	}
	for _, state := range []beaconchain.BundleState{beaconchain.BundlePending, beaconchain.BundleMade, beaconchain.BundleUnavailable, beaconchain.BundleExpired} {
		gauge(m.bundles, float64(s.Bundles.States[state]), string(state))
	}
	var age float64
	if !s.Bundles.Oldest.IsZero() {
		age = now.Sub(s.Bundles.Oldest).Seconds()
	}
	gauge(m.pendingAge, age)
}
