package e2e

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

// A conformant is one test of a plan of the OpenID Foundation's conformance suite.
type conformant struct {
	id string
	// apart is why a test is not applicable here, or passes with a warning; empty where it passes. Such a test checks
	// what is answered instead.
	apart string
	test  func(t *testing.T, c *conform)
}

const (
	noSuchClaims = "not applicable: none are kept; an unknown scope is ignored, as OpenID Connect Core 5.4 allows"
	noObjects    = "passes: refused by the error that the specification names; request objects are not supported"
)

// The basic plan, in its order: oidcc-basic-certification-test-plan, with one client that is entered by hand. Two names
// of one test are both there: the suite renamed it.
var basicPlan = []conformant{
	{"oidcc-server", "", func(t *testing.T, c *conform) { c.flow(t).checked(t) }},
	{"oidcc-response-type-missing", "", func(t *testing.T, c *conform) {
		got := c.refused(t, "response_type", "")
		if code := got.Get("error"); code != "invalid_request" && code != "unsupported_response_type" {
			t.Errorf("got %v", got)
		}
	}},
	{"oidcc-idtoken-signature", "", func(t *testing.T, c *conform) {
		f := c.flow(t)
		if h := f.header(t); h["alg"] != "RS256" || !slices.Contains(c.keys(t), fmt.Sprint(h["kid"])) {
			t.Errorf("signed by %v, published are %v", h, c.keys(t))
		}
	}},
	{"oidcc-idtoken-unsigned", "not applicable: `none` is not offered, as the suite allows where a client is entered by hand", func(t *testing.T, c *conform) {
		if algs := c.list(t, "id_token_signing_alg_values_supported"); slices.Contains(algs, "none") {
			t.Errorf("offers %v", algs)
		}
	}},
	{"oidcc-userinfo-get", "", func(t *testing.T, c *conform) {
		f := c.flow(t)
		c.userinfo(t, f, http.MethodGet, "Authorization")
	}},
	{"oidcc-userinfo-post-header", "", func(t *testing.T, c *conform) {
		f := c.flow(t)
		c.userinfo(t, f, http.MethodPost, "Authorization")
	}},
	{"oidcc-userinfo-post-body", "", func(t *testing.T, c *conform) {
		f := c.flow(t)
		c.userinfo(t, f, http.MethodPost, "")
	}},
	{"oidcc-ensure-request-without-nonce-succeeds-for-code-flow", "", func(t *testing.T, c *conform) {
		f := c.flow(t, "nonce", "")
		if _, has := f.claims["nonce"]; has {
			t.Errorf("a nonce that was not sent: %v", f.claims)
		}
	}},
	{
		"oidcc-scope-profile", "passes with a warning: of the claims of this scope there are `name`, `preferred_username` and `nickname`; the others are not kept",
		scoped("openid profile", "name", "preferred_username", "nickname"),
	},
	{"oidcc-scope-email", "passes with a warning: the claims are in the ID token too, because many applications read nothing else", scoped("openid email", "email", "email_verified")},
	{"oidcc-scope-address", noSuchClaims, scoped("openid address")},
	{"oidcc-scope-phone", noSuchClaims, scoped("openid phone")},
	{"oidcc-scope-all", noSuchClaims + "; the others arrive", scoped("openid profile email address phone", "name", "email")},
	{"oidcc-ensure-other-scope-order-succeeds", "", scoped("email openid", "email")},
	{"oidcc-alternate-happy-flow", "passes with a warning, as oidcc-scope-email", scoped("email profile openid", "email", "name")},
	{"oidcc-display-page", "", with1("display", "page")},
	{"oidcc-display-popup", "", with1("display", "popup")},
	{"oidcc-prompt-login", "", func(t *testing.T, c *conform) {
		first := c.flow(t)
		c.wait(t, first)
		second := c.flow(t, "prompt", "login")
		if second.asked != 1 || second.number(t, "auth_time") <= first.number(t, "auth_time") || second.claims["sub"] != first.claims["sub"] {
			t.Errorf("asked %d times; %v after %v", second.asked, second.claims, first.claims)
		}
	}},
	{"oidcc-prompt-none-not-logged-in", "", func(t *testing.T, c *conform) {
		stranger := *c
		stranger.p = c.s.person(t, "petra")
		if got := stranger.refused(t, "prompt", "none"); got.Get("error") != "login_required" {
			t.Errorf("got %v", got)
		}
	}},
	{"oidcc-prompt-none-logged-in", "", func(t *testing.T, c *conform) {
		first, second := c.flow(t), c.flow(t, "prompt", "none")
		if second.asked != 0 || second.claims["sub"] != first.claims["sub"] || second.number(t, "auth_time") != first.number(t, "auth_time") {
			t.Errorf("asked %d times; %v after %v", second.asked, second.claims, first.claims)
		}
	}},
	{"oidcc-max-age-1", "", func(t *testing.T, c *conform) {
		first := c.flow(t)
		c.wait(t, first)
		second := c.flow(t, "max_age", "1")
		if second.asked != 1 || second.number(t, "auth_time") <= first.number(t, "auth_time") || time.Now().Unix()-second.number(t, "auth_time") > 5 {
			t.Errorf("asked %d times; %v after %v", second.asked, second.claims, first.claims)
		}
	}},
	{"oidcc-max-age-10000", "", func(t *testing.T, c *conform) {
		first, second := c.flow(t), c.flow(t, "max_age", "10000")
		if second.asked != 0 || second.number(t, "auth_time") != first.number(t, "auth_time") {
			t.Errorf("asked %d times; %v after %v", second.asked, second.claims, first.claims)
		}
	}},
	{"oidcc-ensure-request-with-unknown-parameter-succeeds", "", with1("extra", "foobar")},
	{"oidcc-id-token-hint", "", func(t *testing.T, c *conform) {
		first := c.flow(t)
		second := c.flow(t, "prompt", "none", "id_token_hint", first.idToken)
		if second.claims["sub"] != first.claims["sub"] {
			t.Errorf("%v after %v", second.claims, first.claims)
		}
	}},
	{"oidcc-login-hint", "", with1("login_hint", "petra@example.org")},
	{"oidcc-ui-locales", "", with1("ui_locales", "se de")},
	{"oidcc-claims-locales", "", with1("claims_locales", "se de")},
	{"oidcc-ensure-request-with-acr-values-succeeds", "", with1("acr_values", "1 2")},
	{"oidcc-codereuse", "", func(t *testing.T, c *conform) {
		f := c.flow(t)
		c.invalidGrant(t, f.code)
	}},
	{"oidcc-codereuse-30seconds", "", func(t *testing.T, c *conform) {
		f := c.flow(t)
		time.Sleep(31 * time.Second)
		c.invalidGrant(t, f.code)
		if status, _ := c.ask(t, http.MethodGet, "userinfo", f.access, nil); status != http.StatusUnauthorized {
			t.Errorf("the access token of a code that was used twice is answered %d", status)
		}
	}},
	{"oidcc-ensure-registered-redirect-uri", "", func(t *testing.T, c *conform) {
		a := c.p.open(c.request("redirect_uri", c.rp.origin+"/cb?not=registered"))
		if _, led := c.rp.take("/cb"); led || a.StatusCode != http.StatusBadRequest || a.Request.URL.Host != c.p.origin.Host {
			t.Errorf("leads to %s: %d", a.Request.URL, a.StatusCode)
		}
	}},
	{"oidcc-ensure-post-request-succeeds", "", func(t *testing.T, c *conform) {
		to, err := url.Parse(c.request())
		if err != nil {
			t.Fatal(err)
		}
		// From the page of an application: without the cookies of the portal, which are SameSite=Lax.
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.s.issuer+"/oidc/authorize", strings.NewReader(to.RawQuery))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", c.rp.origin)
		req.Header.Set("Sec-Fetch-Site", "cross-site")
		resp, err := thisMachine().RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		on, err := resp.Location()
		if err != nil {
			t.Fatalf("%d: %v", resp.StatusCode, err)
		}
		c.finish(t, c.p.open(on.String())).checked(t)
	}},
	{"oidcc-server-client-secret-post", "", func(t *testing.T, c *conform) {
		post := *c
		post.inBody = true
		post.flow(t).checked(t)
	}},
	{"oidcc-request-uri-unsigned-supported-correctly-or-rejected-as-unsupported", noObjects, func(t *testing.T, c *conform) {
		if got := c.refused(t, "request_uri", c.rp.origin+"/request.jwt"); got.Get("error") != "request_uri_not_supported" {
			t.Errorf("got %v", got)
		}
		if _, fetched := c.rp.take("/request.jwt"); fetched {
			t.Error("the provider fetched what a request named")
		}
	}},
	{"oidcc-unsigned-request-object-supported-correctly-or-rejected-as-unsupported", noObjects, func(t *testing.T, c *conform) {
		if got := c.refused(t, "request", unsigned(map[string]any{"scope": "openid email"})); got.Get("error") != "request_not_supported" {
			t.Errorf("got %v", got)
		}
	}},
	{"oidcc-claims-essential", "not applicable: discovery says that the parameter `claims` is not supported; the request succeeds", with1("claims", `{"userinfo":{"name":{"essential":true}}}`)},
	{"oidcc-ensure-request-object-with-redirect-uri", noObjects, func(t *testing.T, c *conform) {
		if got := c.refused(t, "request", unsigned(map[string]any{"redirect_uri": "https://evil.example/cb"})); got.Get("error") != "request_not_supported" {
			t.Errorf("got %v", got)
		}
	}},
	{"oidcc-refresh-token", "", func(t *testing.T, c *conform) {
		f := c.flow(t, "scope", "openid offline_access")
		if f.refresh == "" {
			t.Fatal("no refresh token")
		}
		grant := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {f.refresh}}
		other := *c
		other.clientID, other.secret = c.otherID, c.other
		if status, body := other.token(t, grant); status != http.StatusBadRequest || body["error"] != "invalid_grant" {
			t.Errorf("another client's refresh: %d %v", status, body)
		}
		status, body := c.token(t, grant)
		if status != http.StatusOK {
			t.Fatalf("refresh: %d %v", status, body)
		}
		again := c.read(t, body)
		for _, claim := range []string{"iss", "sub", "aud", "auth_time"} {
			if fmt.Sprint(again.claims[claim]) != fmt.Sprint(f.claims[claim]) {
				t.Errorf("%s is %v, was %v", claim, again.claims[claim], f.claims[claim])
			}
		}
		c.userinfo(t, again, http.MethodGet, "Authorization")
	}},
	{"oidcc-ensure-request-with-valid-pkce-succeeds", "", func(t *testing.T, c *conform) {
		// RFC 7636, appendix B.
		strict := *c
		strict.verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
		strict.clientID, strict.secret = c.otherID, c.other
		strict.flow(t, "code_challenge", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM", "code_challenge_method", "S256").checked(t)
	}},
}

