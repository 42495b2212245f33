package httpapi_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/session"
)

const (
	issuer   = origin + "/pforte"
	callback = "https://grafana.example.org/login/generic_oauth"
)

// failingGrants are grants whose store fails as often as failing says: all calls or, if it is negative, CreateGrant once
// it has made the grant.
type failingGrants struct {
	oidc.Grants
	failing *atomic.Int64
}

func fails(left *atomic.Int64) bool {
	if left.Load() <= 0 {
		return false
	}
	left.Add(-1)
	return true
}

func (g failingGrants) CreateGrant(ctx context.Context, of oidc.Grant) (oidc.Held, error) {
	if fails(g.failing) {
		return oidc.Held{}, errStore
	}
	held, err := g.Grants.CreateGrant(ctx, of)
	if g.failing.Load() < 0 { // after the grant was stored
		g.failing.Add(1)
		return oidc.Held{}, errStore
	}
	return held, err
}

func (g failingGrants) Held(ctx context.Context, id string) (oidc.Held, error) {
	if fails(g.failing) {
		return oidc.Held{}, errStore
	}
	return g.Grants.Held(ctx, id)
}

func (g failingGrants) Rotate(ctx context.Context, id string, n int64) (bool, error) {
	if fails(g.failing) {
		return false, errStore
	}
	return g.Grants.Rotate(ctx, id, n)
}

// failingShort are what lasts for minutes, in a store that fails.
type failingShort struct {
	oidc.ShortLived
	failing *atomic.Int64
}

func (s failingShort) TakeCode(ctx context.Context, hash string) (oidc.Code, string, error) {
	if fails(s.failing) {
		return oidc.Code{}, "", errStore
	}
	return s.ShortLived.TakeCode(ctx, hash)
}

// PollDevice fails after it has done what it should: its answer is lost.
func (s failingShort) PollDevice(ctx context.Context, hash, secret, clientID string, now time.Time) (oidc.Code, error) {
	code, err := s.ShortLived.PollDevice(ctx, hash, secret, clientID, now)
	if fails(s.failing) {
		return oidc.Code{}, errStore
	}
	return code, err
}

func (s failingShort) PutAccess(ctx context.Context, hash string, userID int64, a oidc.Access) error {
	if s.failing.Load() < 0 { // after the code was taken
		s.failing.Add(1)
		return errStore
	}
	return s.ShortLived.PutAccess(ctx, hash, userID, a)
}

func (s failingShort) Access(ctx context.Context, hash string) (oidc.Access, error) {
	if fails(s.failing) {
		return oidc.Access{}, errStore
	}
	return s.ShortLived.Access(ctx, hash)
}

// household is a fixture with an application that has users log in by OpenID Connect.
type signingIn struct {
	*fixture
	secret string
}

// inEach runs a test on both databases.
func inEach(t *testing.T, test func(*testing.T, *signingIn), change ...func(*settings)) {
	t.Helper()
	for name, fresh := range map[string]func(testing.TB) string{"SQLite": sqldbtest.SQLite, "Postgres": sqldbtest.Postgres} {
		t.Run(name, func(t *testing.T) {
			database := fresh(t)
			if database == "" {
				t.Skip("not installed")
			}
			test(t, newSigningIn(t, append(change, func(s *settings) { s.database = database })...))
		})
	}
}

func newSigningIn(t *testing.T, change ...func(*settings)) *signingIn {
	t.Helper()
	h := &signingIn{fixture: newFixture(t, append([]func(*settings){func(s *settings) { s.publicURL, s.pages = origin, true }}, change...)...)}
	h.secret = h.client("grafana", func(*oidc.Client) {})
	return h
}

// client makes an application that is a client, and returns its secret.
func (h *signingIn) client(slug string, change func(*oidc.Client)) string {
	h.t.Helper()
	if err := h.policy.CreateApplication(h.t.Context(), session.Session{}, policy.NewApplication{Slug: slug, URL: "https://" + slug + ".example.org"}); err != nil {
		h.t.Fatal(err)
	}
	c := oidc.Client{Slug: slug, Email: true, Redirects: []string{strings.Replace(callback, "grafana", slug, 1)}}
	change(&c)
	return must(h.oidc.Create(h.t.Context(), session.Session{}, c))(h.t)
}

// at sends a request to the host of PUBLIC_URL.
func (b *browser) at(method, path, body string, headers ...string) reply {
	b.h.t.Helper()
	b.unchecked = true
	r := httptest.NewRequestWithContext(b.h.t.Context(), method, path, strings.NewReader(body))
	r.RemoteAddr, r.Host = b.addr, "home.example.org"
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return b.do(r)
}

// asked is an authorization request, with changes: a value of "-" removes a parameter.
func asked(changes ...string) url.Values {
	values := url.Values{
		"client_id": {"grafana"}, "redirect_uri": {callback}, "response_type": {"code"}, "scope": {"openid profile email groups"}, "state": {"s t"}, "nonce": {"n1"},
	}
	for i := 0; i < len(changes); i += 2 {
		values[changes[i]] = []string{changes[i+1]}
		if changes[i+1] == "-" {
			values.Del(changes[i])
		}
	}
	return values
}

