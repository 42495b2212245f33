package beaconchain

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Failures counts what fails when proofs of finality are made.
type Failures struct{ *prometheus.CounterVec }

// NewFailures registers the metric. It has no values for a chain before Of is called.
func NewFailures(r prometheus.Registerer) (Failures, error) {
	f := Failures{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "verifier_finality_failures_total",
		Help: "What failed when proofs of finality were made, by chain and cause: node, network, update, handover, " +
			"link, bundle.",
	}, []string{"chain", "cause"})}
	return f, r.Register(f)
}

// Of returns the function that counts the failures of a chain, and sets its counts to begin at zero.
func (f Failures) Of(chain string) func(cause string) {
	for _, cause := range Causes {
		f.WithLabelValues(chain, cause)
	}
	return func(cause string) { f.WithLabelValues(chain, cause).Inc() }
}

// scrapeTimeout bounds the read of the store for a scrape.
const scrapeTimeout = time.Second

// metrics collects how the proofs of a chain stand, at every scrape.
type metrics struct {
	*Chain

	anchorAge, participation, bundles, pendingAge *prometheus.Desc
}

// Register registers the metrics of how the proofs of the chain stand.
func (c *Chain) Register(r prometheus.Registerer) error {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, prometheus.Labels{"chain": c.Name})
	}
	return r.Register(&metrics{
		Chain: c,
		anchorAge: desc("verifier_finality_anchor_age_seconds",
			"Age of the newest block that is verified to be final, by chain; absent before the first."),
		participation: desc("verifier_finality_participation", "Part of the sync committee that signed the newest "+
			"verified update, by chain; absent before the first."),
		bundles: desc("verifier_finality_bundles", "Proofs of finality of sold blocks, by chain and state: "+
			"pending, made, unavailable, expired.", "state"),
		pendingAge: desc("verifier_finality_pending_age_seconds",
			"How long the oldest sold block waits for its proof of finality, by chain; 0 without one."),
	})
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(all chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.anchorAge, m.participation, m.bundles, m.pendingAge} {
		all <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(all chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		all <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	s, err := m.Status(ctx)
	now := m.Now()
	if !s.Anchor.IsZero() {
		gauge(m.anchorAge, now.Sub(s.Anchor).Seconds())
		gauge(m.participation, s.Participation)
	}
	if err != nil {
		return // verifier_store_up reports it
	}
	for _, state := range []BundleState{BundlePending, BundleMade, BundleUnavailable, BundleExpired} {
		gauge(m.bundles, float64(s.Bundles.States[state]), string(state))
	}
	var age float64
	if !s.Bundles.Oldest.IsZero() {
		age = now.Sub(s.Bundles.Oldest).Seconds()
	}
	gauge(m.pendingAge, age)
}
