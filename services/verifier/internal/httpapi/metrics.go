package httpapi

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

// Metrics counts what is requested, how it is answered and what is paid. No label
// takes its value from a client.
type Metrics struct {
	requests    *service.HTTPMetrics
	payments    *prometheus.CounterVec
	sales       *prometheus.CounterVec
	reuses      prometheus.Counter
	facilitator *prometheus.HistogramVec
	lookups     *prometheus.HistogramVec
	answers     *prometheus.CounterVec
	answerBytes prometheus.Gauge
	tools       *prometheus.CounterVec
}

// NewMetrics registers the metrics. Those of payments, of the facilitator's verify and settle and of
// lookups begin at zero for each outcome, so that already the first event of a kind is a rise.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	requests, err := service.NewHTTPMetrics(r, "verifier",
		[]float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60})
	if err != nil {
		return nil, err
	}
	m := &Metrics{
		requests: requests,
		payments: counter("verifier_payments_total", "Paid calls ended, by outcome.", "outcome"),
		sales: counter("verifier_sales_total", "Paid calls ended, by operation, transport and outcome.",
			"operation", "transport", "outcome"),
		reuses: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "verifier_repeats_total", Help: "Answers of an earlier payment for the same question of the same " +
				"payer, whose new payment was not spent.",
		}),
		facilitator: histogram("verifier_facilitator_call_duration_seconds",
			"Calls to the facilitator, by call and outcome: ok, refused, limit, unusable, open.",
			[]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}, "call", "outcome"),
		lookups: histogram("verifier_truth_lookup_duration_seconds",
			"Looks at the payment network for what became of a payment, by outcome: unspent, paid, reverted, "+
				"elsewhere, expired, failed.",
			[]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}, "outcome"),
		answers: counter("verifier_answer_lookups_total",
			"Looks for an answer signed before, by result: hit, miss.", "result"),
		tools: counter("verifier_mcp_calls_total",
			"Calls of tools, by tool and outcome: ok, payment_required, or the reason of the error.",
			"tool", "outcome"),
		answerBytes: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "verifier_answers_bytes",
			Help: "Memory of the signed answers that are kept.",
		}),
	}
	for _, outcome := range outcomes {
		m.payments.WithLabelValues(outcome)
	}
	for _, outcome := range []string{"ok", "refused", "limit", "unusable", "open"} {
		m.facilitator.WithLabelValues("verify", outcome)
		m.facilitator.WithLabelValues("settle", outcome)
	}
	for status := range payment.Reverted + 1 {
		m.lookups.WithLabelValues(status.String())
	}
	m.lookups.WithLabelValues(lookupFailed)
	m.answers.WithLabelValues(result(true))
	m.answers.WithLabelValues(result(false))
	return m, service.Register(r, m.payments, m.sales, m.reuses, m.facilitator, m.lookups, m.answers, m.answerBytes,
		m.tools)
}

// outcomes are the words for how a paid call ended, or what the service decided of a payment by itself.
var outcomes = []string{
	"paid", "repeated", "invalid", "refused", "not_settled", "used", "in_flight", "pending", "facilitator", "limit",
	"ledger", "too_many", "too_many_failed", "abandoned", "work_failed",
	"reconciled_settled", "reconciled_dead", "reopened",
}

