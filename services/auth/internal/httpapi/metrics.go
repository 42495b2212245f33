package httpapi

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/password"
)

// Metrics counts requests and their results. No label value comes from a client.
type Metrics struct {
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	logins    *prometheus.CounterVec
	decisions *prometheus.CounterVec
}

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "auth_http_requests_total", Help: "Requests answered, by route, method and status.",
		}, []string{"route", "method", "status"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "auth_http_request_duration_seconds", Help: "Time to answer a request, by route and method.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}, []string{"route", "method"}),
		logins: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "auth_logins_total", Help: "Login attempts, by outcome: success, invalid_credentials, bad_request, busy, error.",
		}, []string{"outcome"}),
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "auth_limiter_decisions_total", Help: "Decisions of the limit of failed attempts, by limit (login, password) and decision: taken, given_back, refused, error.",
		}, []string{"limit", "decision"}),
	}
	var faults []error
	for _, c := range []prometheus.Collector{m.requests, m.durations, m.logins, m.decisions} {
		faults = append(faults, r.Register(c))
	}
	for _, outcome := range loginOutcomes {
		m.logins.WithLabelValues(outcome)
	}
	for _, limit := range []string{limitLogin, limitPassword} {
		for _, decision := range []string{decisionTaken, decisionRefunded, decisionRefused, decisionError} {
			m.decisions.WithLabelValues(limit, decision)
		}
	}
	return m, errors.Join(faults...)
}

func (m *Metrics) request(c echo.Context, took time.Duration) {
	route, method := routeLabel(c), methodLabel(c)
	m.requests.WithLabelValues(route, method, strconv.Itoa(c.Response().Status)).Inc()
	m.durations.WithLabelValues(route, method).Observe(took.Seconds())
}

// The two limits and their decisions. An attempt that is taken and not refunded failed.
const (
	limitLogin       = "login"
	limitPassword    = "password"
	decisionTaken    = "taken"
	decisionRefunded = "given_back"
	decisionRefused  = "refused"
	decisionError    = "error"
)

func (m *Metrics) decided(limit, decision string) {
	m.decisions.WithLabelValues(limit, decision).Inc()
}

// loginOutcomes are initialized to zero, so that the first of a kind is an increase.
var loginOutcomes = []string{"success", "invalid_credentials", "bad_request", "busy", "error"}

func (m *Metrics) login(err error) {
	outcome := "error"
	switch {
	case err == nil:
		outcome = "success"
	case errors.Is(err, account.ErrInvalidCredentials):
		outcome = "invalid_credentials"
	case errors.Is(err, account.ErrMissing), errors.Is(err, account.ErrTooLong):
		outcome = "bad_request"
	case errors.Is(err, password.ErrBusy):
		outcome = "busy"
	}
	m.logins.WithLabelValues(outcome).Inc()
}

// routeLabel returns the pattern of the route, never the requested path.
func routeLabel(c echo.Context) string {
	return cmp.Or(c.Path(), "none")
}

// methodLabel returns one of the methods of HTTP, or "other".
func methodLabel(c echo.Context) string {
	switch m := c.Request().Method; m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return m
	default:
		return "other"
	}
}