var configPlan = []conformant{{"oidcc-discovery-endpoint-verification", "", func(t *testing.T, c *conform) {
	for name, want := range map[string][]string{
		"response_types_supported": {"code"}, "subject_types_supported": {"public"}, "grant_types_supported": {"authorization_code", "refresh_token"},
		"id_token_signing_alg_values_supported": {"RS256", "ES256"}, "scopes_supported": {"openid", "profile", "email", "groups", "offline_access"},
		"token_endpoint_auth_methods_supported": {"client_secret_basic", "client_secret_post", "none"}, "code_challenge_methods_supported": {"S256"},
	} {
		got := c.list(t, name)
		for _, one := range want {
			if !slices.Contains(got, one) {
				t.Errorf("%s is %v, without %s", name, got, one)
			}
		}
	}
	if got := c.list(t, "code_challenge_methods_supported"); slices.Contains(got, "plain") {
		t.Errorf("offers %v", got)
	}
	for name, value := range c.metadata {
		if address, is := value.(string); is && (strings.HasSuffix(name, "_endpoint") || name == "jwks_uri") && !strings.HasPrefix(address, c.s.issuer+"/") {
			t.Errorf("%s is %s, which is not below the issuer, https as it is", name, address)
		}
	}
	for _, name := range []string{"authorization_endpoint", "token_endpoint", "userinfo_endpoint", "jwks_uri"} {
		if c.metadata[name] == nil {
			t.Errorf("no %s", name)
		}
	}
	if c.metadata["issuer"] != c.s.issuer || c.metadata["authorization_response_iss_parameter_supported"] != true || c.metadata["claims_parameter_supported"] == true ||
		c.metadata["request_parameter_supported"] == true || c.metadata["request_uri_parameter_supported"] != false {
		t.Errorf("got %v", c.metadata)
	}
	if len(c.keys(t)) < 2 {
		t.Errorf("keys are %v", c.keys(t))
	}
}}}

