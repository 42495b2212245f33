package httpapi

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// Metrics counts what is requested, how it is answered and what is paid. No label
// takes its value from a client.
type Metrics struct {
	requests    *service.HTTPMetrics
	payments    *prometheus.CounterVec
	facilitator *prometheus.HistogramVec
	lookups     *prometheus.HistogramVec
	answers     *prometheus.CounterVec
	answerBytes prometheus.Gauge
}

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	requests, err := service.NewHTTPMetrics(r, "verifier", []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60})
	if err != nil {
		return nil, err
	}
	m := &Metrics{
		requests: requests,
		payments: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "verifier_payments_total", Help: "Paid calls ended, by outcome.",
		}, []string{"outcome"}),
		facilitator: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "verifier_facilitator_call_duration_seconds", Help: "Calls to the facilitator, by call and outcome: ok, refused, limit, unusable, open.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"call", "outcome"}),
		lookups: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "verifier_truth_lookup_duration_seconds", Help: "Looks at the payment network for what became of a payment, by outcome: unspent, paid, elsewhere, expired, failed.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"outcome"}),
		answers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "verifier_answer_lookups_total", Help: "Looks for an answer signed before, by result: hit, miss.",
		}, []string{"result"}),
		answerBytes: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "verifier_answers_bytes", Help: "Memory of the signed answers that are kept.",
		}),
	}
	m.begin()
	return m, service.Register(r, m.payments, m.facilitator, m.lookups, m.answers, m.answerBytes)
}

// begin counts what is alarmed of from zero, so that the first of a kind is a
// rise.
func (m *Metrics) begin() {
	for _, outcome := range []string{
		"paid", "repeated", "invalid", "refused", "not_settled", "used", "in_flight", "pending", "facilitator", "limit", "ledger",
		"too_many", "too_many_failed", "abandoned", "work_failed", "reconciled_settled", "reconciled_dead", "reopened",
	} {
		m.payments.WithLabelValues(outcome)
	}
	for _, call := range []string{"verify", "settle"} {
		for _, outcome := range []string{"ok", "refused", "limit", "unusable", "open"} {
			m.facilitator.WithLabelValues(call, outcome)
		}
	}
	for _, outcome := range lookupOutcomes {
		m.lookups.WithLabelValues(outcome)
	}
	m.answers.WithLabelValues("hit")
	m.answers.WithLabelValues("miss")
}

// QuotaStatus is what the paywall reports at every scrape.
type QuotaStatus struct {
	// Left are the free settlements left this month, of Limit.
	Left, Limit int
	// Unknown are the payments whose outcome is open; Oldest is for how long the
	// oldest of them has been.
	Unknown int
	Oldest  time.Duration
	// Failed are the settlements of the month that were made in vain.
	Failed int
}

// RegisterQuotaStatus adds the standing and whether the ledger answers.
func RegisterQuotaStatus(r prometheus.Registerer, status func() QuotaStatus, ledger func() error) error {
	gauge := func(name, help string, value func(QuotaStatus) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return value(status()) })
	}
	return service.Register(r,
		gauge("verifier_settlements_left", "Free settlements left this month (UTC).", func(s QuotaStatus) float64 { return float64(s.Left) }),
		gauge("verifier_settlements_limit", "Free settlements that a month (UTC) has.", func(s QuotaStatus) float64 { return float64(s.Limit) }),
		gauge("verifier_settlements_failed", "Settlements of this month (UTC) that were made in vain: a transaction was made or may have been, and nothing was paid.",
			func(s QuotaStatus) float64 { return float64(s.Failed) }),
		gauge("verifier_payments_unknown", "Payments whose settlement is neither known to have happened nor to have failed.",
			func(s QuotaStatus) float64 { return float64(s.Unknown) }),
		gauge("verifier_payments_unknown_oldest_seconds", "How long ago the oldest of these payments was claimed; 0 without one.",
			func(s QuotaStatus) float64 { return s.Oldest.Seconds() }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "verifier_store_up", Help: "1 when the store answers, by store: database.", ConstLabels: prometheus.Labels{"store": "database"},
		}, func() float64 { return yes(ledger() == nil) }))
}

func yes(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}

// PaymentEnded is for paywall.Options.Ended.
func (m *Metrics) PaymentEnded(outcome string) { m.payments.WithLabelValues(outcome).Inc() }

// FacilitatorCalled is for facilitator.Options.Called.
func (m *Metrics) FacilitatorCalled(call, outcome string, took time.Duration) {
	m.facilitator.WithLabelValues(call, outcome).Observe(took.Seconds())
}

// lookupOutcomes are the outcomes of a lookup on the payment network, by payment.AuthorizationStatus.
var lookupOutcomes = []string{payment.Unused: "unspent", payment.PaidToUs: "paid", payment.UsedElsewhere: "elsewhere", payment.Expired: "expired", payment.Reverted: "reverted", 5: "failed"}

// LookedAt counts a look at the payment network.
func (m *Metrics) LookedAt(found payment.Authorization, err error, took time.Duration) {
	outcome := lookupOutcomes[found.Status]
	if err != nil {
		outcome = "failed"
	}
	m.lookups.WithLabelValues(outcome).Observe(took.Seconds())
}

// answered counts a look for a signed answer.
func (m *Metrics) answered(hit bool) { m.answers.WithLabelValues(result(hit)).Inc() }

func result(hit bool) string {
	if hit {
		return "hit"
	}
	return "miss"
}
