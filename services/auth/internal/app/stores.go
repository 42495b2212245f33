package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/auth/internal/account"
	proxyredis "github.com/pforte/pforte/services/auth/internal/application/redisstore"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/config"
	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/link"
	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/password"
	"github.com/pforte/pforte/services/auth/internal/people"
	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/ratelimit"
	"github.com/pforte/pforte/services/auth/internal/session"
	sessionredis "github.com/pforte/pforte/services/auth/internal/session/redisstore"
	"github.com/pforte/pforte/services/auth/internal/sqlstore"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// stores are the open stores and the rules over them.
type stores struct {
	db       *sqldb.DB
	redis    redis.UniversalClient
	sessions session.Store
	hasher   *password.Hasher
	accounts *account.Service
	people   *people.Service
	policy   *policy.Service
	audit    *audit.Recorder
	oidc     *oidc.Service
	logouts  oidc.Logouts
	limit    ratelimit.Create
	// publicURL is the setting PUBLIC_URL.
	publicURL string
}

// rules are the settings of the rules, of which commands need few.
type rules struct {
	accounts account.Options
	policy   policy.Options
	audit    audit.RecorderOptions
	oidc     oidcRules
}

// openStores opens the database, which it brings up to date, and a client for
// Redis, which does not connect yet. observe is sqlstore.New's.
func openStores(
	ctx context.Context, cfg config.Stores, passwords password.Options, rules rules,
	observe func(context.Context, audit.Entry), log *slog.Logger, metrics *storeMetrics,
) (*stores, error) {
	target, err := config.ParseRedisURL(cfg.RedisURL)
	if err != nil {
		return nil, fmt.Errorf("REDIS_URL: %w", err)
	}
	db, err := sqldb.Open(ctx, cfg.DatabaseURL, sqlstore.Migrations)
	if err != nil {
		return nil, err
	}
	s := &stores{db: db, redis: openRedis(target, metrics.redis), publicURL: cfg.PublicURL}
	if s.hasher, err = password.New(passwords); err == nil {
		err = s.connect(cfg.AppName, rules, observe, log, metrics)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// connect connects the rules with the stores.
func (s *stores) connect(
	name string, rules rules, observe func(context.Context, audit.Entry), log *slog.Logger, metrics *storeMetrics,
) (err error) {
	kept := countedSessions{sessionredis.New(s.redis, name), metrics}
	s.sessions = kept
	database := sqlstore.New(s.db, time.Now, observe)
	s.limit = func(limiter string, limit int, window time.Duration) (*ratelimit.Limiter, error) {
		return ratelimit.New(ratelimit.Options{Client: s.redis, App: name, Name: limiter, Limit: limit, Window: window})
	}

	rules.audit.Store, rules.audit.Log, rules.audit.Now = database.Audit, log, time.Now
	if s.audit, err = audit.NewRecorder(rules.audit); err != nil {
		return err
	}

	a := &rules.accounts
	a.Users, a.Factors, a.Browsers, a.Passkeys = database.Users, database.Factors, database.Browsers, database.Passkeys
	a.Sessions, a.Pendings, a.Ceremonies = kept, kept, kept
	a.Passwords, a.Audit, a.Log, a.Now = s.hasher, s.audit, log, time.Now
	if a.Limits, err = account.NewLimits(s.limit); err != nil {
		return err
	}
	if s.accounts, err = account.New(*a); err != nil {
		return err
	}

	if s.people, err = people.New(people.Options{
		Users: database.Users, Links: countedLinks{database.Links, metrics}, Accounts: s.accounts, Passwords: s.hasher,
		Audit: s.audit, Log: log, Now: time.Now,
	}); err != nil {
		return err
	}

	p := &rules.policy
	p.Applications, p.Groups, p.Tokens, p.Users = database.Applications, database.Groups, database.Tokens,
		database.Users
	p.Proxies = proxyredis.New(s.redis, name, time.Now)
	p.PublicURL = s.publicURL
	p.HandOvers, p.Audit, p.Log, p.Now = kept, s.audit, log, time.Now
	if p.TokenLimit, err = policy.NewTokenLimit(s.limit); err != nil {
		return err
	}
	if p.ProbeLimit, err = policy.NewProbeLimit(s.limit); err != nil {
		return err
	}
	if s.policy, err = policy.New(*p); err != nil {
		return err
	}
	s.logouts = database.Logouts
	s.oidc, err = s.provider(name, rules.oidc, database, log, metrics)
	return err
}

// Close closes the database and the client for Redis.
func (s *stores) Close() error { return errors.Join(s.redis.Close(), s.db.Close()) }

// healthTimeout bounds how long a store may take to answer a ping.
const healthTimeout = 2 * time.Second

// health fails while a store does not answer. Both are pinged at once.
func (s *stores) health(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	database := make(chan error, 1)
	go func() { database <- named("database", s.db.Ping(ctx)) }()
	return errors.Join(s.pingRedis(ctx), <-database)
}

func (s *stores) pingRedis(ctx context.Context) error {
	return named("redis", s.redis.Ping(ctx).Err())
}

func named(name string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// storeMetrics are the metrics of the stores, sessions, links, notifications, signatures and logouts at applications.
type storeMetrics struct {
	redis   *prometheus.HistogramVec
	started prometheus.Counter
	ended   *prometheus.CounterVec
	live    prometheus.Gauge
	links   *prometheus.CounterVec
	// notifications by what became of them.
	notifications *prometheus.CounterVec
	signed        prometheus.Histogram
	// logouts are tries of back-channel logouts, by what became of them.
	logouts        *prometheus.CounterVec
	logoutsWaiting prometheus.Gauge
}

// Why a session ended.
const (
	sessionClosed  = "closed"
	sessionRevoked = "revoked"
	sessionExpired = "expired"
)

// What became of a link.
const (
	linkCreated = "created"
	linkUsed    = "used"
	linkRevoked = "revoked"
	linkInvalid = "invalid"
)

// newStoreMetrics returns metrics that are registered, unless r is nil.
func newStoreMetrics(r prometheus.Registerer) *storeMetrics {
	create := promauto.With(r)
	m := &storeMetrics{
		redis: create.NewHistogramVec(prometheus.HistogramOpts{
			Name: "auth_redis_command_duration_seconds", Help: "Commands to Redis with their retries, by command (or " +
				"pipeline) and outcome: ok, canceled, error.",
			Buckets: []float64{.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 3},
		}, []string{"command", "outcome"}),
		started: create.NewCounter(prometheus.CounterOpts{
			Name: "auth_sessions_started_total", Help: "Sessions that logins created.",
		}),
		ended: create.NewCounterVec(prometheus.CounterOpts{
			Name: "auth_sessions_ended_total", Help: "Sessions that ended, by reason: closed (logout, or another " +
				"login), revoked, expired (as the sweep finds them).",
		}, []string{"reason"}),
		live: create.NewGauge(prometheus.GaugeOpts{
			Name: "auth_sessions_live", Help: "Live sessions of all replicas, as the last sweep counted them; NaN " +
				"before the first.",
		}),
	}
	m.links = create.NewCounterVec(prometheus.CounterOpts{
		Name: "auth_links_total", Help: "Links by kind (invite, reset, setup) and result: created, used, revoked, " +
			"invalid (asked for and not open).",
	}, []string{"kind", "result"})
	for _, kind := range []link.Kind{link.Invite, link.Reset, link.Setup} {
		for _, result := range []string{linkCreated, linkUsed, linkInvalid} {
			m.links.WithLabelValues(string(kind), result)
		}
	}
	m.links.WithLabelValues(string(link.Invite), linkRevoked)
	m.notifications = create.NewCounterVec(prometheus.CounterOpts{
		Name: "auth_notifications_total", Help: "Notifications of events, by outcome: sent, failed, dropped (too " +
			"many were waiting).",
	}, []string{"outcome"})
	for _, outcome := range []string{audit.NotificationSent, audit.NotificationFailed, audit.NotificationDropped} {
		m.notifications.WithLabelValues(outcome)
	}
	m.signed = create.NewHistogram(prometheus.HistogramOpts{
		Name: "auth_oidc_sign_seconds", Help: "How long a signature of the OpenID Connect provider took, with the " +
			"wait for a processor.",
		Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1},
	})
	m.logouts = create.NewCounterVec(prometheus.CounterOpts{
		Name: "auth_oidc_logouts_total", Help: "Tries to tell an application of a logout, by result: sent, refused " +
			"(by the application), retried, failed (given up after five tries).",
	}, []string{"result"})
	for _, result := range []string{oidc.LogoutSent, oidc.LogoutRefused, oidc.LogoutRetried, oidc.LogoutFailed} {
		m.logouts.WithLabelValues(result)
	}
	m.logoutsWaiting = create.NewGauge(prometheus.GaugeOpts{
		Name: "auth_oidc_logouts_waiting", Help: "Logouts of all replicas that applications are still to be told of; " +
			"NaN before the first look.",
	})
	m.logoutsWaiting.Set(math.NaN())
	m.live.Set(math.NaN())
	for _, reason := range []string{sessionClosed, sessionRevoked, sessionExpired} {
		m.ended.WithLabelValues(reason)
	}
	return m
}

// register registers the load of the password hasher, how much work of the audit was dropped, and
// for each store whether it answers, which every scrape finds out with a ping.
func (s *stores) register(r prometheus.Registerer) {
	create := promauto.With(r)
	for store, ping := range map[string]func(context.Context) error{"database": s.db.Ping, "redis": s.pingRedis} {
		create.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "auth_store_up", Help: "1 when the store answers, by store: database, redis.",
			ConstLabels: prometheus.Labels{"store": store},
		}, func() float64 {
			ctx, cancel := context.WithTimeout(context.Background(), healthTimeout)
			defer cancel()
			if ping(ctx) != nil {
				return 0
			}
			return 1
		})
	}
	create.NewCounterFunc(prometheus.CounterOpts{
		Name: "auth_audit_dropped_total", Help: "Entries of the audit beside a change, but for what strangers " +
			"cause, dropped because too many were waiting.",
	}, func() float64 { return float64(s.audit.Dropped()) })
	passwords := s.hasher.Stats
	create.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "auth_passwords_computing", Help: "Password hashes being computed.",
	}, func() float64 { return float64(passwords().Computing) })
	create.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "auth_passwords_waiting", Help: "Passwords waiting to be computed.",
	}, func() float64 { return float64(passwords().Waiting) })
	create.NewCounterFunc(prometheus.CounterOpts{
		Name: "auth_passwords_refused_total", Help: "Passwords refused because too many were waiting.",
	}, func() float64 { return float64(passwords().Refused) })
}

