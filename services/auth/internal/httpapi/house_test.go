package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/httpapi"
	"github.com/pforte/pforte/services/auth/internal/password"
	"github.com/pforte/pforte/services/auth/internal/ratelimit"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

const (
	secret    = "a secret of the tests, 32 characters"
	adminPass = "correct horse"
	userPass  = "battery staple"
)

// house is auth with memory stores, a clock that tests move, an admin "anna"
// (id 1) and a member "otto" (id 2).
type house struct {
	t        *testing.T
	handler  http.Handler
	accounts *account.Service
	users    user.Store
	sessions session.Store
	registry *prometheus.Registry
	clock    *clock
	log      *syncBuffer
	// broken makes the stores fail.
	brokenUsers, brokenSessions, brokenLimits, unhealthy *atomic.Bool
}

// cheap is a hasher for tests in which the cost is not the point.
var cheap = password.Options{Cost: 4}

// settings change what newHouse builds.
type settings struct {
	compat, insecure bool
	secret, previous string
	proxies          []string
	name             string
	hasher           password.Options
	attempts         int
	sessions         session.Store
}

func newHouse(t *testing.T, change ...func(*settings)) *house {
	t.Helper()
	s := settings{secret: secret, name: "svc", attempts: 5, hasher: cheap}
	for _, c := range change {
		c(&s)
	}
	h := &house{
		t: t, clock: &clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}, log: &syncBuffer{},
		brokenUsers: &atomic.Bool{}, brokenSessions: &atomic.Bool{}, brokenLimits: &atomic.Bool{}, unhealthy: &atomic.Bool{},
	}
	h.users = failingUsers{user.NewMemoryStore(h.clock.Now), h.brokenUsers}
	h.sessions = s.sessions
	if h.sessions == nil {
		h.sessions = failingSessions{session.NewMemoryStore(h.clock.Now), h.brokenSessions}
	}
	h.build(s)
	h.add("anna", "Anna", adminPass, "admin")
	h.add("otto", "Otto", userPass, "member")
	return h
}

