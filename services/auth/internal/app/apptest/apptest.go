// Package apptest builds auth for tests, on a database and miniredis, as app does for the program.
package apptest

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/application"
	proxyredis "github.com/pforte/pforte/services/auth/internal/application/redisstore"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/oidc"
	oidcredis "github.com/pforte/pforte/services/auth/internal/oidc/redisstore"
	"github.com/pforte/pforte/services/auth/internal/oidc/sign"
	"github.com/pforte/pforte/services/auth/internal/password"
	"github.com/pforte/pforte/services/auth/internal/people"
	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/ratelimit"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/session/redisstore"
	"github.com/pforte/pforte/services/auth/internal/sqlstore"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// Memory is the URL of a database in memory.
const Memory = "sqlite::memory:"

// Stores are open stores. They outlive the parts that are built on them, as they do when a program starts again.
type Stores struct {
	DB    *sqldb.DB
	SQL   *sqlstore.Stores
	Redis *redis.Client
	Kept  session.Stores // in Redis
	Clock *Clock         // nil where Open was given now
	Log   *Log
	now   func() time.Time
}

// Open opens the stores of a new Redis and the database of a URL, until the test ends. Where now is nil, the time is a
// Clock, which Redis follows.
func Open(t testing.TB, database string, now func() time.Time) *Stores {
	t.Helper()
	server := miniredis.RunT(t)
	s := &Stores{Log: &Log{}, now: now}
	if now == nil {
		s.Clock = &Clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Redis: server}
		s.now = s.Clock.Now
		server.SetTime(s.now())
	}
	s.DB = Must(sqldb.Open(t.Context(), database, sqlstore.Migrations))(t)
	s.Redis = redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute})
	t.Cleanup(func() { _, _ = s.Redis.Close(), s.DB.Close() })
	s.SQL = sqlstore.New(s.DB, s.now, func(ctx context.Context, e audit.Entry) { audit.Log(ctx, s.log(), e) })
	s.Kept = redisstore.New(s.Redis, "svc")
	return s
}