var rpLogoutPlan = []conformant{
	{"oidcc-rp-initiated-logout-discovery-endpoint-verification", "", func(t *testing.T, c *conform) {
		if c.metadata["end_session_endpoint"] != c.s.issuer+"/oidc/end-session" {
			t.Errorf("got %v", c.metadata["end_session_endpoint"])
		}
	}},
	{"oidcc-rp-initiated-logout", "", func(t *testing.T, c *conform) {
		c.logsOut(t, true, url.Values{"state": {"z"}}, "post_logout_redirect_uri", c.rp.origin+"/bye", "state", "z", "id_token_hint", "")
	}},
	{"oidcc-rp-initiated-logout-bad-post-logout-redirect-uri", "", func(t *testing.T, c *conform) {
		c.logsOut(t, false, nil, "post_logout_redirect_uri", c.rp.origin+"/bye/more", "state", "z", "id_token_hint", "")
	}},
	{"oidcc-rp-initiated-logout-query-added-to-post-logout-redirect-uri", "", func(t *testing.T, c *conform) {
		c.logsOut(t, false, nil, "post_logout_redirect_uri", c.rp.origin+"/bye?foo=bar", "state", "z", "id_token_hint", "")
	}},
	{"oidcc-rp-initiated-logout-modified-id-token-hint", "", func(t *testing.T, c *conform) {
		c.logsOut(t, false, nil, "post_logout_redirect_uri", c.rp.origin+"/bye", "state", "z", "id_token_hint", "modified")
	}},
	{"oidcc-rp-initiated-logout-bad-id-token-hint", "", func(t *testing.T, c *conform) {
		c.logsOut(t, false, nil, "post_logout_redirect_uri", c.rp.origin+"/bye", "state", "z", "id_token_hint", "foreign")
	}},
	{"oidcc-rp-initiated-logout-no-id-token-hint", "", func(t *testing.T, c *conform) {
		c.logsOut(t, false, nil, "post_logout_redirect_uri", c.rp.origin+"/bye", "state", "z")
	}},
	{"oidcc-rp-initiated-logout-no-params", "", func(t *testing.T, c *conform) { c.logsOut(t, true, nil) }},
	{"oidcc-rp-initiated-logout-no-post-logout-redirect-uri", "", func(t *testing.T, c *conform) {
		c.logsOut(t, true, nil, "state", "z", "id_token_hint", "")
	}},
	{"oidcc-rp-initiated-logout-no-state", "", func(t *testing.T, c *conform) {
		c.logsOut(t, true, url.Values{}, "post_logout_redirect_uri", c.rp.origin+"/bye", "id_token_hint", "")
	}},
	{"oidcc-rp-initiated-logout-only-state", "", func(t *testing.T, c *conform) { c.logsOut(t, true, nil, "state", "z") }},
}

