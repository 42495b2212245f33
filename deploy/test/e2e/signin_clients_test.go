package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// kindsOfClients are the flags of clients by their ids.
var kindsOfClients = map[string][]string{
	"basic": nil, "post": nil, "curve": {"--alg", "ES256"}, "public": {"--public"}, "strict": {"--pkce", "required"},
}

// libraryClaims are what the libraries learn of petra.
type libraryClaims struct {
	Issuer        string   `json:"iss"`
	Subject       string   `json:"sub"`
	Audience      string   `json:"aud"` // one string, never a list
	Name          string   `json:"name"`
	Username      string   `json:"preferred_username"`
	Email         string   `json:"email"`
	EmailVerified bool     `json:"email_verified"`
	Groups        []string `json:"groups"`
	ACR           string   `json:"acr"`
	AMR           []string `json:"amr"`
}

// check fails the test unless they are petra's.
func (c libraryClaims) check(t *testing.T, what string) {
	t.Helper()
	if c.Subject == "" || c.Name != "Das ist petra" || c.Username != "petra" || !strings.HasPrefix(c.Email, "petra@") || !strings.HasSuffix(c.Email, ".invalid") ||
		!c.EmailVerified || !slices.Equal(c.Groups, []string{"member", "familie"}) {
		t.Errorf("%s: %+v", what, c)
	}
}

// TestSignIn_GoOIDC signs in as each kind of client by go-oidc, and checks that whoever may no
// longer use an application is refused at the next use of everything that was given out.
func TestSignIn_GoOIDC(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, s *signIn) {
		rp, petra := newParty(t, "library"), s.person(t, "petra")
		ids, secrets := []string{"basic", "post", "curve", "public", "strict"}, map[string]string{}
		for _, id := range ids {
			redirect := rp.origin + "/cb"
			if id == "public" { // a program on this machine
				redirect = rp.server.URL + "/cb"
			}
			secrets[id] = s.enter(t, id, "http://"+id+".test", append([]string{"--redirect", redirect}, kindsOfClients[id]...)...)
		}
		s.known(t, ids[len(ids)-1], "--redirect", rp.origin+"/cb")
		var last goClient
		for _, id := range ids {
			c := newGoClient(t, s, id, secrets[id], rp)
			if id == "public" {
				c.RedirectURL = rp.server.URL + "/cb"
			}
			claims, info := c.signIn(t, petra)
			claims.check(t, id)
			info.check(t, id+" at userinfo")
			if claims.Audience != id || claims.Issuer != s.issuer || claims.ACR != "pwd" || !slices.Equal(claims.AMR, []string{"pwd"}) || claims.Subject != info.Subject {
				t.Errorf("%s: %+v, %+v", id, claims, info)
			}
			refreshed := c.refreshed(t)
			if refreshed.Extra("id_token") == nil {
				t.Errorf("%s: no ID token comes with a refresh", id)
			}
			last = c
		}
		if !slices.Equal(petra.asked, []string{"/pforte/login", "/pforte/continue"}) { // the second for the program, which the address does not prove
			t.Errorf("petra was asked %v", petra.asked)
		}

		t.Run("refused at the next use", func(t *testing.T) {
			last.signIn(t, petra)
			s.leave(t)
			last.isRefused(t, "out of the group")
			if a := petra.open(last.AuthCodeURL("x", oauth2.S256ChallengeOption(last.verifier))); a.StatusCode != http.StatusForbidden || a.Request.URL.Host != petra.origin.Host {
				t.Errorf("who is out of the group is led to %s: %d", a.Request.URL, a.StatusCode)
			}
			s.join(t)
			last.isRefused(t, "in the group again, by the old tokens")
			last.signIn(t, petra)
			s.remove(t, "petra")
			last.isRefused(t, "deleted")
			if a := petra.shown(last.AuthCodeURL("x", oauth2.S256ChallengeOption(last.verifier))); a.Request.URL.Path != "/pforte/login" {
				t.Errorf("who is deleted is led to %s: %d", a.Request.URL, a.StatusCode)
			}
		})
	})
}

// goClient is a client of go-oidc with the tokens it got last.
type goClient struct {
	*oauth2.Config
	provider *oidc.Provider
	rp       *party
	verifier string
	token    *oauth2.Token
}

