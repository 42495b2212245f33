package httpapi_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/pkg/clientaddr"
	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/auth/internal/access"
	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/factor/passkey"
	"github.com/pforte/pforte/services/auth/internal/httpapi"
	"github.com/pforte/pforte/services/auth/internal/password"
	"github.com/pforte/pforte/services/auth/internal/people"
	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/ratelimit"
	"github.com/pforte/pforte/services/auth/internal/session"
	sessionredis "github.com/pforte/pforte/services/auth/internal/session/redisstore"
	"github.com/pforte/pforte/services/auth/internal/sqlstore"
	"github.com/pforte/pforte/services/auth/internal/web"
)

const (
	secret    = "a secret of the tests, 32 characters"
	adminPass = "correct horse"
	userPass  = "battery staple"
)

// fixture is auth on SQLite in memory and miniredis, with a clock that tests move, an admin "anna"
// (id 1) and a member "otto" (id 2).
type fixture struct {
	t        *testing.T
	handler  http.Handler
	accounts *account.Service
	people   *people.Service
	policy   *policy.Service
	audit    *audit.Recorder
	db       *sqldb.DB
	database *sqlstore.Store
	users    failingUsers
	sessions session.Store
	stores   session.Stores
	manager  *session.Manager
	redis    *redis.Client
	registry *prometheus.Registry
	clock    *clock
	log      *syncBuffer
	// addresses is how many addresses elsewhere has used.
	addresses int
	// broken makes the stores fail.
	brokenUsers, brokenRehash, brokenSessions, brokenRevoke, brokenDelete, brokenLimits, unhealthy, brokenPolicy *atomic.Bool
	// policyReads counts what the guard reads of SQL.
	policyReads *atomic.Int64
}

// cheap is a hasher for tests in which the cost is not the point.
var cheap = password.Options{Cost: 4}

// settings change what newFixture builds.
type settings struct {
	compat, insecure bool
	secret, previous string
	proxies          []string
	name             string
	publicURL        string
	hasher           password.Options
	attempts         int
	sessions         session.Store
	lifetime         time.Duration
	dataKey          string
	dataKeyPrevious  string
	noPasskeys       bool
	pages            bool // there are pages, which the API leads to
}

func newFixture(t *testing.T, change ...func(*settings)) *fixture {
	t.Helper()
	s := settings{secret: secret, name: "svc", attempts: 5, hasher: cheap, dataKey: strings.Repeat("0123456789abcdef", 4)}
	for _, c := range change {
		c(&s)
	}
	h := &fixture{
		t: t, clock: &clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}, log: &syncBuffer{},
		brokenUsers: &atomic.Bool{}, brokenRehash: &atomic.Bool{}, brokenSessions: &atomic.Bool{}, brokenRevoke: &atomic.Bool{}, brokenDelete: &atomic.Bool{}, brokenLimits: &atomic.Bool{}, unhealthy: &atomic.Bool{},
		brokenPolicy: &atomic.Bool{}, policyReads: &atomic.Int64{},
	}
	h.db = openSQLite(t)
	h.database = sqlstore.NewObserved(h.db, h.clock.Now, func(ctx context.Context, e audit.Entry) {
		audit.Log(ctx, slog.New(slog.NewJSONHandler(h.log, nil)), e)
	})
	h.users = failingUsers{h.database, h.brokenUsers, h.brokenRehash}
	h.redis = openRedis(t, h.clock)
	h.sessions = s.sessions
	if h.sessions == nil {
		h.sessions = failingSessions{sessionredis.New(h.redis, "svc"), h.brokenSessions, h.brokenRevoke, h.brokenDelete}
	}
	h.build(s)
	h.add("anna", "Anna", adminPass, "admin")
	h.add("otto", "Otto", userPass, "member")
	return h
}