var backchannelPlan = []conformant{
	{"oidcc-backchannel-logout-discovery-endpoint-verification", "", func(t *testing.T, c *conform) {
		if c.metadata["backchannel_logout_supported"] != true || c.metadata["backchannel_logout_session_supported"] != true {
			t.Errorf("got %v", c.metadata)
		}
	}},
	{"oidcc-backchannel-rp-initiated-logout", "", func(t *testing.T, c *conform) {
		own := *c
		own.p = c.s.person(t, "petra")
		f := own.flow(t)
		own.logsOutAs(t, f, true, url.Values{"state": {"z"}}, "post_logout_redirect_uri", c.rp.origin+"/bye", "state", "z", "id_token_hint", "")
		var told arrival
		within(t, time.Second, "the application is told", func() (ok bool) { told, ok = c.rp.take("/backchannel"); return ok })
		token, err := jose.ParseSigned(told.values.Get("logout_token"), []jose.SignatureAlgorithm{jose.RS256})
		if err != nil || told.method != http.MethodPost {
			t.Fatalf("%v: %+v", err, told)
		}
		payload, err := oidc.NewRemoteKeySet(t.Context(), c.s.issuer+"/oidc/jwks").VerifySignature(t.Context(), told.values.Get("logout_token"))
		if err != nil {
			t.Fatal(err)
		}
		var claims map[string]any
		if err := json.Unmarshal(payload, &claims); err != nil {
			t.Fatal(err)
		}
		_, nonce := claims["nonce"]
		events, _ := claims["events"].(map[string]any)
		if _, is := events["http://schemas.openid.net/event/backchannel-logout"]; !is || nonce || claims["iss"] != c.s.issuer || claims["aud"] != c.clientID || claims["jti"] == nil ||
			claims["sid"] != f.claims["sid"] || claims["sub"] != f.claims["sub"] || claims["iat"] == nil || claims["exp"] == nil || fmt.Sprint(token.Signatures[0].Header.ExtraHeaders["typ"]) != "logout+jwt" {
			t.Errorf("the logout token is %v, %v; signed in as %v", token.Signatures[0].Header, claims, f.claims)
		}
	}},
}

