package pages_test

import (
	"context"
	"errors"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/app/apptest"
	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/factor/passkey"
	"github.com/pforte/pforte/services/auth/internal/httpapi"
	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/once"
	"github.com/pforte/pforte/services/auth/internal/pages"
	"github.com/pforte/pforte/services/auth/internal/people"
	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/sqlstore"
	"github.com/pforte/pforte/services/auth/internal/web"
)

const (
	adminPass = "correct horse"
	userPass  = "battery staple"
)

// fixture is auth with its pages, on SQLite in memory and miniredis, with a clock that
// tests move, an admin "anna" (id 1) and a member "otto" (id 2).
type fixture struct {
	registry *prometheus.Registry
	t        *testing.T
	handler  http.Handler
	accounts *account.Service
	people   *people.Service
	policy   *policy.Service
	audit    *audit.Recorder
	store    *sqlstore.Stores
	sessions *session.Manager
	pages    *pages.Pages
	log      *apptest.Log
	clock    *apptest.Clock
	redis    *miniredis.Miniredis
	kept     *redis.Client   // of what the pages keep
	revoking func()          // is called before sessions are revoked; nil: nothing is
	entering func()          // likewise before a client is added
	asked    []string        // internal addresses that the proxies were to try
	failing  map[string]bool // calls of stores that fail: revoke (sessions), issuer, clients, ask (proxies: done all the same)
}

func (f *fixture) Now() time.Time          { return f.clock.Now() }
func (f *fixture) advance(d time.Duration) { f.clock.Advance(d) }

func must[T any](v T, err error) func(testing.TB) T { return apptest.Must(v, err) }

func newFixture(t *testing.T, change ...func(*web.Options)) *fixture {
	t.Helper()
	f := newEmptyFixture(t, change...)
	f.add("anna", "Anna", adminPass, "admin")
	f.add("otto", "Otto", userPass, "member")
	return f
}

// newEmptyFixture is without users.
func newEmptyFixture(t *testing.T, change ...func(*web.Options)) *fixture {
	t.Helper()
	return newFixtureIn(t, apptest.Memory, change...)
}

// newFixtureIn is newEmptyFixture in another database.
func newFixtureIn(t *testing.T, database string, change ...func(*web.Options)) *fixture {
	t.Helper()
	stores := apptest.Open(t, database, nil)
	f := &fixture{t: t, store: stores.SQL, log: stores.Log, clock: stores.Clock, redis: stores.Clock.Redis}
	f.kept = redis.NewClient(&redis.Options{Addr: f.redis.Addr()})
	t.Cleanup(func() { _ = f.kept.Close() })
	f.failing = map[string]bool{}
	parts := stores.Build(t, func(o *apptest.Options) {
		o.Accounts.Sessions, o.OIDC.Clients = failingSessions{stores.Kept, f}, failingClients{stores.SQL.Clients, f}
		o.Policy.Proxies = failingProxies{o.Policy.Proxies, f}
		o.Audit.Retention = 400 * 24 * time.Hour
		for _, c := range change {
			c(&o.Web)
		}
		if o.Web.PublicURL != "" {
			o.Accounts.Party = must(passkey.New(passkey.Options{PublicURL: o.Web.PublicURL}))(t)
		}
	})
	f.registry = parts.Registry
	f.audit, f.accounts, f.people, f.policy, f.sessions = parts.Audit, parts.Accounts, parts.People, parts.Policy, parts.Sessions
	f.pages = must(pages.New(pages.Options{Web: parts.Web, Once: must(once.New(once.Options{Client: f.kept, App: "svc"}))(t), AppName: "svc", Location: time.UTC}))(t)
	f.handler = must(httpapi.New(httpapi.Options{Web: parts.Web, Health: func(context.Context) error { return nil }, Pages: f.pages.Routes, Refusal: f.pages.Refusal, SignInPage: f.pages.SignIn}))(t)
	return f
}

var errStore = errors.New("store is away")

type failingSessions struct {
	session.Store
	f *fixture
}

func (s failingSessions) Revoke(ctx context.Context, userID int64, keep string) (int, error) {
	if s.f.revoking != nil {
		s.f.revoking()
	}
	if s.f.failing["revoke"] {
		return 0, errStore
	}
	return s.Store.Revoke(ctx, userID, keep)
}

type sqlClients = sqlstore.Clients

type failingClients struct {
	*sqlClients
	f *fixture
}

func (c failingClients) Issuer(ctx context.Context) (string, error) {
	if c.f.failing["issuer"] {
		return "", errStore
	}
	return c.sqlClients.Issuer(ctx)
}

func (c failingClients) Clients(ctx context.Context) ([]oidc.Client, error) {
	if c.f.failing["clients"] {
		return nil, errStore
	}
	return c.sqlClients.Clients(ctx)
}

func (c failingClients) CreateClient(ctx context.Context, n oidc.Client, issuer string, by session.Session) error {
	if c.f.entering != nil {
		c.f.entering()
	}
	return c.sqlClients.CreateClient(ctx, n, issuer, by)
}

// AddSecret is the last call that does not fail where "after a secret" is set.
func (c failingClients) AddSecret(ctx context.Context, slug string, s oidc.Secret, by session.Session) error {
	err := c.sqlClients.AddSecret(ctx, slug, s, by)
	c.f.failing["clients"] = c.f.failing["after a secret"]
	return err
}