// back returns what a browser is led back with.
func (b *browser) back(changes ...string) url.Values {
	b.h.t.Helper()
	got := b.at("GET", "/pforte/oidc/authorize?"+asked(changes...).Encode(), "").want(http.StatusSeeOther)
	to := must(url.Parse(got.header.Get("Location")))(b.h.t)
	if at := asked(changes...).Get("redirect_uri"); !strings.HasPrefix(to.String(), at+"?") || to.Query().Get("iss") != issuer || to.Query().Get("state") != asked(changes...).Get("state") {
		b.h.t.Fatalf("led to %s", to)
	}
	return to.Query()
}

// code returns a code.
func (b *browser) code(changes ...string) string {
	b.h.t.Helper()
	code := b.back(changes...).Get("code")
	if code == "" {
		b.h.t.Fatalf("no code: %v", b.back(changes...))
	}
	return code
}

// answered is the answer to a client's request.
type answered struct {
	reply
	Error, Description string
	Access             string `json:"access_token"`
	Refresh            string `json:"refresh_token"`
	ID                 string `json:"id_token"`
	Scope              string
}

// send sends a form of the client grafana, with changes.
func (h *signingIn) form(path string, changes ...string) answered {
	h.t.Helper()
	values := url.Values{"client_id": {"grafana"}, "client_secret": {h.secret}}
	for i := 0; i < len(changes); i += 2 {
		values[changes[i]] = []string{changes[i+1]}
		if changes[i+1] == "-" {
			values.Del(changes[i])
		}
	}
	got := answered{reply: h.browser().at("POST", path, values.Encode(), "Content-Type", "application/x-www-form-urlencoded")}
	if err := json.Unmarshal(got.body, &got); err != nil {
		h.t.Fatalf("%s: %v: %s", path, err, got.body)
	}
	return got
}

// exchange asks for the tokens of a code.
func (h *signingIn) exchange(code string, changes ...string) answered {
	h.t.Helper()
	return h.form("/pforte/oidc/token", append([]string{"grant_type", "authorization_code", "code", code, "redirect_uri", callback}, changes...)...)
}

func (h *signingIn) refresh(token string, changes ...string) answered {
	h.t.Helper()
	return h.form("/pforte/oidc/token", append([]string{"grant_type", "refresh_token", "refresh_token", token}, changes...)...)
}

// userInfo asks who an access token is about.
func (h *signingIn) userInfo(token string) (claims map[string]any, status int) {
	h.t.Helper()
	got := h.browser().at("GET", "/pforte/oidc/userinfo", "", "Authorization", "Bearer "+token)
	if err := json.Unmarshal(got.body, &claims); err != nil {
		h.t.Fatal(err)
	}
	return claims, got.status
}

// is checks the error of an answer.
func (a answered) is(t *testing.T, what string, status int, word string) {
	t.Helper()
	if a.status != status || a.Error != word {
		t.Errorf("%s: %d %s (%s), want %d %s", what, a.status, a.Error, a.body, status, word)
	}
}

// payload returns the claims of a token, unverified.
func payload(t *testing.T, token string) (head, claims map[string]any) {
	t.Helper()
	parts := strings.Split(token, ".")
	for i, into := range []*map[string]any{&head, &claims} {
		raw := must(base64.RawURLEncoding.DecodeString(parts[i]))(t)
		if err := json.Unmarshal(raw, into); err != nil {
			t.Fatal(err)
		}
	}
	return head, claims
}

// pkce returns a verifier and its challenge.
func pkce() (verifier string, parameters []string) {
	verifier = strings.Repeat("v", 43)
	sum := sha256.Sum256([]byte(verifier))
	return verifier, []string{"code_challenge", base64.RawURLEncoding.EncodeToString(sum[:]), "code_challenge_method", "S256"}
}

func TestSignIn_GivesTokensThatSayWhoItIs(t *testing.T) {
	inEach(t, func(t *testing.T, h *signingIn) {
		otto := h.otto()
		got := h.exchange(otto.code())
		if got.status != http.StatusOK || got.Refresh != "" || got.Scope != "openid profile email groups" || got.header.Get("Cache-Control") != "no-store" {
			t.Fatalf("%d %s", got.status, got.body)
		}
		head, claims := payload(t, got.ID)
		if head["alg"] != "RS256" || head["typ"] != "JWT" || head["kid"] == "" {
			t.Errorf("head is %v", head)
		}
		sum := sha256.Sum256([]byte(got.Access))
		now := float64(h.clock.Now().Unix())
		for name, want := range map[string]any{
			"iss": issuer, "aud": "grafana", "nonce": "n1", "iat": now, "exp": now + 3600, "auth_time": now, "acr": "pwd", "name": "Otto", "preferred_username": "otto",
			"nickname": "otto", "email": "otto@home.example.org.invalid", "email_verified": true, "at_hash": base64.RawURLEncoding.EncodeToString(sum[:16]),
		} {
			if claims[name] != want {
				t.Errorf("%s is %v, want %v", name, claims[name], want)
			}
		}
		if fmt.Sprint(claims["groups"]) != "[member]" || fmt.Sprint(claims["amr"]) != "[pwd]" || len(fmt.Sprint(claims["sub"])) != 36 || claims["sid"] == "" || claims["jti"] == "" || claims["azp"] != nil {
			t.Errorf("claims are %v", claims)
		}
		info, status := h.userInfo(got.Access)
		for _, name := range []string{"sub", "name", "preferred_username", "nickname", "email", "email_verified"} {
			if status != http.StatusOK || info[name] != claims[name] {
				t.Errorf("userinfo %d: %s is %v", status, name, info[name])
			}
		}
		again := h.exchange(otto.code())
		if _, second := payload(t, again.ID); second["sub"] != claims["sub"] || second["sid"] == claims["sid"] || second["jti"] == claims["jti"] {
			t.Errorf("second login: %v", second)
		}
	})
}