// plans are the published plans of the profiles that the provider follows.
var plans = []struct {
	name, mode string
	tests      []conformant
}{
	{"oidcc-basic-certification-test-plan", "", basicPlan},
	{"oidcc-formpost-basic-certification-test-plan", "form_post", basicPlan},
	{"oidcc-config-certification-test-plan", "", configPlan},
	{"oidcc-rp-initiated-logout-certification-test-plan", "", rpLogoutPlan},
	{"oidcc-backchannel-rp-initiated-logout-certification-test-plan", "", backchannelPlan},
}

// TestConformance_OfThePublishedPlans has one test for each of a plan, named by its id.
func TestConformance_OfThePublishedPlans(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, s *signIn) {
		for _, plan := range plans {
			t.Run(plan.name, func(t *testing.T) {
				each := newConforms(t, s, plan.mode, 2)
				for _, test := range plan.tests {
					t.Run(test.id, func(t *testing.T) {
						if strings.HasSuffix(test.id, "30seconds") {
							t.Parallel() // beside the others: it waits
							test.test(t, each[1].in(t))
							return
						}
						test.test(t, each[0].in(t))
					})
				}
			})
		}
	})
}

// TestConformance_IsListedInThePage compares the table of the page with the tests: go test -run Conformance_IsListed -update.
func TestConformance_IsListedInThePage(t *testing.T) {
	const path = top + "/deploy/docs/conformance.md"
	var b strings.Builder
	for _, plan := range plans {
		fmt.Fprintf(&b, "\n### %s\n\n", plan.name)
		if plan.mode != "" {
			fmt.Fprintf(&b, "Each test of the basic plan with `response_mode=%s`:\n\n", plan.mode)
		}
		b.WriteString("| Test | Result |\n|---|---|\n")
		for _, test := range plan.tests {
			result := test.apart
			if result == "" {
				result = "passes"
			}
			fmt.Fprintf(&b, "| `%s` | %s |\n", test.id, result)
		}
	}
	b.WriteString("\n")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(page), "<!-- plans -->")
	written, after, ends := strings.Cut(rest, "<!-- end -->")
	if !found || !ends {
		t.Fatal("the page has no place for the plans")
	}
	if *update {
		if err := os.WriteFile(path, []byte(before+"<!-- plans -->\n"+b.String()[1:]+"<!-- end -->"+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if strings.TrimSpace(written) != strings.TrimSpace(b.String()) {
		t.Errorf("the table of %s is not that of the tests: %s", path, differing(b.String(), written))
	}
}

// conform is a relying party as the suite has it: two clients, a user who is logged in, and addresses
// for what comes back.
type conform struct {
	s                *signIn
	p                *person
	rp               *party
	mode             string
	clientID, secret string
	otherID, other   string // another client
	inBody           bool
	verifier         string
	here             bool // the address is a loopback one
	metadata         map[string]any
}

// newConforms returns some with clients of their own, and the same user.
func newConforms(t *testing.T, s *signIn, mode string, n int) (all []*conform) {
	t.Helper()
	petra := s.person(t, "petra")
	if a := petra.open(s.origin + "/pforte/"); a.StatusCode != http.StatusOK {
		t.Fatalf("petra ends at %s: %d", a.Request.URL, a.StatusCode)
	}
	for range n {
		c := &conform{s: s, p: petra, mode: mode, rp: newParty(t, "suite")}
		c.enter(t)
		all = append(all, c)
	}
	last := all[n-1]
	s.known(t, last.otherID, "--redirect", last.redirect())
	resp, err := http.Get(s.issuer + "/.well-known/openid-configuration")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var metadata map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&metadata); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("discovery: %d %v", resp.StatusCode, err)
	}
	for _, c := range all {
		c.metadata = metadata
	}
	return all
}

// in returns a copy for a test within.
func (c *conform) in(t *testing.T) *conform {
	own, p, b := *c, *c.p, *c.p.browser
	b.t = t
	p.browser = &b
	own.p = &p
	return &own
}