func (s *Stores) log() *slog.Logger {
	return slog.New(slog.NewJSONHandler(s.Log, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Parts are the parts of auth.
type Parts struct {
	Audit    *audit.Recorder
	Accounts *account.Service
	People   *people.Service
	Policy   *policy.Service
	Sessions *session.Manager
	Web      *web.Web
	OIDC     *oidc.Service
	Registry *prometheus.Registry // of the metrics
}

// Options are the options of the parts. Build fills in where one part is an option of another.
type Options struct {
	Audit    audit.RecorderOptions
	Accounts account.Options
	People   people.Options
	Policy   policy.Options
	Sessions session.Options
	Web      web.Options
	OIDC     oidc.Options
	// DataKey is the DATA_KEY of the provider; empty: one of the tests. With NoDataKey there is none. Without
	// Web.PublicURL there is no provider.
	DataKey, DataKeyPrevious []byte
	NoDataKey                bool
	// Limited is where attempts are counted; Attempts is how many wrong passwords an address, or a user, is permitted.
	Limited  redis.UniversalClient
	Attempts int
}

// Build builds the parts; change changes their options.
func (s *Stores) Build(t testing.TB, change func(*Options)) *Parts {
	t.Helper()
	log := s.log()
	o := Options{
		Audit: audit.RecorderOptions{Store: s.SQL.Audit, Log: log, Now: s.now},
		Accounts: account.Options{
			Users: s.SQL.Users, Factors: s.SQL.Factors, Browsers: s.SQL.Browsers, Passkeys: s.SQL.Passkeys,
			Sessions: s.Kept, Pendings: s.Kept, Ceremonies: s.Kept,
			Sealer:    Must(factor.NewSealer(strings.Repeat("0123456789abcdef", 4), ""))(t),
			Passwords: Must(password.New(password.Options{Cost: 4}))(t), Log: log, Now: s.now,
		},
		People: people.Options{
			Users: s.SQL.Users, Links: s.SQL.Links, Log: log, Location: time.UTC, Now: s.now,
		},
		Policy: policy.Options{
			Applications: s.SQL.Applications, Groups: s.SQL.Groups, Tokens: s.SQL.Tokens, Users: s.SQL.Users,
			Proxies:   proxyredis.New(s.Redis, "svc", s.now),
			HandOvers: s.Kept, Log: log, Now: s.now,
		},
		Sessions: session.Options{
			Name: "svc", Secret: "a secret of the tests, 32 characters", Secure: true, Now: s.now,
		},
		Web: web.Options{Secure: true, Log: log, Now: s.now},
		OIDC: oidc.Options{
			Off: oidc.ErrNoPublicURL, Clients: s.SQL.Clients, Keys: s.SQL.Keys, Grants: s.SQL.Grants,
			Users: s.SQL.Users, ShortLived: oidcredis.New(s.Redis, "svc"), Log: log, Now: s.now,
		},
		Limited: s.Redis, Attempts: 5,
	}
	change(&o)
	limit := func(name string, limit int, window time.Duration) (*ratelimit.Limiter, error) {
		return ratelimit.New(ratelimit.Options{Client: o.Limited, App: "svc", Name: name, Limit: limit, Window: window})
	}
	p := &Parts{Registry: prometheus.NewRegistry()}

	p.Audit = Must(audit.NewRecorder(o.Audit))(t)
	o.Accounts.Audit, o.Accounts.Limits = p.Audit, Must(account.NewLimits(limit))(t)
	p.Accounts = Must(account.New(o.Accounts))(t)
	o.People.Accounts, o.People.Passwords, o.People.Audit = p.Accounts, o.Accounts.Passwords, p.Audit
	p.People = Must(people.New(o.People))(t)
	o.Policy.Audit, o.Policy.TokenLimit = p.Audit, Must(policy.NewTokenLimit(limit))(t)
	o.Policy.ProbeLimit, o.Policy.PublicURL = Must(policy.NewProbeLimit(limit))(t), o.Web.PublicURL
	p.Policy = Must(policy.New(o.Policy))(t)

	if o.Web.PublicURL != "" {
		o.OIDC.Off, o.OIDC.Issuer = nil, o.Web.PublicURL+web.OIDCRoot
	}
	if o.NoDataKey {
		o.OIDC.Off = cmp.Or(o.OIDC.Off, oidc.ErrNoDataKey)
	} else if len(o.DataKey) == 0 {
		o.DataKey = []byte("a DATA_KEY of the tests, 32 bytes")
	}
	if o.OIDC.Signer == nil {
		o.OIDC.Signer = Must(sign.New(sign.Options{
			DataKey: o.DataKey, Previous: o.DataKeyPrevious, Observe: func(time.Duration) {},
		}))(t)
	}
	for _, key := range [][]byte{o.DataKey, o.DataKeyPrevious} {
		if len(key) > 0 {
			o.OIDC.MACKeys = append(o.OIDC.MACKeys, Must(oidc.NewMACKey(key))(t))
		}
	}
	o.OIDC.Audit = p.Audit
	o.OIDC.HasPaths = func(ctx context.Context) (bool, error) {
		return p.Policy.Any(ctx, func(a application.Application) bool { return !a.HasHost() })
	}
	p.OIDC = Must(oidc.New(o.OIDC))(t)
	o.Web.OIDC, o.Web.SignInLimit = p.OIDC, Must(limit("signin", web.SignInAttempts, web.SignInWindow))(t)

	if o.Sessions.Store == nil {
		o.Sessions.Store = o.Accounts.Sessions
	}
	o.Sessions.Lifetimes = cmp.Or(o.Sessions.Lifetimes, o.Accounts.SessionLifetimes)
	p.Sessions = Must(session.NewManager(o.Sessions))(t)
	o.Web.Accounts, o.Web.People, o.Web.Policy, o.Web.Audit, o.Web.Sessions = p.Accounts, p.People, p.Policy, p.Audit,
		p.Sessions
	o.Web.LoginLimit = Must(limit("login", o.Attempts, time.Minute))(t)
	o.Web.PasswordLimit = Must(limit("password", o.Attempts, time.Minute))(t)
	o.Web.LinkLimit = Must(limit("link", web.LinkAttempts, web.LinkWindow))(t)
	o.Web.PasskeyLimit = Must(limit("passkey", web.PasskeyAttempts, web.PasskeyWindow))(t)
	o.Web.Metrics = Must(web.NewMetrics(p.Registry))(t)
	p.Web = Must(web.New(o.Web))(t)
	return p
}

// Must returns a function that returns v, or ends the test for the error.
func Must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// Clock is a time that stands still until it is moved.
type Clock struct {
	Redis *miniredis.Miniredis
	mu    sync.Mutex
	now   time.Time
}

// Now returns the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the time, and that of Redis.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.Redis.SetTime(c.now)
	c.Redis.FastForward(d)
}

// SetBack sets the time back, and not that of Redis.
func (c *Clock) SetBack(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(-d)
}

// Log collects the log.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write adds to the log.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String returns the log.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Remove deletes a user as the operator does. The errors are those of people.Service.ByUsername and Delete.
func Remove(ctx context.Context, p *people.Service, username string) error {
	u, err := p.ByUsername(ctx, username)
	if err != nil {
		return err
	}
	return p.Delete(ctx, session.Session{}, u.ID)
}