// countedSessions counts how sessions begin and end.
type countedSessions struct {
	session.Stores
	metrics *storeMetrics
}

func (c countedSessions) Create(
	ctx context.Context, s session.Session, fence string, lifetimes session.Lifetimes,
) error {
	err := c.Stores.Create(ctx, s, fence, lifetimes)
	if err == nil {
		c.metrics.started.Inc()
	}
	return err
}

func (c countedSessions) FinishPending(
	ctx context.Context, ref session.Ref, s session.Session, fence string, lifetimes session.Lifetimes,
) error {
	err := c.Stores.FinishPending(ctx, ref, s, fence, lifetimes)
	if err == nil {
		c.metrics.started.Inc()
	}
	return err
}

func (c countedSessions) Delete(ctx context.Context, ref session.Ref) error {
	err := c.Stores.Delete(ctx, ref)
	if err == nil {
		c.metrics.ended.WithLabelValues(sessionClosed).Inc()
	}
	return err
}

func (c countedSessions) Revoke(ctx context.Context, userID int64, keep string) (int, error) {
	n, err := c.Stores.Revoke(ctx, userID, keep)
	c.metrics.ended.WithLabelValues(sessionRevoked).Add(float64(n))
	return n, err
}

func (c countedSessions) Sweep(ctx context.Context) (session.Swept, error) {
	swept, err := c.Stores.Sweep(ctx)
	c.metrics.ended.WithLabelValues(sessionExpired).Add(float64(swept.Expired))
	if err == nil {
		c.metrics.live.Set(float64(swept.Live))
	}
	return swept, err
}