// enter enters the clients, with names that no other has.
func (c *conform) enter(t *testing.T) {
	t.Helper()
	_, port := split(c.rp.server.Listener.Addr().String())
	c.clientID, c.otherID = "first-"+port, "second-"+port
	c.secret = c.s.enter(t, c.clientID, c.rp.origin, "--redirect", c.rp.origin+"/cb", "--after-logout", c.rp.origin+"/bye", "--logout-uri", c.rp.server.URL+"/backchannel")
	c.other = c.s.enter(t, c.otherID, "http://"+c.otherID+".test", "--redirect", c.rp.origin+"/cb")
}

// redirect is the address that the client has entered.
func (c *conform) redirect() string {
	if c.here {
		return c.rp.server.URL + "/cb"
	}
	return c.rp.origin + "/cb"
}

// request is the address of a request of authorization, with further values; an empty one
// leaves a parameter out.
func (c *conform) request(values ...string) string {
	q := url.Values{"client_id": {c.clientID}, "redirect_uri": {c.redirect()}, "response_type": {"code"}, "scope": {"openid"}, "state": {"the state"}, "nonce": {"the nonce"}}
	if c.mode != "" {
		q.Set("response_mode", c.mode)
	}
	for i := 0; i < len(values); i += 2 {
		q.Set(values[i], values[i+1])
		if values[i+1] == "" {
			q.Del(values[i])
		}
	}
	return c.s.issuer + "/oidc/authorize?" + q.Encode()
}

// led returns what came back to the application from the page where a request ended.
func (c *conform) led(t *testing.T, a answer) url.Values {
	t.Helper()
	method := http.MethodGet
	if c.mode == "form_post" {
		method = http.MethodPost
		if a.Request.URL.Host == c.p.origin.Host {
			c.p.submit(a, "/cb")
			c.p.asked = c.p.asked[:len(c.p.asked)-1] // a script sends it
		}
	}
	got, ok := c.rp.take("/cb")
	if !ok {
		t.Fatalf("ends at %s: %d %s", a.Request.URL, a.StatusCode, a.body)
	}
	if got.method != method || got.values.Get("state") != "the state" || got.values.Get("iss") != c.s.issuer {
		t.Errorf("led back by %s with %v", got.method, got.values)
	}
	return got.values
}

// refused returns the error that came back for a request.
func (c *conform) refused(t *testing.T, values ...string) url.Values {
	t.Helper()
	got := c.led(t, c.p.open(c.request(values...)))
	if got.Get("error") == "" || got.Get("code") != "" {
		t.Errorf("no error, but %v", got)
	}
	return got
}

// flown is a sign-in: what it gave.
type flown struct {
	c                     *conform
	code, idToken, access string
	refresh               string
	claims                map[string]any
	asked                 int // forms that the user sent
}

// flow signs the user in, with further values in the request.
func (c *conform) flow(t *testing.T, values ...string) flown {
	t.Helper()
	before := len(c.p.asked)
	f := c.finish(t, c.p.open(c.request(values...)))
	f.asked = len(c.p.asked) - before
	return f
}

// finish exchanges the code of a request that ended.
func (c *conform) finish(t *testing.T, a answer) flown {
	t.Helper()
	got := c.led(t, a)
	grant := url.Values{"grant_type": {"authorization_code"}, "code": {got.Get("code")}, "redirect_uri": {c.redirect()}}
	if c.verifier != "" {
		grant.Set("code_verifier", c.verifier)
	}
	status, body := c.token(t, grant)
	if status != http.StatusOK {
		t.Fatalf("%v: %d %v", got, status, body)
	}
	f := c.read(t, body)
	f.code = got.Get("code")
	return f
}

// read checks the tokens of an answer of the token endpoint.
func (c *conform) read(t *testing.T, body map[string]any) flown {
	t.Helper()
	text := func(name string) string { s, _ := body[name].(string); return s }
	f := flown{c: c, idToken: text("id_token"), access: text("access_token"), refresh: text("refresh_token")}
	if !strings.EqualFold(text("token_type"), "Bearer") || f.access == "" || body["expires_in"] == nil {
		t.Errorf("the answer is %v", body)
	}
	provider, err := oidc.NewProvider(t.Context(), c.s.issuer)
	if err != nil {
		t.Fatal(err)
	}
	token, err := provider.Verifier(&oidc.Config{ClientID: c.clientID}).Verify(t.Context(), f.idToken)
	if err != nil {
		t.Fatal(err)
	}
	if err := token.VerifyAccessToken(f.access); err != nil {
		t.Error(err)
	}
	if err := token.Claims(&f.claims); err != nil {
		t.Fatal(err)
	}
	return f
}