func TestSignIn_LeadsToTheLoginAndBack(t *testing.T) {
	h := newSigningIn(t)
	b := h.browser()
	for _, method := range []string{"GET", "POST"} {
		path, body := "/pforte/oidc/authorize?"+asked().Encode(), ""
		if method == "POST" {
			path, body = "/pforte/oidc/authorize", asked().Encode()
		}
		got := b.at(method, path, body, "Content-Type", "application/x-www-form-urlencoded").want(http.StatusSeeOther)
		if method == "POST" {
			got = b.at("GET", got.header.Get("Location"), "").want(http.StatusSeeOther)
		}
		to := must(url.Parse(got.header.Get("Location")))(t)
		if to.Path != "/pforte/login" {
			t.Fatalf("led to %s", to)
		}
		again := to.Query().Get("return")
		b.login("otto", userPass).want(http.StatusOK)
		got = b.at("GET", again, "").want(http.StatusSeeOther)
		if !strings.HasPrefix(got.header.Get("Location"), callback+"?code=") {
			t.Errorf("%s: led back to %s", method, got.header.Get("Location"))
		}
		b.send("POST", prefix+"/logout", "").want(http.StatusOK)
	}
	if got := h.browser().back("prompt", "none"); got.Get("error") != "login_required" {
		t.Errorf("prompt=none: %v", got)
	}
}

// patient asks again, as clients do, where a busy machine's stores do not answer in time.
func patient(ask func() answered) answered {
	got := ask()
	for again := 0; got.status == http.StatusServiceUnavailable && again < 5; again++ {
		got = ask()
	}
	return got
}

func TestSignIn_CodeCountsOnce(t *testing.T) {
	inEach(t, func(t *testing.T, h *signingIn) {
		code := h.otto().code()
		var won atomic.Int64
		var all sync.WaitGroup
		var tokens atomic.Value
		for range 100 {
			all.Go(func() {
				got := patient(func() answered { return h.exchange(code) })
				if got.status == http.StatusOK {
					won.Add(1)
					tokens.Store(got.Access)
				} else if got.Error != "invalid_grant" {
					t.Errorf("%d %s", got.status, got.body)
				}
			})
		}
		all.Wait()
		if won.Load() != 1 {
			t.Fatalf("%d exchanges", won.Load())
		}
		token, _ := tokens.Load().(string)
		if _, status := h.userInfo(token); status != http.StatusOK {
			t.Error("an early copy ended the login")
		}
		h.clock.Advance(6 * time.Second)
		h.exchange(code).is(t, "late copy", http.StatusBadRequest, "invalid_grant")
		if _, status := h.userInfo(token); status != http.StatusUnauthorized {
			t.Error("a late copy did not end the login")
		}
	})
}

// TestSignIn_EachConditionOfACodeCountsAlone breaks each alone, and each pair.
func TestSignIn_EachConditionOfACodeCountsAlone(t *testing.T) {
	h := newSigningIn(t)
	other := h.client("other", func(*oidc.Client) {})
	verifier, challenge := pkce()
	otto := h.otto()
	broken := map[string][]string{
		"another client":   {"client_id", "other", "client_secret", other},
		"another address":  {"redirect_uri", callback + "/"},
		"no address":       {"redirect_uri", "-"},
		"another verifier": {"code_verifier", strings.Repeat("w", 43)},
		"no verifier":      {"code_verifier", "-"},
		"short verifier":   {"code_verifier", "v"},
	}
	names := []string{}
	for name := range broken {
		names = append(names, name)
	}
	for _, a := range names {
		for _, b := range names {
			code := otto.code(challenge...)
			h.exchange(code, slices.Concat([]string{"code_verifier", verifier}, broken[a], broken[b])...).is(t, a+" and "+b, http.StatusBadRequest, "invalid_grant")
			h.exchange(code, "code_verifier", verifier).is(t, "after "+a+" and "+b, http.StatusBadRequest, "invalid_grant")
		}
	}
	code := otto.code(challenge...)
	h.clock.Advance(61 * time.Second)
	h.exchange(code, "code_verifier", verifier).is(t, "expired", http.StatusBadRequest, "invalid_grant")
	h.exchange("", "code_verifier", verifier).is(t, "no code", http.StatusBadRequest, "invalid_request")
	if got := h.exchange(otto.code(challenge...), "code_verifier", verifier); got.status != http.StatusOK {
		t.Errorf("as it should be: %d %s", got.status, got.body)
	}
}

