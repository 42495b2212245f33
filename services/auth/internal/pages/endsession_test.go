package pages_test

import (
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/web"
)

const (
	endSession  = "/pforte/oidc/end-session"
	afterLogout = "https://grafana.example.org/bye"
	returnsTo   = "https://grafana.example.org/login/generic_oauth"
)

// signingIn is a household with an application that has users log in by OpenID Connect.
type signingIn struct {
	*fixture
	secret string
}

func newSigningIn(t *testing.T) *signingIn {
	t.Helper()
	f := newFixture(t, func(o *web.Options) { o.PublicURL = "https://home.example.org" })
	h := &signingIn{fixture: f}
	if err := f.policy.CreateApplication(t.Context(), session.Session{}, policy.NewApplication{Slug: "grafana", Name: "Grafana", URL: "https://grafana.example.org"}); err != nil {
		t.Fatal(err)
	}
	h.secret = must(f.pages.OIDC.Create(t.Context(), session.Session{}, oidc.Client{Slug: "grafana", Redirects: []string{returnsTo}, AfterLogout: []string{afterLogout}}))(t)
	return h
}

// member is a browser of otto, at the host of the household.
func (h *signingIn) member() *browser {
	h.t.Helper()
	b := h.browser()
	b.host = "home.example.org"
	b.post("/pforte/login", "username", "otto", "password", userPass).want(http.StatusSeeOther)
	return b
}

