package httpapi_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/pkg/clientaddr"
	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/auth/internal/access"
	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/app/apptest"
	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/factor/passkey"
	"github.com/pforte/pforte/services/auth/internal/httpapi"
	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/once"
	"github.com/pforte/pforte/services/auth/internal/pages"
	"github.com/pforte/pforte/services/auth/internal/password"
	"github.com/pforte/pforte/services/auth/internal/people"
	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/session"
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
	database *sqlstore.Stores
	users    failingUsers
	sessions session.Store
	stores   session.Stores
	manager  *session.Manager
	redis    *redis.Client
	registry *prometheus.Registry
	clock    *apptest.Clock
	log      *apptest.Log
	opened   *apptest.Stores
	oidc     *oidc.Service
	// brokenGrants and brokenShort make the stores of the provider fail.
	brokenGrants, brokenShort *atomic.Int64
	// addresses is how many addresses elsewhere has used.
	addresses int
	// beforeLink, unless nil, runs once, before a link is stored.
	beforeLink func()
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
	guardToken       string
	hasher           password.Options
	attempts         int
	sessions         session.Store
	lifetime         time.Duration
	remember         time.Duration
	dataKey          string
	dataKeyPrevious  string
	noPasskeys       bool
	pages            bool // there are pages, which the API leads to
	people           bool // and these are the real ones
	database         string
}

func newFixture(t *testing.T, change ...func(*settings)) *fixture {
	t.Helper()
	s := settings{secret: secret, name: "svc", attempts: 5, hasher: cheap, dataKey: strings.Repeat("0123456789abcdef", 4)}
	for _, c := range change {
		c(&s)
	}
	h := &fixture{
		t:           t,
		brokenUsers: &atomic.Bool{}, brokenRehash: &atomic.Bool{}, brokenSessions: &atomic.Bool{}, brokenRevoke: &atomic.Bool{}, brokenDelete: &atomic.Bool{}, brokenLimits: &atomic.Bool{}, unhealthy: &atomic.Bool{},
		brokenGrants: &atomic.Int64{}, brokenShort: &atomic.Int64{},
		brokenPolicy: &atomic.Bool{}, policyReads: &atomic.Int64{},
	}
	h.opened = apptest.Open(t, cmp.Or(s.database, apptest.Memory), nil)
	h.db, h.database, h.redis, h.clock, h.log, h.stores = h.opened.DB, h.opened.SQL, h.opened.Redis, h.opened.Clock, h.opened.Log, h.opened.Kept
	h.users = failingUsers{h.database.Users, h.brokenUsers, h.brokenRehash}
	h.sessions = s.sessions
	if h.sessions == nil {
		h.sessions = failingSessions{h.opened.Kept, h.brokenSessions, h.brokenRevoke, h.brokenDelete}
	}
	h.build(s)
	h.add("anna", "Anna", adminPass, "admin")
	h.add("otto", "Otto", userPass, "member")
	return h
}

// build makes the handler, as a start of the program does.
func (h *fixture) build(s settings) {
	h.t.Helper()
	limited := redis.NewClient(&redis.Options{Addr: h.redis.Options().Addr, ReadTimeout: time.Minute})
	h.t.Cleanup(func() { _ = limited.Close() })
	limited.AddHook(failingLimits{h.brokenLimits})
	parts := h.opened.Build(h.t, func(o *apptest.Options) {
		o.Limited, o.Attempts = limited, s.attempts
		o.Accounts.Users, o.Accounts.Sessions, o.Accounts.SessionLifetimes, o.People.Users = h.users, h.sessions, session.NewLifetimes(s.lifetime, s.remember), h.users
		o.People.Links = heldLinks{h.database.Links, h}
		o.Accounts.Passwords = must(password.New(s.hasher))(h.t)
		o.Accounts.Sealer = must(factor.NewSealer(s.dataKey, s.dataKeyPrevious))(h.t)
		o.DataKey, o.DataKeyPrevious, o.NoDataKey = []byte(s.dataKey), []byte(s.dataKeyPrevious), s.dataKey == ""
		if !s.noPasskeys {
			o.Accounts.Party = must(passkey.New(passkey.Options{PublicURL: origin}))(h.t)
		}
		o.Policy.Applications = failingApplications{h.database.Applications, h.reads()}
		o.Policy.Groups, o.Policy.Tokens = failingGroups{h.database.Groups, h.reads()}, failingTokens{h.database.Tokens, h.reads()}
		o.Sessions.Name, o.Sessions.Secret, o.Sessions.PreviousSecret = s.name, s.secret, s.previous
		o.Sessions.Secure, o.Sessions.SameSite = !s.insecure, http.SameSiteLaxMode
		if s.compat {
			o.Sessions.SameSite = http.SameSiteStrictMode
		}
		o.OIDC.Grants, o.OIDC.ShortLived = failingGrants{h.database.Grants, h.brokenGrants}, failingShort{o.OIDC.ShortLived, h.brokenShort}
		o.Web.Secure, o.Web.CompatV0, o.Web.PublicURL = !s.insecure, s.compat, s.publicURL
		for _, p := range s.proxies {
			o.Web.TrustedProxies = append(o.Web.TrustedProxies, clientaddr.Network{Prefix: netip.MustParsePrefix(p)})
		}
	})
	h.audit, h.accounts, h.people, h.policy, h.manager, h.registry, h.oidc = parts.Audit, parts.Accounts, parts.People, parts.Policy, parts.Sessions, parts.Registry, parts.OIDC
	served := httpapi.Options{
		Web: parts.Web, GuardToken: s.guardToken,
		Health: func(context.Context) error {
			if h.unhealthy.Load() {
				return errStore
			}
			return nil
		},
	}
	if s.pages {
		served.Pages = func(*echo.Echo) {}
		served.Refusal = func(c echo.Context, status int, reason access.Reason, app application.Application, _ access.Caller, _ string) error {
			return c.HTML(status, string(reason)+" "+app.Slug)
		}
		served.SignInPage = func(c echo.Context, page web.OIDCPage) error {
			if errors.Is(page.Err, web.ErrLimited) {
				f := web.Fail(c.Response(), page.Err)
				return c.HTML(f.Status, f.German)
			}
			if page.Err != nil {
				return c.HTML(http.StatusBadRequest, page.Err.Error())
			}
			return c.HTML(http.StatusOK, fmt.Sprint(page.Step.Kind)+" "+web.OIDCAnswer(page.Step).URL())
		}
	}
	if s.people {
		shown := must(pages.New(pages.Options{Web: parts.Web, Once: must(once.New(once.Options{Client: h.redis, App: s.name}))(h.t), AppName: s.name}))(h.t)
		served.Pages, served.Refusal, served.SignInPage = shown.Routes, shown.Refusal, shown.SignIn
	}
	h.handler = must(httpapi.New(served))(h.t)
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

// remove deletes a user as the operator does.
func (h *fixture) remove(username string) error {
	return apptest.Remove(h.t.Context(), h.people, username)
}

func must[T any](v T, err error) func(testing.TB) T { return apptest.Must(v, err) }

// errStore is the error of a broken store; no answer may contain it.
var errStore = errors.New("dial tcp 10.0.0.5:6379: connection refused")