func TestSignIn_PKCECannotBeDropped(t *testing.T) {
	h := newSigningIn(t)
	h.client("app", func(c *oidc.Client) { c.Public = true })
	verifier, challenge := pkce()
	otto := h.otto()
	h.exchange(otto.code(), "code_verifier", verifier).is(t, "verifier without challenge", http.StatusBadRequest, "invalid_grant")
	public := []string{"client_id", "app", "redirect_uri", strings.Replace(callback, "grafana", "app", 1)}
	for what, changes := range map[string][]string{
		"plain":                {"code_challenge", challenge[1], "code_challenge_method", "plain"},
		"plain by omission":    {"code_challenge", challenge[1]},
		"short":                {"code_challenge", "x", "code_challenge_method", "S256"},
		"empty":                {"code_challenge", "", "code_challenge_method", "S256"},
		"method alone":         {"code_challenge_method", "S256"},
		"public without":       public,
		"public and plain":     slices.Concat(public, []string{"code_challenge", challenge[1], "code_challenge_method", "plain"}),
		"public and no method": slices.Concat(public, []string{"code_challenge", challenge[1]}),
	} {
		if got := otto.back(changes...); got.Get("error") != "invalid_request" || got.Get("code") != "" {
			t.Errorf("%s: %v", what, got)
		}
	}
	// The first exchange with it makes it a duty.
	if got := h.exchange(otto.code(challenge...), "code_verifier", verifier); got.status != http.StatusOK {
		t.Fatalf("%d %s", got.status, got.body)
	}
	h.settle()
	if c := must(h.oidc.Client(t.Context(), "grafana"))(t); c.PKCE != oidc.Required {
		t.Errorf("PKCE is %s", c.PKCE)
	}
	if got := otto.back(); got.Get("error") != "invalid_request" {
		t.Errorf("without: %v", got)
	}
}

// settle carries out what is done after requests.
func (h *signingIn) settle() {
	h.t.Helper()
	ctx, stop := context.WithTimeout(h.t.Context(), 300*time.Millisecond)
	defer stop()
	h.audit.Work(ctx)
}

func TestSignIn_NothingLeadsToAnAddressThatIsNotEntered(t *testing.T) {
	h := newSigningIn(t)
	otto, anonymous := h.otto(), h.browser()
	for _, address := range []string{
		"", callback + "/", callback + "?x=1", callback + "#f", callback + "%2f", strings.ToUpper(callback), strings.Replace(callback, "https", "HTTPS", 1),
		strings.Replace(callback, "https", "http", 1), strings.Replace(callback, "grafana.", "evil@grafana.", 1), strings.Replace(callback, "example.org", "example.org:443", 1),
		strings.Replace(callback, "example.org", "example.org.", 1), "https://grafana.example.org.evil.org/login/generic_oauth", "https://evil.org/?" + callback,
		"//grafana.example.org/login/generic_oauth", "/login/generic_oauth", "javascript:alert(1)", "data:text/html,x", callback + "\n", callback + "/../x",
		"https://grafana.example.org\\@evil.org/login/generic_oauth", "https://gräfana.example.org/login/generic_oauth",
	} {
		for _, more := range [][]string{{}, {"prompt", "none"}, {"response_type", "token"}, {"scope", "x"}, {"request_uri", "https://evil.org"}, {"request", "x"}, {"response_mode", "form_post"}, {"code_challenge", "x"}} {
			for _, b := range []*browser{otto, anonymous} {
				got := b.at("GET", "/pforte/oidc/authorize?"+asked(append([]string{"redirect_uri", address}, more...)...).Encode(), "")
				if got.status != http.StatusBadRequest || got.header.Get("Location") != "" {
					t.Errorf("%q %v: %d %s", address, more, got.status, got.header.Get("Location"))
				}
			}
		}
	}
	for what, query := range map[string]string{
		"unknown client": asked("client_id", "x").Encode(), "no client": asked("client_id", "-").Encode(), "a parameter twice": asked().Encode() + "&scope=openid",
		"the address twice": asked().Encode() + "&redirect_uri=https://evil.org", "too long": asked("x", strings.Repeat("x", 8<<10)).Encode(),
		"a long state": asked("state", strings.Repeat("x", 5<<10)).Encode(), "an unknown handle": "r=x", "a handle with more": "r=x&" + asked().Encode(),
		"another client's pushed request": asked("request_uri", "urn:ietf:params:oauth:request_uri:x").Encode(),
	} {
		got := otto.at("GET", "/pforte/oidc/authorize?"+query, "")
		if got.status != http.StatusBadRequest || got.header.Get("Location") != "" {
			t.Errorf("%s: %d %s", what, got.status, got.header.Get("Location"))
		}
	}
	h.settle()
	c := must(h.oidc.Client(t.Context(), "grafana"))(t)
	refusals := must(h.oidc.Refusals(t.Context(), c))(t)
	if len(refusals) != 20 || refusals[0].Reason != "redirect_uri" {
		t.Errorf("noted are %+v", refusals)
	}
}

