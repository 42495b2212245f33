package app

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/pkg/tracing"
	"github.com/pforte/pforte/services/auth/internal/session"
)

// storeMetrics counts what is asked of the stores and what becomes of sessions.
type storeMetrics struct {
	redis   *prometheus.HistogramVec
	started prometheus.Counter
	ended   *prometheus.CounterVec
	live    prometheus.Gauge
}

// Why a session ended: by its own browser, from outside, or of age.
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
			Name: "auth_sessions_started_total", Help: "Sessions that logins made.",
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

// register adds these metrics and, for each store, whether it answers: both are
// asked at every scrape.
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
	var faults []error
	for _, c := range []prometheus.Collector{m.redis, m.started, m.ended, m.live, up("database", s.db.Ping), up("redis", s.pingRedis)} {
		faults = append(faults, r.Register(c))
	}
	return errors.Join(faults...)
}

// redisWatch measures and traces each command. Keys and arguments are nobody's
// business: they name sessions.
type redisWatch struct{ metrics *storeMetrics }

// DialHook implements redis.Hook.
func (redisWatch) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (w redisWatch) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		ctx, watched := w.begin(ctx, cmd.Name())
		return watched.end(next(ctx, cmd))
	}
}

// ProcessPipelineHook implements redis.Hook.
func (w redisWatch) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		ctx, watched := w.begin(ctx, "pipeline")
		return watched.end(next(ctx, cmds))
	}
}

// watchedCommand is a command under way.
type watchedCommand struct {
	metrics *storeMetrics
	name    string
	began   time.Time
	span    tracing.Span
}

func (w redisWatch) begin(ctx context.Context, name string) (context.Context, watchedCommand) {
	ctx, span := tracing.Call(ctx, "redis", name)
	return ctx, watchedCommand{metrics: w.metrics, name: name, began: time.Now(), span: span}
}

// end counts how the command ended, and gives err back. That there is nothing,
// or that a script has to be sent whole, is no failure.
func (c watchedCommand) end(err error) error {
	outcome, failure := "ok", ""
	switch {
	case err == nil, errors.Is(err, redis.Nil), redis.HasErrorPrefix(err, "NOSCRIPT"):
	case errors.Is(err, context.Canceled):
		outcome = "canceled"
	default:
		outcome, failure = "error", "error"
	}
	c.span.End(failure)
	c.metrics.redis.WithLabelValues(c.name, outcome).Observe(time.Since(c.began).Seconds())
	return err
}

// countedSessions counts what becomes of sessions.
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