// build makes the handler, as a start of the program does.
func (h *fixture) build(s settings) {
	h.t.Helper()
	h.registry = prometheus.NewRegistry()
	log := slog.New(slog.NewJSONHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	hasher := must(password.New(s.hasher))(h.t)
	limited := redis.NewClient(&redis.Options{Addr: h.redis.Options().Addr})
	h.t.Cleanup(func() { _ = limited.Close() })
	limited.AddHook(failingLimits{h.brokenLimits})
	limits := ratelimit.Options{Client: limited, App: "svc", Name: "login", Limit: s.attempts, Window: time.Minute}
	passwordLimits := limits
	passwordLimits.Name = "password"
	linkLimits := limits
	linkLimits.Name, linkLimits.Limit, linkLimits.Window = "link", web.LinkAttempts, web.LinkWindow
	create := func(name string, limit int, window time.Duration) (*ratelimit.Limiter, error) {
		return ratelimit.New(ratelimit.Options{Client: limited, App: "svc", Name: name, Limit: limit, Window: window})
	}
	codeLimits := must(account.NewLimits(create))(h.t)
	sealer := must(factor.NewSealer(s.dataKey, s.dataKeyPrevious))(h.t)
	passkeyLimits := limits
	passkeyLimits.Name, passkeyLimits.Limit, passkeyLimits.Window = "passkey", web.PasskeyAttempts, web.PasskeyWindow
	stores := sessionredis.New(h.redis, "svc")
	h.stores = stores
	var party factor.RelyingParty
	if !s.noPasskeys {
		party = must(passkey.New(passkey.Options{PublicURL: origin}))(h.t)
	}
	store := failingPolicy{h.database, h.brokenPolicy, h.policyReads}
	h.audit = must(audit.NewRecorder(audit.RecorderOptions{Store: h.database, Log: log, Now: h.clock.Now}))(h.t)
	h.accounts = must(account.New(account.Options{Party: party, Users: h.users, Factors: h.database, Sealer: sealer, Limits: codeLimits, Audit: h.audit, Sessions: h.sessions, Pendings: stores, Ceremonies: stores, Passkeys: h.database, Passwords: hasher, SessionLifetime: s.lifetime, Log: log, Now: h.clock.Now}))(h.t)
	h.people = must(people.New(people.Options{Users: h.users, Links: h.database, Accounts: h.accounts, Passwords: hasher, Audit: h.audit, Log: log}))(h.t)
	h.policy = must(policy.New(policy.Options{Store: store, HandOvers: stores, TokenLimit: must(policy.NewTokenLimit(create))(h.t), Audit: h.audit, Log: log, Now: h.clock.Now}))(h.t)
	sameSite := http.SameSiteLaxMode
	if s.compat {
		sameSite = http.SameSiteStrictMode
	}
	h.manager = must(session.NewManager(session.Options{
		Store: h.sessions, Name: s.name, Secret: s.secret, PreviousSecret: s.previous, Secure: !s.insecure, SameSite: sameSite, Lifetime: s.lifetime, Now: h.clock.Now,
	}))(h.t)
	options := web.Options{
		Accounts:      h.accounts,
		People:        h.people,
		Policy:        h.policy,
		Audit:         h.audit,
		Sessions:      h.manager,
		LoginLimit:    must(ratelimit.New(limits))(h.t),
		PasswordLimit: must(ratelimit.New(passwordLimits))(h.t),
		LinkLimit:     must(ratelimit.New(linkLimits))(h.t), PasskeyLimit: must(ratelimit.New(passkeyLimits))(h.t),
		PublicURL: s.publicURL,
		Secure:    !s.insecure, CompatV0: s.compat, Metrics: must(web.NewMetrics(h.registry))(h.t), Log: log, Now: h.clock.Now,
	}
	for _, p := range s.proxies {
		options.TrustedProxies = append(options.TrustedProxies, clientaddr.Network{Prefix: netip.MustParsePrefix(p)})
	}
	served := httpapi.Options{
		Web: must(web.New(options))(h.t),
		Health: func(context.Context) error {
			if h.unhealthy.Load() {
				return errStore
			}
			return nil
		},
	}
	if s.pages {
		served.Pages = func(*echo.Echo) {}
		served.Refusal = func(c echo.Context, status int, reason access.Reason, app application.Application) error {
			return c.HTML(status, string(reason)+" "+app.Slug)
		}
	}
	h.handler = must(httpapi.New(served))(h.t)
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// add creates a user without the API and returns the id.
func (h *fixture) add(username, displayName, pass, role string) int64 {
	h.t.Helper()
	u, err := h.people.Add(h.t.Context(), people.NewUser{Username: username, DisplayName: displayName, Password: pass, Role: &role})
	if err != nil {
		h.t.Fatal(err)
	}
	return u.ID
}

func openSQLite(t *testing.T) *sqldb.DB {
	t.Helper()
	db := must(sqldb.Open(t.Context(), "sqlite::memory:", sqlstore.Migrations))(t)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// openRedis starts a Redis that follows the clock.
func openRedis(t *testing.T, c *clock) *redis.Client {
	t.Helper()
	c.server = miniredis.RunT(t)
	c.server.SetTime(c.now)
	client := redis.NewClient(&redis.Options{Addr: c.server.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// clock is the time of a fixture.
type clock struct {
	mu     sync.Mutex
	now    time.Time
	server *miniredis.Miniredis
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.server.SetTime(c.now)
	c.server.FastForward(d)
}

// syncBuffer collects the log.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// errStore is the error of a broken store; no answer may contain it.
var errStore = errors.New("dial tcp 10.0.0.5:6379: connection refused")