// checked fails the test unless the ID token holds what it must.
func (f flown) checked(t *testing.T) {
	t.Helper()
	now := time.Now().Unix()
	if f.claims["nonce"] != "the nonce" || f.claims["aud"] != f.c.clientID || f.number(t, "exp") <= now || f.number(t, "iat") > now+1 || f.number(t, "iat") < now-60 ||
		f.number(t, "auth_time") > f.number(t, "iat") || len(fmt.Sprint(f.claims["sub"])) > 255 || f.header(t)["kid"] == "" {
		t.Errorf("the ID token is %v, %v", f.header(t), f.claims)
	}
}

func (f flown) number(t *testing.T, claim string) int64 {
	t.Helper()
	n, is := f.claims[claim].(float64)
	if !is {
		t.Fatalf("%s is no number in %v", claim, f.claims)
	}
	return int64(n)
}

func (f flown) header(t *testing.T) (h map[string]any) {
	t.Helper()
	first, _, _ := strings.Cut(f.idToken, ".")
	text, err := base64.RawURLEncoding.DecodeString(first)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &h); err != nil {
		t.Fatal(err)
	}
	return h
}

// ask sends a request to an endpoint, by an access token where there is one.
func (c *conform) ask(t *testing.T, method, endpoint, bearer string, form url.Values) (status int, body map[string]any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, c.s.issuer+"/oidc/"+endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	switch {
	case bearer != "":
		req.Header.Set("Authorization", "Bearer "+bearer)
	case endpoint == "token" && !c.inBody && c.secret != "":
		req.SetBasicAuth(c.clientID, c.secret)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if len(content) > 0 {
		if err := json.Unmarshal(content, &body); err != nil {
			t.Fatalf("%s is answered %d %s", endpoint, resp.StatusCode, content)
		}
	}
	if endpoint == "token" && (resp.Header.Get("Cache-Control") != "no-store" || !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json")) {
		t.Errorf("the token endpoint answers with %v", resp.Header)
	}
	return resp.StatusCode, body
}

// token sends a grant to the token endpoint, as the client.
func (c *conform) token(t *testing.T, grant url.Values) (int, map[string]any) {
	t.Helper()
	if c.inBody || c.secret == "" {
		grant.Set("client_id", c.clientID)
		grant.Set("client_secret", c.secret)
	}
	return c.ask(t, http.MethodPost, "token", "", grant)
}

// invalidGrant fails the test unless a code is refused.
func (c *conform) invalidGrant(t *testing.T, code string) {
	t.Helper()
	status, body := c.token(t, url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {c.redirect()}})
	if status != http.StatusBadRequest || body["error"] != "invalid_grant" {
		t.Errorf("a code is answered %d %v", status, body)
	}
}

// userinfo returns what the endpoint says, whose sub is that of the ID token.
func (c *conform) userinfo(t *testing.T, f flown, method, header string) map[string]any {
	t.Helper()
	var form url.Values
	bearer := f.access
	if header == "" {
		bearer, form = "", url.Values{"access_token": {f.access}}
	}
	status, body := c.ask(t, method, "userinfo", bearer, form)
	if status != http.StatusOK || body["sub"] != f.claims["sub"] {
		t.Fatalf("userinfo is answered %d %v, the ID token has %v", status, body, f.claims)
	}
	return body
}

// list returns a list of the metadata.
func (c *conform) list(t *testing.T, name string) (all []string) {
	t.Helper()
	values, _ := c.metadata[name].([]any)
	for _, value := range values {
		all = append(all, fmt.Sprint(value))
	}
	return all
}

// keys returns the ids of the published keys, each of which is public, for signatures, and names its algorithm.
func (c *conform) keys(t *testing.T) (ids []string) {
	t.Helper()
	status, body := c.ask(t, http.MethodGet, "jwks", "", nil)
	keys, _ := body["keys"].([]any)
	for _, key := range keys {
		k, _ := key.(map[string]any)
		if k["d"] != nil || k["use"] != "sig" || k["alg"] == nil || k["kid"] == nil || k["x5c"] != nil {
			t.Errorf("a key is %v", k)
		}
		ids = append(ids, fmt.Sprint(k["kid"]))
	}
	if status != http.StatusOK || len(keys) == 0 {
		t.Errorf("the keys are answered %d %v", status, body)
	}
	return ids
}