func newGoClient(t *testing.T, s *signIn, id, secret string, rp *party) goClient {
	t.Helper()
	provider, err := oidc.NewProvider(t.Context(), s.issuer)
	if err != nil {
		t.Fatal(err)
	}
	endpoint := provider.Endpoint()
	endpoint.AuthStyle = oauth2.AuthStyleInHeader
	if id == "post" || secret == "" {
		endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	return goClient{
		Config: &oauth2.Config{
			ClientID: id, ClientSecret: secret, Endpoint: endpoint, RedirectURL: rp.origin + "/cb",
			Scopes: []string{oidc.ScopeOpenID, "profile", "email", "groups", oidc.ScopeOfflineAccess},
		},
		provider: provider, rp: rp, verifier: oauth2.GenerateVerifier(),
	}
}

// signIn signs a user in, and returns the claims of the ID token and of userinfo.
func (c *goClient) signIn(t *testing.T, p *person) (claims, info libraryClaims) {
	t.Helper()
	if a := p.open(c.AuthCodeURL("the state", oidc.Nonce("the nonce"), oauth2.S256ChallengeOption(c.verifier))); a.StatusCode != 200 {
		t.Fatalf("%s ends at %s: %d %s", c.ClientID, a.Request.URL, a.StatusCode, a.body)
	}
	got := c.rp.callback(t)
	if got.Get("state") != "the state" || got.Get("error") != "" {
		t.Fatalf("%s is led back with %v", c.ClientID, got)
	}
	var err error
	if c.token, err = c.Exchange(t.Context(), got.Get("code"), oauth2.VerifierOption(c.verifier)); err != nil {
		t.Fatalf("%s: %v", c.ClientID, err)
	}
	raw, ok := c.token.Extra("id_token").(string)
	if !ok {
		t.Fatalf("%s: no ID token", c.ClientID)
	}
	id, err := c.provider.Verifier(&oidc.Config{ClientID: c.ClientID}).Verify(t.Context(), raw)
	if err != nil {
		t.Fatalf("%s: %v", c.ClientID, err)
	}
	if err := id.VerifyAccessToken(c.token.AccessToken); err != nil || id.Nonce != "the nonce" || time.Until(id.Expiry) <= 0 {
		t.Errorf("%s: %v, %+v", c.ClientID, err, id)
	}
	if err := id.Claims(&claims); err != nil {
		t.Fatal(err)
	}
	user, err := c.provider.UserInfo(t.Context(), oauth2.StaticTokenSource(c.token))
	if err != nil {
		t.Fatalf("%s: %v", c.ClientID, err)
	}
	if err := user.Claims(&info); err != nil {
		t.Fatal(err)
	}
	return claims, info
}

// refreshed returns new tokens for the refresh token.
func (c *goClient) refreshed(t *testing.T) *oauth2.Token {
	t.Helper()
	token, err := c.TokenSource(t.Context(), &oauth2.Token{RefreshToken: c.token.RefreshToken}).Token()
	if err != nil {
		t.Fatalf("%s: %v", c.ClientID, err)
	}
	c.token = token
	return token
}

// isRefused fails the test unless the tokens are refused everywhere.
func (c *goClient) isRefused(t *testing.T, what string) {
	t.Helper()
	if _, err := c.provider.UserInfo(context.Background(), oauth2.StaticTokenSource(c.token)); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("%s: userinfo: %v", what, err)
	}
	if _, err := c.TokenSource(context.Background(), &oauth2.Token{RefreshToken: c.token.RefreshToken}).Token(); err == nil || !strings.Contains(err.Error(), "invalid_grant") {
		t.Errorf("%s: refresh: %v", what, err)
	}
}

// TestSignIn_OpenIDClient is about the library of most servers in JavaScript, which also refuses the answers
// of a foreign issuer and reads errors by theirs.
func TestSignIn_OpenIDClient(t *testing.T) { t.Parallel(); byLibrary(t, "openid-client") }

// TestSignIn_OAuth4WebAPI is about the library that Auth.js uses.
func TestSignIn_OAuth4WebAPI(t *testing.T) { t.Parallel(); byLibrary(t, "oauth4webapi") }

func byLibrary(t *testing.T, library string) {
	t.Helper()
	program := node(t)
	onBothDatabases(t, func(t *testing.T, s *signIn) {
		type client struct {
			ID     string `json:"id"`
			Secret string `json:"secret"`
			Method string `json:"method"`
			Alg    string `json:"alg"`
		}
		var all []client
		const redirect = "https://library.test/cb" // where the script stops
		for _, c := range []client{{"basic", "", "basic", "RS256"}, {"post", "", "post", "RS256"}, {"curve", "", "post", "ES256"}, {"public", "", "none", "RS256"}} {
			c.Secret = s.enter(t, c.ID, "http://"+c.ID+".test", append([]string{"--redirect", redirect}, kindsOfClients[c.ID]...)...)
			all = append(all, c)
		}
		s.known(t, "public", "--redirect", redirect)
		list, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		petra := s.person(t, "petra")
		petra.login("petra", passwordOfAll)
		var cookies []string
		for _, c := range petra.Jar.Cookies(petra.origin) {
			cookies = append(cookies, c.Name+"="+c.Value)
		}
		code, out := command(t, nil, program, "clients/signin.mjs", library, s.issuer, redirect, strings.Join(cookies, "; "), string(list))
		var learned map[string]struct {
			Claims, Info libraryClaims
			Alg          string
		}
		if err := json.Unmarshal(out, &learned); code != 0 || err != nil {
			t.Fatalf("ends with %d: %v: %s", code, err, out)
		}
		for _, c := range all {
			got := learned[c.ID]
			got.Claims.check(t, c.ID)
			got.Info.check(t, c.ID+" at userinfo")
			if got.Alg != c.Alg || got.Claims.Audience != c.ID {
				t.Errorf("%s: %+v", c.ID, got)
			}
		}
	})
}