// countedLinks counts what becomes of links.
type countedLinks struct {
	people.Links
	metrics *storeMetrics
}

func (c countedLinks) count(kind link.Kind, result string, err error) {
	if errors.Is(err, link.ErrInvalid) {
		result = linkInvalid
	} else if err != nil {
		return
	}
	c.metrics.links.WithLabelValues(string(kind), result).Inc()
}

func (c countedLinks) CreateLink(ctx context.Context, l link.Link, hash string, by session.Session) (link.Link, error) {
	created, err := c.Links.CreateLink(ctx, l, hash, by)
	c.count(l.Kind, linkCreated, err)
	return created, err
}

func (c countedLinks) Link(ctx context.Context, kind link.Kind, hash string) (link.Link, error) {
	l, err := c.Links.Link(ctx, kind, hash)
	if err != nil {
		c.count(kind, linkInvalid, err)
	}
	return l, err
}

func (c countedLinks) RevokeInvite(ctx context.Context, id, by int64) error {
	err := c.Links.RevokeInvite(ctx, id, by)
	c.count(link.Invite, linkRevoked, err)
	return err
}

func (c countedLinks) Setup(
	ctx context.Context, hash string, n user.New, key *factor.FirstPasskey, household string,
) (user.User, error) {
	created, err := c.Links.Setup(ctx, hash, n, key, household)
	c.count(link.Setup, linkUsed, err)
	return created, err
}

func (c countedLinks) Join(
	ctx context.Context, hash string, n user.New, key *factor.FirstPasskey,
) (user.User, error) {
	created, err := c.Links.Join(ctx, hash, n, key)
	c.count(link.Invite, linkUsed, err)
	return created, err
}

func (c countedLinks) ResetByLink(ctx context.Context, hash, newHash string) (user.Revocation, error) {
	r, err := c.Links.ResetByLink(ctx, hash, newHash)
	c.count(link.Reset, linkUsed, err)
	return r, err
}