// signIn logs a browser's user in at the application, and returns the ID token and the access token.
func (h *signingIn) signIn(b *browser) (hint, access string) {
	h.t.Helper()
	asked := url.Values{"client_id": {"grafana"}, "redirect_uri": {returnsTo}, "response_type": {"code"}, "scope": {"openid"}}
	to := must(url.Parse(b.get("/pforte/oidc/authorize?" + asked.Encode()).want(http.StatusSeeOther).header.Get("Location")))(h.t)
	form := url.Values{"grant_type": {"authorization_code"}, "code": {to.Query().Get("code")}, "redirect_uri": {returnsTo}, "client_id": {"grafana"}, "client_secret": {h.secret}}
	r := httptest.NewRequestWithContext(h.t.Context(), http.MethodPost, "/pforte/oidc/token", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Host = "home.example.org"
	recorder := httptest.NewRecorder()
	h.handler.ServeHTTP(recorder, r)
	var tokens struct {
		ID     string `json:"id_token"`
		Access string `json:"access_token"`
	}
	if err := json.Unmarshal(recorder.Body.Bytes(), &tokens); err != nil || tokens.ID == "" {
		h.t.Fatalf("%d %s", recorder.Code, recorder.Body)
	}
	return tokens.ID, tokens.Access
}

// open reports whether an access token is good.
func (h *signingIn) open(access string) bool {
	h.t.Helper()
	r := httptest.NewRequestWithContext(h.t.Context(), http.MethodGet, "/pforte/oidc/userinfo", nil)
	r.Header.Set("Authorization", "Bearer "+access)
	r.Host = "home.example.org"
	recorder := httptest.NewRecorder()
	h.handler.ServeHTTP(recorder, r)
	return recorder.Code == http.StatusOK
}

func logoutAddress(hint string, more ...string) string {
	values := url.Values{"id_token_hint": {hint}, "post_logout_redirect_uri": {afterLogout}, "state": {"s t"}}
	for i := 0; i < len(more); i += 2 {
		values.Set(more[i], more[i+1])
	}
	return endSession + "?" + values.Encode()
}

// TestEndSession_AsksAndChangesNothingByGET: an application's link, and its form, which another site can send too.
func TestEndSession_AsksAndChangesNothingByGET(t *testing.T) {
	h := newSigningIn(t)
	b := h.member()
	hint, access := h.signIn(b)
	page := b.get(logoutAddress(hint)).want(http.StatusOK)
	page.shows("Von Grafana abgemeldet. Auch hier und bei allen anderen abmelden?", "Überall abmelden", "Nur bei Grafana")
	if csp := page.header.Get("Content-Security-Policy"); !strings.Contains(csp, "form-action 'self' https://grafana.example.org;") {
		t.Errorf("policy is %s", csp)
	}
	b.get(endSession).want(http.StatusOK).shows("Überall abmelden").lacks("Nur bei")
	page = b.get(logoutAddress("x")).want(http.StatusOK)
	if page.lacks("Nur bei"); strings.Contains(page.header.Get("Content-Security-Policy"), "grafana") {
		t.Error("the policy permits an address without a hint")
	}

	foreign := b.request(endSession, "id_token_hint", hint, "post_logout_redirect_uri", afterLogout, "state", "s t", "do", "all")
	foreign.Header.Set("Sec-Fetch-Site", "cross-site")
	led := b.do(foreign).want(http.StatusSeeOther)
	b.get(led.header.Get("Location")).want(http.StatusOK).shows("Nur bei Grafana")
	pretended := b.request(logoutAddress(hint, "ask", "yes"), "do", "all")
	pretended.Header.Set("Sec-Fetch-Site", "cross-site")
	b.do(pretended).want(http.StatusForbidden)
	b.post(logoutAddress(hint, "ask", "yes"), "do", "all", "csrf", strings.Repeat("0", 64)).want(http.StatusForbidden)

	if b.get("/pforte/").want(http.StatusOK); !h.open(access) {
		t.Error("something ended")
	}
}

func TestEndSession_EndsAllOrTheOneApplication(t *testing.T) {
	h := newSigningIn(t)
	b := h.member()
	hint, access := h.signIn(b)
	_, other := h.signIn(b)
	b.post(logoutAddress(hint, "ask", "yes"), "do", "one").leadsTo(afterLogout + "?state=s+t")
	if b.get("/pforte/").want(http.StatusOK); h.open(access) || !h.open(other) {
		t.Errorf("the one: %t, the other: %t", h.open(access), h.open(other))
	}
	b.post(logoutAddress(hint, "ask", "yes"), "do", "all").leadsTo(afterLogout + "?state=s+t")
	if b.get("/pforte/").want(http.StatusSeeOther); h.open(other) {
		t.Error("the other is open")
	}
	// Who is logged out is led back, or told so.
	b.get(logoutAddress(hint)).leadsTo(afterLogout + "?state=s+t")
	b.post(logoutAddress(hint, "ask", "yes"), "do", "all").leadsTo(afterLogout + "?state=s+t")
	for _, path := range []string{endSession, logoutAddress("x"), logoutAddress(hint, "post_logout_redirect_uri", "https://evil.example.org/"), logoutAddress(hint, "client_id", "y")} {
		b.get(path).want(http.StatusOK).shows("Abgemeldet.")
	}
}

// TestEndSession_OfAnotherUserEndsNothingOfTheirs: a hint is no proof of who holds it.
func TestEndSession_OfAnotherUserEndsNothingOfTheirs(t *testing.T) {
	h := newSigningIn(t)
	hint, access := h.signIn(h.member())
	anna := h.browser()
	anna.host = "home.example.org"
	anna.post("/pforte/login", "username", "anna", "password", adminPass).want(http.StatusSeeOther)
	anna.post(logoutAddress(hint, "ask", "yes"), "do", "one").leadsTo(afterLogout + "?state=s+t")
	anna.post(logoutAddress(hint, "ask", "yes"), "do", "all").leadsTo(afterLogout + "?state=s+t")
	if !h.open(access) {
		t.Error("otto's login ended")
	}
}

func TestEndSession_IsNothingElsewhere(t *testing.T) {
	h := newSigningIn(t)
	b := h.browser()
	b.host = "other.example.org"
	b.get(endSession).want(http.StatusNotFound)
}

// TestEndSession_HintIsSignedByTheKeyNotWithIt: a published key is no secret that HS256 could be made with.
func TestEndSession_HintIsSignedByTheKeyNotWithIt(t *testing.T) {
	h := newSigningIn(t)
	b := h.member()
	hint, access := h.signIn(b)
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal([]byte(b.get("/pforte/oidc/jwks").want(http.StatusOK).body), &set); err != nil {
		t.Fatal(err)
	}
	var key struct{ Kid, N, E string }
	if err := json.Unmarshal(set.Keys[0], &key); err != nil || key.N == "" {
		t.Fatalf("no RSA key: %v, %s", err, set.Keys)
	}
	modulus := must(base64.RawURLEncoding.DecodeString(key.N))(t)
	exponent := must(base64.RawURLEncoding.DecodeString(key.E))(t)
	public := &rsa.PublicKey{N: new(big.Int).SetBytes(modulus), E: int(new(big.Int).SetBytes(exponent).Int64())}
	pkix, pkcs1 := must(x509.MarshalPKIXPublicKey(public))(t), x509.MarshalPKCS1PublicKey(public)
	header := must(json.Marshal(map[string]string{"alg": "HS256", "typ": "JWT", "kid": key.Kid}))(t)
	signed := base64.RawURLEncoding.EncodeToString(header) + "." + strings.Split(hint, ".")[1]
	for what, secret := range map[string][]byte{
		"JWK": set.Keys[0], "modulus": modulus, "PKIX": pkix, "PKCS #1": pkcs1, "empty": {},
		"PEM":            pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pkix}),
		"PEM of PKCS #1": pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: pkcs1}),
	} {
		mac := hmac.New(sha256.New, secret)
		_, _ = mac.Write([]byte(signed))
		forged := signed + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
		b.get(logoutAddress(forged)).want(http.StatusOK).shows("Überall abmelden").lacks("Nur bei")
		b.post(logoutAddress(forged, "ask", "yes"), "do", "one")
		if !h.open(access) {
			t.Fatalf("%s: the login ended", what)
		}
		stranger := h.browser()
		stranger.host = "home.example.org"
		stranger.get(logoutAddress(forged)).want(http.StatusOK).shows("Abgemeldet.")
	}
	b.get(logoutAddress(hint)).want(http.StatusOK).shows("Nur bei Grafana")
}