// TestSignIn_NothingLeadsToAnAddressThatWasRemoved while a request for it was kept.
func TestSignIn_NothingLeadsToAnAddressThatWasRemoved(t *testing.T) {
	h := newSigningIn(t)
	attempt := oidc.Attempt{Values: asked(), Spend: func(context.Context) error { return nil }}
	handle := must(h.oidc.Keep(t.Context(), attempt))(t)
	if w := must(h.oidc.Waiting(t.Context(), handle))(t); w.To != callback {
		t.Fatalf("got %+v", w)
	}
	if err := h.oidc.Change(t.Context(), session.Session{}, "grafana", func(c *oidc.Client) error {
		c.Redirects = []string{callback + "/new"}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if w, err := h.oidc.Waiting(t.Context(), handle); !errors.Is(err, oidc.ErrRequestGone) {
		t.Errorf("got %+v, %v", w, err)
	}
	got := h.otto().at("GET", "/pforte/oidc/authorize?r="+handle, "")
	if got.status != http.StatusBadRequest || got.header.Get("Location") != "" {
		t.Errorf("%d, led to %s", got.status, got.header.Get("Location"))
	}
}

func TestSignIn_ErrorsLeadBack(t *testing.T) {
	h := newSigningIn(t)
	otto := h.otto()
	for want, changes := range map[string][]string{
		"unsupported_response_type":  {"response_type", "token"},
		"request_not_supported":      {"request", "x"},
		"request_uri_not_supported":  {"request_uri", "https://evil.org"},
		"registration_not_supported": {"registration", "{}"},
		"invalid_scope":              {"scope", "profile"},
		"invalid_request":            {"max_age", "x"},
	} {
		if got := otto.back(changes...); got.Get("error") != want || got.Get("code") != "" || got.Get("error_description") == "" {
			t.Errorf("%s: %v", want, got)
		}
	}
	if got := otto.back("prompt", "none login"); got.Get("error") != "invalid_request" {
		t.Errorf("prompt=none login: %v", got)
	}
	// Without a value they count as left out (RFC 6749, section 3.1).
	for _, name := range []string{"request", "request_uri", "registration", "max_age", "prompt", "response_mode"} {
		if got := otto.back(name, ""); got.Get("code") == "" {
			t.Errorf("%s without a value: %v", name, got)
		}
	}
	if got := otto.back("state", "-"); got.Get("code") == "" || got.Has("state") {
		t.Errorf("without state: %v", got)
	}
}

func TestSignIn_ClientAuthenticatesInTheHeaderOrTheForm(t *testing.T) {
	h := newSigningIn(t)
	h.client("app", func(c *oidc.Client) { c.Public = true })
	basic := func(id, secret string) []string {
		return []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(id)+":"+url.QueryEscape(secret)))}
	}
	otto := h.otto()
	for _, c := range []struct {
		what       string
		header     []string
		id, secret string
		status     int
		word       string
	}{
		{"basic", basic("grafana", h.secret), "", "", 200, ""},
		{"basic and its id", basic("grafana", h.secret), "grafana", "", 200, ""},
		{"basic and the same", basic("grafana", h.secret), "grafana", h.secret, 200, ""},
		{"form", nil, "grafana", h.secret, 200, ""},
		{"another id in the form", basic("grafana", h.secret), "app", "", 401, "invalid_client"},
		{"another secret in the form", basic("grafana", h.secret), "grafana", "x", 401, "invalid_client"},
		{"wrong secret", nil, "grafana", "x", 401, "invalid_client"},
		{"no secret", nil, "grafana", "", 401, "invalid_client"},
		{"no client", nil, "", "", 401, "invalid_client"},
		{"unknown client", basic("x", h.secret), "", "", 401, "invalid_client"},
		{"public", nil, "app", "", 400, "invalid_grant"}, // the code is grafana's
		{"public with a secret", basic("app", "x"), "", "", 400, "invalid_grant"},
		{"bearer", []string{"Authorization", "Bearer " + h.secret}, "grafana", h.secret, 401, "invalid_client"},
	} {
		form := url.Values{"grant_type": {"authorization_code"}, "code": {otto.code()}, "redirect_uri": {callback}}
		if c.id != "" {
			form.Set("client_id", c.id)
		}
		if c.secret != "" {
			form.Set("client_secret", c.secret)
		}
		headers := append([]string{"Content-Type", "application/x-www-form-urlencoded"}, c.header...)
		got := answered{reply: h.browser().at("POST", "/pforte/oidc/token", form.Encode(), headers...)}
		if err := json.Unmarshal(got.body, &got); err != nil {
			t.Fatal(err)
		}
		got.is(t, c.what, c.status, c.word)
		if c.status == 401 && got.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: no challenge", c.what)
		}
	}
	inQuery := h.browser().at("POST", "/pforte/oidc/token?"+url.Values{"client_id": {"grafana"}, "client_secret": {h.secret}, "grant_type": {"authorization_code"}, "code": {otto.code()}, "redirect_uri": {callback}}.Encode(), "", "Content-Type", "application/x-www-form-urlencoded")
	if inQuery.status != http.StatusUnauthorized {
		t.Errorf("parameters in the query: %d", inQuery.status)
	}
	for what, body := range map[string]string{"twice": "client_id=grafana&client_id=grafana", "not a form": "%"} {
		if got := h.browser().at("POST", "/pforte/oidc/token", body, "Content-Type", "application/x-www-form-urlencoded"); got.status != http.StatusBadRequest {
			t.Errorf("%s: %d", what, got.status)
		}
	}
	if got := h.browser().at("POST", "/pforte/oidc/token", "{}", "Content-Type", "application/json"); got.status != http.StatusBadRequest {
		t.Errorf("JSON: %d", got.status)
	}
	h.form("/pforte/oidc/token", "grant_type", "password").is(t, "another grant", http.StatusBadRequest, "unsupported_grant_type")
}

