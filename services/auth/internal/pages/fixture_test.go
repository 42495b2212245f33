package pages_test

import (
	"context"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/httpapi"
	"github.com/pforte/pforte/services/auth/internal/pages"
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
	adminPass = "correct horse"
	userPass  = "battery staple"
)

// fixture is auth with its pages, on SQLite in memory and miniredis, with a clock that
// tests move, an admin "anna" (id 1) and a member "otto" (id 2).
type fixture struct {
	t        *testing.T
	handler  http.Handler
	accounts *account.Service
	people   *people.Service
	policy   *policy.Service
	audit    *audit.Recorder
	store    *sqlstore.Store
	sessions *session.Manager
	pages    *pages.Pages
	log      *syncBuffer
	mu       sync.Mutex
	now      time.Time
	redis    *miniredis.Miniredis
}

func (f *fixture) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *fixture) advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
	f.redis.SetTime(f.now)
	f.redis.FastForward(d)
}

// syncBuffer collects the log.
type syncBuffer struct {
	mu sync.Mutex
	b  strings.Builder
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

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

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
	return newFixtureIn(t, "sqlite::memory:", change...)
}

// newFixtureIn is newEmptyFixture in another database.
func newFixtureIn(t *testing.T, database string, change ...func(*web.Options)) *fixture {
	t.Helper()
	f := &fixture{t: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), log: &syncBuffer{}}
	f.redis = miniredis.RunT(t)
	f.redis.SetTime(f.now)
	client := redis.NewClient(&redis.Options{Addr: f.redis.Addr()})
	db := must(sqldb.Open(t.Context(), database, sqlstore.Migrations))(t)
	t.Cleanup(func() { _, _ = client.Close(), db.Close() })
	log := slog.New(slog.NewJSONHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	sessions := sessionredis.New(client, "svc")
	store := sqlstore.NewObserved(db, f.Now, func(ctx context.Context, e audit.Entry) { audit.Log(ctx, log, e) })
	create := func(name string, limit int, window time.Duration) (*ratelimit.Limiter, error) {
		return ratelimit.New(ratelimit.Options{Client: client, App: "svc", Name: name, Limit: limit, Window: window})
	}
	codeLimits := must(account.NewLimits(create))(t)
	f.store = store
	sealer := must(factor.NewSealer(strings.Repeat("0123456789abcdef", 4), ""))(t)
	f.audit = must(audit.NewRecorder(audit.RecorderOptions{Store: store, Retention: 400 * 24 * time.Hour, Log: log, Now: f.Now}))(t)
	hasher := must(password.New(password.Options{Cost: 4}))(t)
	f.accounts = must(account.New(account.Options{
		Users: store, Factors: store, Sealer: sealer, Limits: codeLimits, Audit: f.audit, Sessions: sessions, Pendings: sessions, Ceremonies: sessions, Passkeys: store, Passwords: hasher, Log: log, Now: f.Now,
	}))(t)
	f.people = must(people.New(people.Options{Users: store, Links: store, Accounts: f.accounts, Passwords: hasher, Audit: f.audit, Log: log}))(t)
	f.policy = must(policy.New(policy.Options{Store: store, HandOvers: sessions, TokenLimit: must(policy.NewTokenLimit(create))(t), Audit: f.audit, Log: log, Now: f.Now}))(t)
	limits := ratelimit.Options{Client: client, App: "svc", Name: "login", Limit: 5, Window: time.Minute}
	passwordLimits := limits
	passwordLimits.Name = "password"
	linkLimits := limits
	linkLimits.Name, linkLimits.Limit, linkLimits.Window = "link", web.LinkAttempts, web.LinkWindow
	passkeyLimits := limits
	passkeyLimits.Name, passkeyLimits.Limit, passkeyLimits.Window = "passkey", web.PasskeyAttempts, web.PasskeyWindow
	f.sessions = must(session.NewManager(session.Options{
		Store: sessions, Name: "svc", Secret: "a secret of the tests, 32 characters", Secure: true, Now: f.Now,
	}))(t)
	options := web.Options{
		Accounts: f.accounts, People: f.people, Policy: f.policy, Audit: f.audit, Sessions: f.sessions,
		LoginLimit: must(ratelimit.New(limits))(t), PasswordLimit: must(ratelimit.New(passwordLimits))(t), LinkLimit: must(ratelimit.New(linkLimits))(t), PasskeyLimit: must(ratelimit.New(passkeyLimits))(t),
		Secure: true, Metrics: must(web.NewMetrics(prometheus.NewRegistry()))(t), Log: log, Now: f.Now,
	}
	for _, c := range change {
		c(&options)
	}
	shared := must(web.New(options))(t)
	f.pages = must(pages.New(pages.Options{Web: shared, AppName: "svc", Location: time.UTC}))(t)
	f.handler = must(httpapi.New(httpapi.Options{Web: shared, Health: func(context.Context) error { return nil }, Pages: f.pages.Routes, Refusal: f.pages.Refusal}))(t)
	return f
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
