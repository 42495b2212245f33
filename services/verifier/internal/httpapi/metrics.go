package httpapi

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts what is asked, how it is answered and what is paid. No label
// takes its value from a client.
type Metrics struct {
	requests    *prometheus.CounterVec
	durations   *prometheus.HistogramVec
	payments    *prometheus.CounterVec
	facilitator *prometheus.HistogramVec
}

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "verifier_http_requests_total", Help: "Requests answered, by route, method and status.",
		}, []string{"route", "method", "status"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "verifier_http_request_duration_seconds", Help: "Time to answer a request, by route and method.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"route", "method"}),
		payments: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "verifier_payments_total", Help: "Paid calls ended, by outcome.",
		}, []string{"outcome"}),
		facilitator: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "verifier_facilitator_call_duration_seconds", Help: "Calls to the facilitator, by call and outcome: ok, refused, limit, unusable, open.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"call", "outcome"}),
	}
	return m, register(r, m.requests, m.durations, m.payments, m.facilitator)
}

// RegisterStanding adds what the paywall is asked for at every scrape: the
// settlements left this month and the payments whose outcome is open.
func RegisterStanding(r prometheus.Registerer, standing func() (left, unknown int)) error {
	return register(r,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "verifier_settlements_left", Help: "Free settlements left this month (UTC).",
		}, func() float64 { n, _ := standing(); return float64(n) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "verifier_payments_unknown", Help: "Payments whose settlement is neither known to have happened nor to have failed.",
		}, func() float64 { _, n := standing(); return float64(n) }))
}

func register(r prometheus.Registerer, collectors ...prometheus.Collector) error {
	var faults []error
	for _, c := range collectors {
		faults = append(faults, r.Register(c))
	}
	return errors.Join(faults...)
}

// PaymentEnded is for payment.Options.Ended.
func (m *Metrics) PaymentEnded(outcome string) { m.payments.WithLabelValues(outcome).Inc() }

// FacilitatorCalled is for facilitator.Options.Called.
func (m *Metrics) FacilitatorCalled(call, outcome string, took time.Duration) {
	m.facilitator.WithLabelValues(call, outcome).Observe(took.Seconds())
}

func (m *Metrics) request(c echo.Context, took time.Duration) {
	route, method := routeLabel(c), methodLabel(c)
	m.requests.WithLabelValues(route, method, strconv.Itoa(c.Response().Status)).Inc()
	m.durations.WithLabelValues(route, method).Observe(took.Seconds())
}

// routeLabel is the pattern of the route, never the path that was asked for.
func routeLabel(c echo.Context) string { return cmp.Or(c.Path(), "none") }

// methodLabel is one of the methods that HTTP knows.
func methodLabel(c echo.Context) string {
	switch m := c.Request().Method; m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return m
	default:
		return "other"
	}
}