// TestSignIn_StoreThatIsAwayIsNoNo: a client throws a code or token away at invalid_grant. Afterwards the same one counts.
func TestSignIn_StoreThatIsAwayIsNoNo(t *testing.T) {
	h := newSigningIn(t)
	h.client("app", func(c *oidc.Client) { c.Public, c.Offline = true, true })
	otto := h.otto()
	for what, fail := range map[string]func(){
		"before the code is taken": func() { h.brokenShort.Store(1) },
		"after the code is taken":  func() { h.brokenShort.Store(-1) },
		"before the grant":         func() { h.brokenGrants.Store(1) },
		"after the grant":          func() { h.brokenGrants.Store(-1) },
	} {
		code := otto.code()
		fail()
		got := h.exchange(code)
		got.is(t, what, http.StatusServiceUnavailable, "temporarily_unavailable")
		if got.header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", what)
		}
		if got := h.exchange(code); got.status != http.StatusOK {
			t.Errorf("%s, again: %d %s", what, got.status, got.body)
		}
	}
	verifier, challenge := pkce()
	public := []string{"client_id", "app", "redirect_uri", strings.Replace(callback, "grafana", "app", 1)}
	got := h.exchange(otto.code(slices.Concat(challenge, public)...), slices.Concat(public, []string{"client_secret", "-", "code_verifier", verifier})...)
	if got.Refresh == "" {
		t.Fatalf("%d %s", got.status, got.body)
	}
	for what, fail := range map[string]func(){
		"the first read":      func() { h.brokenGrants.Store(1) },
		"before the rotation": func() { h.brokenShort.Store(-1) },
	} {
		fail()
		h.refresh(got.Refresh, "client_id", "app", "client_secret", "-").is(t, what, http.StatusServiceUnavailable, "temporarily_unavailable")
		next := h.refresh(got.Refresh, "client_id", "app", "client_secret", "-")
		if next.status != http.StatusOK {
			t.Fatalf("%s, again: %d %s", what, next.status, next.body)
		}
		got.Refresh, got.Access = next.Refresh, next.Access
	}
	h.brokenShort.Store(1)
	if _, status := h.userInfo(got.Access); status != http.StatusServiceUnavailable {
		t.Errorf("userinfo: %d", status)
	}
}

// TestSignIn_StoreThatIsAwayForLongIsNoTheft has Redis fail for longer than a replaced refresh token is answered.
func TestSignIn_StoreThatIsAwayForLongIsNoTheft(t *testing.T) {
	h := newSigningIn(t)
	h.client("app", func(c *oidc.Client) { c.Public, c.Offline = true, true })
	verifier, challenge := pkce()
	public := []string{"client_id", "app", "redirect_uri", strings.Replace(callback, "grafana", "app", 1)}
	as := []string{"client_id", "app", "client_secret", "-"}
	first := h.exchange(h.otto().code(slices.Concat(challenge, public)...),
		slices.Concat(public, []string{"client_secret", "-", "code_verifier", verifier})...)
	for range 4 {
		h.brokenShort.Store(-1)
		h.refresh(first.Refresh, as...).is(t, "meanwhile", http.StatusServiceUnavailable, "temporarily_unavailable")
		h.clock.Advance(oidc.RefreshGrace / 2)
	}
	next := h.refresh(first.Refresh, as...)
	if next.status != http.StatusOK || next.Refresh == first.Refresh {
		t.Fatalf("afterwards: %d %s", next.status, next.body)
	}
	if _, status := h.userInfo(next.Access); status != http.StatusOK {
		t.Errorf("the access token: %d", status)
	}
	if third := h.refresh(next.Refresh, as...); third.status != http.StatusOK {
		t.Errorf("the next one: %d %s", third.status, third.body)
	}
}

// TestSignIn_StoreThatIsAwayIsAPage: a person sees what authorize answers. The browser asks again.
func TestSignIn_StoreThatIsAwayIsAPage(t *testing.T) {
	h := newSigningIn(t, func(s *settings) { s.people = true })
	otto := h.otto()
	wanted := "/pforte/oidc/authorize?" + asked().Encode()
	for what, broken := range map[string]*atomic.Bool{"sessions": h.brokenSessions, "users": h.brokenUsers} {
		broken.Store(true)
		got := otto.at(http.MethodGet, wanted, "")
		broken.Store(false)
		if got.status != http.StatusInternalServerError || got.header.Get("Refresh") == "" ||
			!strings.HasPrefix(got.header.Get("Content-Type"), "text/html") {
			t.Errorf("%s: %d %v %s", what, got.status, got.header, got.body)
		}
	}
}

func TestSignIn_RefreshTokenOfAPublicClient(t *testing.T) {
	inEach(t, func(t *testing.T, h *signingIn) {
		h.client("app", func(c *oidc.Client) { c.Public = true })
		h.client("two", func(c *oidc.Client) { c.Public = true })
		verifier, challenge := pkce()
		public := []string{"client_id", "app", "redirect_uri", strings.Replace(callback, "grafana", "app", 1), "scope", "openid offline_access"}
		otto := h.otto()
		login := func() answered {
			got := h.exchange(otto.code(slices.Concat(challenge, public)...), slices.Concat(public, []string{"client_secret", "-", "code_verifier", verifier})...)
			if got.Refresh == "" {
				t.Fatalf("%d %s", got.status, got.body)
			}
			return got
		}
		as := []string{"client_id", "app", "client_secret", "-"}
		first := login()
		var all sync.WaitGroup
		next := make([]answered, 100)
		for i := range next {
			all.Go(func() { next[i] = patient(func() answered { return h.refresh(first.Refresh, as...) }) })
		}
		all.Wait()
		for _, n := range next {
			if n.status != http.StatusOK || n.Refresh != next[0].Refresh || n.Refresh == first.Refresh {
				t.Fatalf("%d %s", n.status, n.body)
			}
		}
		_, claims := payload(t, next[0].ID)
		if claims["nonce"] != nil || claims["sub"] == "" {
			t.Errorf("claims are %v", claims)
		}
		h.clock.Advance(time.Minute)
		if lost := h.refresh(first.Refresh, as...); lost.Refresh != next[0].Refresh {
			t.Errorf("a lost answer: %d %s", lost.status, lost.body)
		}
		h.refresh(next[0].Refresh[:len(next[0].Refresh)-2]+"AA", as...).is(t, "forged", 400, "invalid_grant")
		h.refresh(next[0].Refresh[:len(next[0].Refresh)-1], as...).is(t, "cut", 400, "invalid_grant")
		h.refresh(next[0].Refresh, "client_id", "two", "client_secret", "-").is(t, "another client's", 400, "invalid_grant")
		third := h.refresh(next[0].Refresh, as...)
		if third.status != http.StatusOK {
			t.Fatalf("%d %s", third.status, third.body)
		}
		h.refresh(first.Refresh, as...).is(t, "one of before", 400, "invalid_grant")
		h.refresh(third.Refresh, as...).is(t, "after the theft", 400, "invalid_grant")
		if _, status := h.userInfo(third.Access); status != http.StatusUnauthorized {
			t.Errorf("access token after the theft: %d", status)
		}

		late := login()
		h.refresh(late.Refresh, as...)
		h.clock.Advance(oidc.RefreshGrace + time.Second)
		h.refresh(late.Refresh, as...).is(t, "after the grace", 400, "invalid_grant")

		idle := login()
		h.clock.Advance(oidc.RefreshIdle + time.Hour)
		h.refresh(idle.Refresh, as...).is(t, "idle for too long", 400, "invalid_grant")
	})
}