type proxies = application.Proxies

type failingProxies struct {
	proxies
	f *fixture
}

func (p failingProxies) Ask(ctx context.Context, asked application.Probe) error {
	p.f.asked = append(p.f.asked, asked.To)
	err := p.proxies.Ask(ctx, asked)
	if p.f.failing["ask"] {
		return errStore
	}
	return err
}

func (f *fixture) add(username, displayName, pass, role string) int64 {
	f.t.Helper()
	return must(f.people.Add(f.t.Context(), people.NewUser{Username: username, DisplayName: displayName, Password: pass, Role: &role}))(f.t).ID
}

// browser keeps cookies and sends forms as a browser does.
type browser struct {
	f       *fixture
	cookies map[string]string
	headers http.Header // of every request
	host    string      // to which it sends; empty: that of httptest
}

func (f *fixture) browser() *browser {
	return &browser{f: f, cookies: map[string]string{}, headers: http.Header{"Accept-Language": {"de"}}}
}

// loggedIn is a browser of a user.
func (f *fixture) loggedIn(username, pass string) *browser {
	f.t.Helper()
	b := f.browser()
	b.post("/pforte/login", "username", username, "password", pass).want(http.StatusSeeOther)
	return b
}

func (f *fixture) anna() *browser { f.t.Helper(); return f.loggedIn("anna", adminPass) }
func (f *fixture) otto() *browser { f.t.Helper(); return f.loggedIn("otto", userPass) }

// reply is an answer.
type reply struct {
	t      *testing.T
	what   string
	status int
	header http.Header
	body   string
}

func (b *browser) do(r *http.Request) reply {
	b.f.t.Helper()
	r.RemoteAddr = "192.0.2.1:1234"
	if b.host != "" {
		r.Host = b.host
	}
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	for name, values := range b.headers {
		if _, set := r.Header[name]; !set {
			r.Header[name] = values
		}
	}
	recorder := httptest.NewRecorder()
	b.f.handler.ServeHTTP(recorder, r)
	result := recorder.Result()
	for _, cookie := range result.Cookies() {
		b.cookies[cookie.Name] = cookie.Value
		if cookie.MaxAge < 0 {
			delete(b.cookies, cookie.Name)
		}
	}
	return reply{b.f.t, r.Method + " " + r.URL.Path, result.StatusCode, result.Header, recorder.Body.String()}
}

func (b *browser) get(path string) reply {
	b.f.t.Helper()
	return b.do(httptest.NewRequestWithContext(b.f.t.Context(), http.MethodGet, path, nil))
}

// head returns the request of a preview.
func head(t *testing.T, path string) *http.Request {
	return httptest.NewRequestWithContext(t.Context(), http.MethodHead, path, nil)
}

// request returns a form's request, with the token of the session and from a page of this
// origin. A field named "csrf" replaces the token.
func (b *browser) request(path string, fields ...string) *http.Request {
	values := url.Values{}
	if token := b.cookies["csrf-token"]; token != "" {
		values.Set("csrf", token)
	}
	for i := 0; i < len(fields); i += 2 {
		values.Set(fields[i], fields[i+1])
	}
	r := httptest.NewRequestWithContext(b.f.t.Context(), http.MethodPost, path, strings.NewReader(values.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return r
}

func (b *browser) post(path string, fields ...string) reply {
	b.f.t.Helper()
	return b.do(b.request(path, fields...))
}

// shown sends a form and returns the page of the secret to which it leads.
func (b *browser) shown(path string, fields ...string) reply {
	b.f.t.Helper()
	a := b.post(path, fields...).want(http.StatusSeeOther)
	to := a.header.Get("Location")
	if !strings.Contains(to, "?once=") {
		b.f.t.Fatalf("%s: leads to %q", a.what, to)
	}
	return b.get(to)
}

func (a reply) want(status int) reply {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("%s: got %d, want %d: %s", a.what, a.status, status, a.text())
	}
	return a
}

// leadsTo fails the test unless the answer is a 303 to a path.
func (a reply) leadsTo(path string) reply {
	a.t.Helper()
	if a.want(http.StatusSeeOther); a.header.Get("Location") != path {
		a.t.Fatalf("%s: leads to %q, want %q", a.what, a.header.Get("Location"), path)
	}
	return a
}

// shows fails the test unless the page has all texts.
func (a reply) shows(texts ...string) reply {
	a.t.Helper()
	for _, text := range texts {
		if !strings.Contains(html.UnescapeString(a.body), text) {
			a.t.Errorf("%s: does not show %q: %s", a.what, text, a.text())
		}
	}
	return a
}

// lacks fails the test if the page or a header has one of the texts.
func (a reply) lacks(texts ...string) reply {
	a.t.Helper()
	for _, text := range texts {
		if strings.Contains(html.UnescapeString(a.body), text) || strings.Contains(a.header.Get("Location"), text) {
			a.t.Errorf("%s: shows %q", a.what, text)
		}
	}
	return a
}

var tag = regexp.MustCompile(`<[^>]*>|\s+`)

// text is the body without tags, for messages.
func (a reply) text() string { return tag.ReplaceAllString(a.body, " ") }