// sells has the counts of an operation's sales over a transport begin at zero.
func (m *Metrics) sells(operation, transport string) {
	for _, outcome := range outcomes {
		m.sales.WithLabelValues(operation, transport, outcome)
	}
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

// PaymentEnded counts the end of a paid call, or of a payment that the service decided by itself.
func (m *Metrics) PaymentEnded(end paywall.End) {
	m.payments.WithLabelValues(end.Outcome).Inc()
	m.sales.WithLabelValues(end.Operation, end.Transport, end.Outcome).Inc()
	if end.Reused {
		m.reuses.Inc()
	}
}

// FacilitatorCalled is for facilitator.Options.Called: it records a call, its outcome and how long it took.
func (m *Metrics) FacilitatorCalled(call, outcome string, took time.Duration) {
	m.facilitator.WithLabelValues(call, outcome).Observe(took.Seconds())
}

// lookupFailed is the outcome of a lookup on the payment network without an answer; that of
// any other is its payment.AuthorizationStatus.
const lookupFailed = "failed"

// LookedAt records a look at the payment network and how long it took.
func (m *Metrics) LookedAt(found payment.Authorization, err error, took time.Duration) {
	outcome := found.Status.String()
	if err != nil {
		outcome = lookupFailed
	}
	m.lookups.WithLabelValues(outcome).Observe(took.Seconds())
}

// answered counts a look for an answer signed before; hit reports whether there was one.
func (m *Metrics) answered(hit bool) { m.answers.WithLabelValues(result(hit)).Inc() }

func (m *Metrics) toolCalled(name, outcome string) { m.tools.WithLabelValues(name, outcome).Inc() }

func result(hit bool) string {
	if hit {
		return "hit"
	}
	return "miss"
}

// scrapeTimeout bounds what each metric waits for the ledger at a scrape.
const scrapeTimeout = time.Second

// RegisterStatus registers gauges of the paywall's settlements and open payments, and one of whether
// the ledger answers.
func RegisterStatus(r prometheus.Registerer, p *paywall.Paywall, ping func(context.Context) error) error {
	type read func(s payment.QuotaStatus, left int, oldest time.Duration) float64
	quota := func(name, help string, value read) prometheus.Collector {
		return gauge(name, help, nil, func() float64 {
			ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
			defer cancel()
			return value(p.Quota(ctx))
		})
	}
	return service.Register(r,
		quota("verifier_settlements_left", "Free settlements left this month (UTC).",
			func(_ payment.QuotaStatus, left int, _ time.Duration) float64 { return float64(left) }),
		gauge("verifier_settlements_limit", "Free settlements that a month (UTC) has.", nil,
			func() float64 { return float64(p.FreeSettlements) }),
		quota("verifier_settlements_failed", "Settlements of this month (UTC) that were made in vain: a transaction "+
			"was made or may have been, and nothing was paid.",
			func(s payment.QuotaStatus, _ int, _ time.Duration) float64 { return float64(s.Failed) }),
		quota("verifier_payments_unknown", "Payments whose settlement is neither known to have happened nor to have "+
			"failed.",
			func(s payment.QuotaStatus, _ int, _ time.Duration) float64 { return float64(s.Unknown) }),
		quota("verifier_payments_unknown_oldest_seconds",
			"How long ago the oldest of these payments was claimed; 0 without one.",
			func(_ payment.QuotaStatus, _ int, oldest time.Duration) float64 { return oldest.Seconds() }),
		gauge("verifier_store_up", "1 when the store answers, by store: database.",
			prometheus.Labels{"store": "database"}, func() float64 {
				ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
				defer cancel()
				return boolValue(ping(ctx) == nil)
			}))
}

// Books reads the sums of payments and the numbers of decisions, as ledger.Ledger does.
type Books interface {
	Totals(ctx context.Context, f payment.Filter) ([]payment.Total, error)
	Decided(ctx context.Context) (settled, dead int, err error)
}

// booksAge is after how long the books are read again: sums cost more than each scrape should.
const booksAge = time.Minute

// books reports what the ledger has of the current month's settled payments, and of decisions.
type books struct {
	ledger                     Books
	terms                      payment.Terms
	now                        func() time.Time
	income, refunds, decisions *prometheus.Desc

	mu     sync.Mutex
	readAt time.Time
	last   []prometheus.Metric
}

// RegisterBooks adds income and refunds of the month, by network and token, and the
// decisions of operators. What cannot be read stays as it was.
func RegisterBooks(r prometheus.Registerer, terms payment.Terms, ledger Books, now func() time.Time) error {
	return r.Register(&books{
		ledger: ledger, terms: terms, now: now,
		income: prometheus.NewDesc("verifier_income_units_month",
			"Atomic units that payments claimed this month (UTC) have brought, by network and asset.",
			[]string{"network", "asset"}, nil),
		refunds: prometheus.NewDesc("verifier_refunds_units_month",
			"Atomic units of these that were refunded, by network and asset.", []string{"network", "asset"}, nil),
		decisions: prometheus.NewDesc("verifier_decisions_total",
			"Payments that operators decided, by the state that they led to: settled, dead.", []string{"to"}, nil),
	})
}

// Describe implements prometheus.Collector.
func (b *books) Describe(all chan<- *prometheus.Desc) {
	all <- b.income
	all <- b.refunds
	all <- b.decisions
}

// Collect implements prometheus.Collector.
func (b *books) Collect(all chan<- prometheus.Metric) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := b.now(); now.Sub(b.readAt) >= booksAge {
		ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
		defer cancel()
		if fresh, err := b.read(ctx, now); err == nil {
			b.last = fresh
		}
		b.readAt = now // a database that is slow is not asked at each scrape either
	}
	for _, m := range b.last {
		all <- m
	}
}

func (b *books) read(ctx context.Context, now time.Time) (all []prometheus.Metric, err error) {
	first := payment.Day(now).AddDate(0, 0, 1-now.UTC().Day())
	totals, err := b.ledger.Totals(ctx, payment.Filter{State: payment.Settled, From: first})
	if err != nil {
		return nil, err
	}
	settled, dead, err := b.ledger.Decided(ctx)
	if err != nil {
		return nil, err
	}
	type token struct{ network, asset string }
	own := token{b.terms.Network, strings.ToLower(b.terms.Asset)}
	income, refunded := map[token]float64{own: 0}, map[token]float64{own: 0}
	for _, t := range totals {
		in, _ := strconv.ParseFloat(t.Amount, 64)
		back, _ := strconv.ParseFloat(cmp.Or(t.Refunded, "0"), 64)
		income[token{t.Network, t.Asset}] += in
		refunded[token{t.Network, t.Asset}] += back
	}
	for of, units := range income {
		all = append(all, prometheus.MustNewConstMetric(b.income, prometheus.GaugeValue, units, of.network, of.asset),
			prometheus.MustNewConstMetric(b.refunds, prometheus.GaugeValue, refunded[of], of.network, of.asset))
	}
	return append(all, prometheus.MustNewConstMetric(b.decisions, prometheus.CounterValue, float64(settled), "settled"),
		prometheus.MustNewConstMetric(b.decisions, prometheus.CounterValue, float64(dead), "dead")), nil
}

func gauge(name, help string, labels prometheus.Labels, value func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, value)
}

func boolValue(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}