// TestSignIn_RefreshTokenIsOfAYear at most, however often it is used.
func TestSignIn_RefreshTokenIsOfAYear(t *testing.T) {
	h := newSigningIn(t)
	got := h.exchange(h.otto().code("scope", "openid offline_access"))
	begun := h.clock.Now()
	for h.clock.Now().Sub(begun) < oidc.RefreshLifetime-oidc.RefreshIdle {
		h.clock.Advance(oidc.RefreshIdle)
		if next := h.refresh(got.Refresh); next.status != http.StatusOK {
			t.Fatalf("after %s: %d %s", h.clock.Now().Sub(begun), next.status, next.body)
		}
	}
	h.clock.Advance(begun.Add(oidc.RefreshLifetime + time.Second).Sub(h.clock.Now()))
	h.refresh(got.Refresh).is(t, "after a year", 400, "invalid_grant")
}

// TestSignIn_RefreshTokenThatIsNewerThanTheDatabaseEndsNothing: a restored database does not know the last rotations.
func TestSignIn_RefreshTokenThatIsNewerThanTheDatabaseEndsNothing(t *testing.T) {
	h := newSigningIn(t)
	h.client("app", func(c *oidc.Client) { c.Public = true })
	verifier, challenge := pkce()
	as := []string{"client_id", "app", "client_secret", "-"}
	to := []string{"redirect_uri", strings.Replace(callback, "grafana", "app", 1), "code_verifier", verifier}
	code := h.otto().code(slices.Concat(challenge, as[:2], to[:2], []string{"scope", "openid offline_access"})...)
	first := h.exchange(code, slices.Concat(as, to)...)
	newer := h.refresh(first.Refresh, as...)
	if _, err := h.db.Writer.ExecContext(t.Context(), `UPDATE oidc_grants SET generation = 0`); err != nil {
		t.Fatal(err)
	}
	h.refresh(newer.Refresh, as...).is(t, "a newer one", 400, "invalid_grant")
	if _, status := h.userInfo(first.Access); status != http.StatusOK {
		t.Errorf("userinfo: %d", status)
	}
	if again := h.refresh(first.Refresh, as...); again.status != http.StatusOK {
		t.Errorf("the one that the database knows: %d %s", again.status, again.body)
	}
}

func TestSignIn_RefreshTokenOfAConfidentialClientStays(t *testing.T) {
	h := newSigningIn(t)
	got := h.exchange(h.otto().code("scope", "openid profile offline_access"))
	for range 3 {
		next := h.refresh(got.Refresh)
		if next.status != http.StatusOK || next.Refresh != got.Refresh {
			t.Fatalf("%d %s", next.status, next.body)
		}
	}
	if less := h.refresh(got.Refresh, "scope", "openid"); less.Scope != "openid" {
		t.Errorf("a part of the scopes: %s", less.Scope)
	} else if info, _ := h.userInfo(less.Access); info["name"] != nil || info["sub"] == nil {
		t.Errorf("a part of the scopes tells %v", info)
	}
	h.refresh(got.Refresh, "scope", "openid email").is(t, "a wider scope", 400, "invalid_scope")
	h.refresh(got.Refresh, "scope", "admin").is(t, "no scope of the login", 400, "invalid_scope")
	if same := h.refresh(got.Refresh, "scope", "openid profile offline_access admin"); same.Scope != got.Scope {
		t.Errorf("what was asked for, with an unknown scope: %d %s", same.status, same.body)
	}
	h.refresh(got.Access).is(t, "an access token", 400, "invalid_grant")
	h.refresh(got.ID).is(t, "an ID token", 400, "invalid_grant")
	if _, status := h.userInfo(got.Refresh); status != http.StatusUnauthorized {
		t.Errorf("a refresh token at userinfo: %d", status)
	}
	if _, status := h.userInfo(got.ID); status != http.StatusUnauthorized {
		t.Errorf("an ID token at userinfo: %d", status)
	}
	if _, status := h.userInfo(got.Access[:len(got.Access)-1]); status != http.StatusUnauthorized {
		t.Errorf("a cut access token: %d", status)
	}
}

