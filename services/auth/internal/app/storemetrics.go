package app

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/pkg/tracing"
	"github.com/pforte/pforte/services/auth/internal/session"
)

// storeMetrics measures the stores and counts how sessions begin and end.
type storeMetrics struct {
	redis   *prometheus.HistogramVec
	started prometheus.Counter
	ended   *prometheus.CounterVec
	live    prometheus.Gauge
}

// Why a session ended.
const (
	sessionClosed  = "closed"
	sessionRevoked = "revoked"
	sessionExpired = "expired"
)

func newStoreMetrics() *storeMetrics {
	m := &storeMetrics{
		redis: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "auth_redis_command_duration_seconds", Help: "Commands to Redis with their retries, by command (or pipeline) and outcome: ok, canceled, error.",
			Buckets: []float64{.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 3},
		}, []string{"command", "outcome"}),
		started: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "auth_sessions_started_total", Help: "Sessions that logins created.",
		}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "auth_sessions_ended_total", Help: "Sessions that ended, by reason: closed (logout, or another login), revoked, expired (as the sweep finds them).",
		}, []string{"reason"}),
		live: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "auth_sessions_live", Help: "Live sessions of all replicas, as the last sweep counted them; NaN before the first.",
		}),
	}
	m.live.Set(math.NaN())
	for _, reason := range []string{sessionClosed, sessionRevoked, sessionExpired} {
		m.ended.WithLabelValues(reason)
	}
	return m
}

// register registers these metrics, the load of the password hasher and, for
// each store, whether it answers, which every scrape finds out with a ping.
func (m *storeMetrics) register(r prometheus.Registerer, s *stores) error {
	up := func(store string, ping func(context.Context) error) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "auth_store_up", Help: "1 when the store answers, by store: database, redis.", ConstLabels: prometheus.Labels{"store": store},
		}, func() float64 {
			ctx, cancel := context.WithTimeout(context.Background(), healthTimeout)
			defer cancel()
			if ping(ctx) != nil {
				return 0
			}
			return 1
		})
	}
	passwords := s.hasher.Stats
	return service.Register(r, m.redis, m.started, m.ended, m.live, up("database", s.db.Ping), up("redis", s.pingRedis),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "auth_passwords_computing", Help: "Password hashes being computed.",
		}, func() float64 { return float64(passwords().Computing) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "auth_passwords_waiting", Help: "Passwords waiting to be computed.",
		}, func() float64 { return float64(passwords().Waiting) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "auth_passwords_refused_total", Help: "Passwords refused because too many were waiting.",
		}, func() float64 { return float64(passwords().Refused) }))
}

// redisHook bounds, measures and traces each command, with all its tries and
// redirections. Keys and arguments are left out: they name sessions.
type redisHook struct{ metrics *storeMetrics }

// DialHook implements redis.Hook.
func (redisHook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (h redisHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return h.run(ctx, cmd.Name(), func(ctx context.Context) error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook implements redis.Hook.
func (h redisHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return h.run(ctx, "pipeline", func(ctx context.Context) error { return next(ctx, cmds) })
	}
}

// run runs a command. That there is no value, or that a script has to be sent
// whole, is no failure.
func (h redisHook) run(ctx context.Context, name string, command func(context.Context) error) error {
	ctx, span := tracing.Call(ctx, "redis", name)
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, redisCommandTimeout)
	defer cancel()
	err := command(bounded)
	outcome, failure := "ok", ""
	switch {
	case err == nil, errors.Is(err, redis.Nil), redis.HasErrorPrefix(err, "NOSCRIPT"):
	case errors.Is(err, context.Canceled):
		outcome = "canceled"
	default:
		outcome, failure = "error", "error"
	}
	span.End(failure)
	h.metrics.redis.WithLabelValues(name, outcome).Observe(time.Since(began).Seconds())
	return err
}

// countedSessions counts how sessions begin and end.
type countedSessions struct {
	session.Store
	metrics *storeMetrics
}

// Create implements session.Store.
func (c countedSessions) Create(ctx context.Context, s session.Session, fence string, lifetime time.Duration) error {
	err := c.Store.Create(ctx, s, fence, lifetime)
	if err == nil {
		c.metrics.started.Inc()
	}
	return err
}

// Delete implements session.Store.
func (c countedSessions) Delete(ctx context.Context, ref session.Ref) error {
	err := c.Store.Delete(ctx, ref)
	if err == nil {
		c.metrics.ended.WithLabelValues(sessionClosed).Inc()
	}
	return err
}

// Revoke implements session.Store.
func (c countedSessions) Revoke(ctx context.Context, userID int64, keep string) (int, error) {
	n, err := c.Store.Revoke(ctx, userID, keep)
	c.metrics.ended.WithLabelValues(sessionRevoked).Add(float64(n))
	return n, err
}

// Sweep implements session.Store.
func (c countedSessions) Sweep(ctx context.Context) (session.Swept, error) {
	swept, err := c.Store.Sweep(ctx)
	c.metrics.ended.WithLabelValues(sessionExpired).Add(float64(swept.Expired))
	if err == nil {
		c.metrics.live.Set(float64(swept.Live))
	}
	return swept, err
}