// wait returns when a session is older than a second and auth_time would differ.
func (c *conform) wait(t *testing.T, f flown) {
	t.Helper()
	time.Sleep(time.Until(time.Unix(f.number(t, "auth_time"), 0).Add(2100 * time.Millisecond)))
}

// scoped is a test of a scope: its claims are at userinfo, and those of no other scope.
func scoped(scope string, claims ...string) func(*testing.T, *conform) {
	return func(t *testing.T, c *conform) {
		f := c.flow(t, "scope", scope)
		f.checked(t)
		got := c.userinfo(t, f, http.MethodGet, "Authorization")
		for _, claim := range claims {
			if value, has := got[claim]; !has || value == "" {
				t.Errorf("no %s in %v", claim, got)
			}
		}
		for scope, claim := range map[string]string{"profile": "name", "email": "email", "groups": "groups", "phone": "phone_number", "address": "address"} {
			if _, has := got[claim]; has && !slices.Contains(claims, claim) {
				t.Errorf("%s without %s, in %v", claim, scope, got)
			}
		}
	}
}

// with1 is a test that a request with a further parameter succeeds.
func with1(name, value string) func(*testing.T, *conform) {
	return func(t *testing.T, c *conform) { c.flow(t, name, value).checked(t) }
}

// unsigned is a JWT that no key signed.
func unsigned(claims map[string]any) string {
	payload, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + base64.RawURLEncoding.EncodeToString(payload) + "."
}

// logsOut signs a new session in, asks for its end with values, and fails the test unless the logout
// ends where it must, as logsOutAs.
func (c *conform) logsOut(t *testing.T, ends bool, back url.Values, values ...string) {
	t.Helper()
	own := *c
	own.p = c.s.person(t, "petra")
	own.logsOutAs(t, own.flow(t), ends, back, values...)
}

// logsOutAs asks for the end of a session. Where back is nil, the logout must end on a page of the portal, else at the
// application's address with these values. Where ends is true, the session is over after the user's yes. The value of
// id_token_hint is the ID token, modified or foreign where that is asked.
func (c *conform) logsOutAs(t *testing.T, f flown, ends bool, back url.Values, values ...string) {
	t.Helper()
	q := url.Values{}
	for i := 0; i < len(values); i += 2 {
		q.Set(values[i], values[i+1])
		if values[i] != "id_token_hint" {
			continue
		}
		switch values[i+1] {
		case "modified": // of the signature, which base64 of a whole number of bytes must still be
			q.Set("id_token_hint", f.idToken[:len(f.idToken)-8]+"AAAAAAAA")
		case "foreign":
			q.Set("id_token_hint", signedByAnother(t, f))
		default:
			q.Set("id_token_hint", f.idToken)
		}
	}
	c.rp.take("/bye")
	a := c.p.shown(c.s.issuer + "/oidc/end-session?" + q.Encode())
	if _, led := c.rp.take("/bye"); led {
		t.Fatal("the logout was not asked about")
	}
	c.p.shown(c.request("prompt", "none", "response_mode", ""))
	if got, ok := c.rp.take("/cb"); !ok || got.values.Get("code") == "" {
		t.Errorf("a GET ended the session: %v", got)
	}
	if to := a.logoutForm(t); to != "" {
		a = c.p.submit(a, to)
	}
	got, led := c.rp.take("/bye")
	switch {
	case back == nil && (led || a.Request.URL.Host != c.p.origin.Host):
		t.Errorf("ends at %s", a.Request.URL)
	case back != nil && (!led || got.values.Encode() != back.Encode()):
		t.Errorf("ends at %s: %d %s", a.Request.URL, a.StatusCode, a.body)
	}
	if ends {
		c.p.shown(c.request("prompt", "none", "response_mode", ""))
		if got, ok := c.rp.take("/cb"); !ok || got.values.Get("error") != "login_required" {
			t.Errorf("after the logout: %v", got)
		}
	}
}

// logoutForm returns the path to which a page sends the yes to a logout, or nothing where it has no such form.
func (a answer) logoutForm(t *testing.T) string {
	t.Helper()
	for _, form := range a.forms() {
		to, err := a.Request.URL.Parse(form.action)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(to.Path, "/oidc/end-session") || strings.HasSuffix(to.Path, "/logout") {
			return to.Path
		}
	}
	return ""
}

// signedByAnother is an ID token as one that was given, signed by another key under the same id.
func signedByAnother(t *testing.T, f flown) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: fmt.Sprint(f.header(t)["kid"])}}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(f.claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}