// TestSignIn_AWrongMethodNamesTheRightOnes, with the pages beside it, too.
func TestSignIn_AWrongMethodNamesTheRightOnes(t *testing.T) {
	h := newSigningIn(t, withPages)
	for path, want := range map[string]string{
		"/pforte/.well-known/openid-configuration": "GET", "/pforte/oidc/jwks": "GET", "/pforte/oidc/authorize": "GET, POST", "/pforte/oidc/token": "POST, OPTIONS",
		"/pforte/oidc/userinfo": "GET, POST, OPTIONS", "/pforte/oidc/introspect": "POST", "/pforte/oidc/par": "POST", "/.well-known/webfinger": "GET",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodHead, "MKCOL"} {
			if strings.Contains(want, method) {
				continue
			}
			got := h.browser().at(method, path, "")
			if got.status != http.StatusMethodNotAllowed || got.header.Get("Allow") != want || got.header.Get("Content-Type") != "application/json" {
				t.Errorf("%s %s: %d, Allow is %q, %s", method, path, got.status, got.header.Get("Allow"), got.body)
			}
		}
	}
}

func TestSignIn_IsNothingElsewhereAndWithoutClients(t *testing.T) {
	h := newFixture(t, func(s *settings) { s.publicURL, s.pages = origin, true })
	for _, path := range []string{"/pforte/.well-known/openid-configuration", "/pforte/oidc/jwks"} {
		if got := h.browser().at("GET", path, ""); got.status != http.StatusNotFound {
			t.Errorf("%s without clients: %d", path, got.status)
		}
	}
	s := newSigningIn(t)
	got := s.browser().at("GET", "/pforte/.well-known/openid-configuration", "").want(http.StatusOK)
	if got.header.Get("Cache-Control") != "public, max-age=300" || got.header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("headers are %v", got.header)
	}
	var metadata struct{ Issuer, Jwks_uri string }
	if err := json.Unmarshal(got.body, &metadata); err != nil || metadata.Issuer != issuer {
		t.Errorf("%s %v", got.body, err)
	}
	keys := s.browser().at("GET", "/pforte/oidc/jwks", "").want(http.StatusOK)
	var set struct{ Keys []map[string]string }
	if err := json.Unmarshal(keys.body, &set); err != nil || len(set.Keys) != 2 || set.Keys[0]["kty"] != "RSA" || set.Keys[1]["alg"] != "ES256" || set.Keys[0]["d"] != "" {
		t.Errorf("%s %v", keys.body, err)
	}
	for _, path := range []string{"/pforte/.well-known/openid-configuration", "/pforte/oidc/jwks", "/pforte/oidc/authorize", "/pforte/oidc/userinfo"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		r.Host = "grafana.example.org"
		b := s.browser()
		b.unchecked = true
		if got := b.do(r); got.status != http.StatusNotFound {
			t.Errorf("%s at another host: %d", path, got.status)
		}
	}
}

// TestLimit_AnonymousFloodCostsNoSQL: with the database closed, who is not logged in gets the same answers. Pages are
// not those of the program here: each reads the household's name.
func TestLimit_AnonymousFloodCostsNoSQL(t *testing.T) {
	h := newSigningIn(t)
	public := "device"
	h.client(public, func(c *oidc.Client) { c.Public, c.Device = true, true })
	requests := map[string]func() int{
		"authorize": func() int {
			return h.browser().at("GET", "/pforte/oidc/authorize?"+asked().Encode(), "").status
		},
		"authorize, prompt=none": func() int {
			return h.browser().at("GET", "/pforte/oidc/authorize?"+asked("prompt", "none").Encode(), "").status
		},
		"authorize, a foreign address": func() int {
			return h.browser().at("GET", "/pforte/oidc/authorize?"+asked("redirect_uri", "https://evil.example").Encode(), "").status
		},
		"authorize, no client of ours": func() int {
			return h.browser().at("GET", "/pforte/oidc/authorize?"+asked("client_id", "x").Encode(), "").status
		},
		"a device": func() int {
			return h.form("/pforte/oidc/device", "client_id", public, "client_secret", "-", "scope", "openid").status
		},
		"a device, asking": func() int {
			return h.poll(started{}, "client_id", public, "client_secret", "-", "device_code", strings.Repeat("0", 64)+".x").status
		},
		"a wrong secret": func() int { return h.form("/pforte/oidc/device", "client_secret", "x").status },
		"a wrong code": func() int {
			return h.form("/pforte/oidc/token", "grant_type", "authorization_code", "code", "x").status
		},
		"a wrong refresh token": func() int {
			return h.form("/pforte/oidc/token", "grant_type", "refresh_token", "refresh_token", "pfr_x.0.x").status
		},
	}
	open := map[string]int{}
	for what, request := range requests {
		open[what] = request() // and what is kept in memory is read
	}
	h.ok(h.db.Close())
	for what, request := range requests {
		for range 5 {
			if got := request(); got != open[what] {
				t.Errorf("%s: %d, and %d with the database", what, got, open[what])
			}
		}
	}
	if log := h.log.String(); strings.Contains(log, "database is closed") {
		t.Errorf("the database was asked: %s", log)
	}
	begun := 0
	for range 100 {
		if requests["a device"]() == http.StatusOK {
			begun++
		}
	}
	if kept := must(h.redis.Keys(t.Context(), "*oidc:device:*").Result())(t); begun > 30 || len(kept) > 30 || len(kept) == 0 {
		t.Errorf("%d were begun of an address, %d are kept", begun, len(kept))
	}
}