// build makes the handler, as a start of the program does.
func (h *house) build(s settings) {
	h.t.Helper()
	h.registry = prometheus.NewRegistry()
	log := slog.New(slog.NewJSONHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	hasher := must(password.New(s.hasher))(h.t)
	limits := failingLimits{ratelimit.NewMemoryStore(h.clock.Now), h.brokenLimits}
	h.accounts = must(account.New(account.Options{Users: h.users, Sessions: h.sessions, Passwords: hasher, Log: log, Now: h.clock.Now}))(h.t)
	sameSite := http.SameSiteLaxMode
	if s.compat {
		sameSite = http.SameSiteStrictMode
	}
	options := httpapi.Options{
		Accounts: h.accounts,
		Sessions: must(session.NewManager(session.Options{
			Store: h.sessions, Name: s.name, Secret: s.secret, PreviousSecret: s.previous, Secure: !s.insecure, SameSite: sameSite, Now: h.clock.Now,
		}))(h.t),
		LoginLimit:    must(ratelimit.New(limits, "login", s.attempts, time.Minute))(h.t),
		PasswordLimit: must(ratelimit.New(limits, "password", s.attempts, time.Minute))(h.t),
		Health: func(context.Context) error {
			if h.unhealthy.Load() {
				return errStore
			}
			return nil
		},
		Secure: !s.insecure, CompatV0: s.compat, Metrics: must(httpapi.NewMetrics(h.registry))(h.t), Log: log, Now: h.clock.Now,
	}
	for _, p := range s.proxies {
		options.TrustedProxies = append(options.TrustedProxies, netip.MustParsePrefix(p))
	}
	h.handler = must(httpapi.New(options))(h.t)
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
func (h *house) add(username, displayName, pass, role string) int64 {
	h.t.Helper()
	u, err := h.accounts.Create(h.t.Context(), account.NewUser{Username: username, DisplayName: displayName, Password: pass, Role: &role})
	if err != nil {
		h.t.Fatal(err)
	}
	return u.ID
}

// anna is a browser of the admin, who is logged in.
func (h *house) anna() *browser { return h.loggedIn("anna", adminPass) }

// otto is a browser of the member, who is logged in.
func (h *house) otto() *browser { return h.loggedIn("otto", userPass) }

func (h *house) loggedIn(username, pass string) *browser {
	h.t.Helper()
	b := h.browser()
	b.login(username, pass).want(http.StatusOK)
	return b
}

// hurry is a browser for bursts.
func (h *house) hurry() *browser {
	b := h.browser()
	b.hurried = true
	return b
}

// browser is somebody's browser: it keeps cookies, and does what the household's
// frontend does with the CSRF token.
type browser struct {
	h       *house
	cookies map[string]string
	addr    string // host:port of the peer
	hurried bool   // answers are not checked against the description, which takes longer than to give them
}

func (h *house) browser() *browser {
	return &browser{h: h, cookies: map[string]string{}, addr: "192.0.2.1:1234"}
}

// send sends a request with a JSON body, unless that is empty, and checks the
// answer against the API's description. Further headers come in pairs; an empty
// value removes one.
func (b *browser) send(method, path, body string, headers ...string) reply {
	b.h.t.Helper()
	r := httptest.NewRequestWithContext(b.h.t.Context(), method, path, strings.NewReader(body))
	r.RemoteAddr = b.addr
	r.Header.Set("Content-Type", "application/json")
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	if token := b.cookies["csrf-token"]; token != "" && method != http.MethodGet {
		r.Header.Set("X-CSRF-Token", token)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i+1] == "" {
			r.Header.Del(headers[i])
		}
	}
	return b.do(r)
}

func (b *browser) do(r *http.Request) reply {
	b.h.t.Helper()
	recorder := httptest.NewRecorder()
	b.h.handler.ServeHTTP(recorder, r)
	result := recorder.Result()
	for _, cookie := range result.Cookies() {
		b.cookies[cookie.Name] = cookie.Value
		if cookie.MaxAge < 0 {
			delete(b.cookies, cookie.Name)
		}
	}
	answer := reply{t: b.h.t, to: r, status: result.StatusCode, header: result.Header, body: recorder.Body.Bytes(), what: r.Method + " " + r.URL.Path}
	if !b.hurried {
		describe(b.h.t, r, answer)
	}
	return answer
}

func (b *browser) get(path string) reply { return b.send(http.MethodGet, path, "") }

func (b *browser) login(username, pass string) reply {
	b.h.t.Helper()
	return b.send(http.MethodPost, prefix+"/login", object("username", username, "password", pass))
}

func (b *browser) logout() reply { return b.send(http.MethodPost, prefix+"/logout", "") }

func (b *browser) changePassword(current, replacement string) reply {
	b.h.t.Helper()
	return b.send(http.MethodPatch, prefix+"/me/password", object("current_password", current, "new_password", replacement))
}

const prefix = "/api/v1/auth"

// object is a JSON object of names and values in turn.
func object(pairs ...any) string {
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	data, _ := json.Marshal(m) //nolint:errchkjson // strings and numbers
	return string(data)
}

// reply is an answer.
type reply struct {
	t      *testing.T
	to     *http.Request
	what   string
	status int
	header http.Header
	body   []byte
}

// want checks the status and, of a failure, the error body.
func (r reply) want(status int) reply {
	r.t.Helper()
	if r.status != status {
		r.t.Fatalf("%s: got %d %s, want %d", r.what, r.status, r.body, status)
	}
	if status < 400 {
		return r
	}
	var body map[string]any
	if err := json.Unmarshal(r.body, &body); err != nil {
		r.t.Fatalf("%s: %v in %s", r.what, err, r.body)
	}
	if text, _ := body["error"].(string); text == "" || body["code"] != float64(status) || len(body) != 2 {
		r.t.Errorf("%s: got the error body %s", r.what, r.body)
	}
	return r
}

// json reads the body into a T.
func read[T any](r reply) T {
	r.t.Helper()
	var v T
	if err := json.Unmarshal(r.body, &v); err != nil {
		r.t.Fatalf("%s: %v in %s", r.what, err, r.body)
	}
	return v
}

type person struct {
	ID          int64  `json:"id"`
	Username    string `json:"username"`
	DisplayName string `json:"display_name"`
	AvatarColor string `json:"avatar_color"`
	Role        string `json:"role"`
	CreatedAt   string `json:"created_at"`
}

type sessionBody struct {
	User      person  `json:"user"`
	CSRFToken *string `json:"csrfToken"`
}

// clock is the time of a house.
type clock struct {
	mu  sync.Mutex
	now time.Time
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

// errStore is what a broken store says; no answer may repeat it.
var errStore = errors.New("dial tcp 10.0.0.5:6379: connection refused")
