package oidc_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/app/apptest"
	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/session"
)

// provider is a provider with one client, and a clock that tests move.
func provider(t *testing.T) (*oidc.Service, *apptest.Stores) {
	t.Helper()
	stores := apptest.Open(t, apptest.Memory, nil)
	parts := stores.Build(t, func(o *apptest.Options) { o.Web.PublicURL = "https://home.example.org" })
	if err := parts.Policy.CreateApplication(t.Context(), session.Session{}, policy.NewApplication{Slug: "web", URL: "https://web.example.org"}); err != nil {
		t.Fatal(err)
	}
	apptest.Must(parts.OIDC.Create(t.Context(), session.Session{}, oidc.Client{Slug: "web", Redirects: []string{"https://web.example.org/cb"}}))(t)
	return parts.OIDC, stores
}

// kids returns the ids of the published keys of RS256.
func kids(t *testing.T, p *oidc.Service) (ids []string) {
	t.Helper()
	for _, raw := range apptest.Must(p.KeySet(t.Context()))(t) {
		var k struct{ Kid, Alg string }
		if err := json.Unmarshal(raw, &k); err != nil {
			t.Fatal(err)
		}
		if k.Alg == "RS256" {
			ids = append(ids, k.Kid)
		}
	}
	return ids
}

func signedBy(t *testing.T, p *oidc.Service) (token, kid string) {
	t.Helper()
	token = apptest.Must(p.Sign(t.Context(), oidc.RS256, oidc.TypeID, map[string]string{"aud": "web"}))(t)
	for _, k := range apptest.Must(p.KeyList(t.Context()))(t) {
		if k.Alg == oidc.RS256 && k.State == oidc.KeyActive {
			return token, k.ID
		}
	}
	t.Fatal("no key is active")
	return "", ""
}

func TestKeys_RotateWithoutAGap(t *testing.T) {
	p, stores := provider(t)
	old, before := signedBy(t, p)
	if err := p.RotateKeys(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.RotateKeys(t.Context()); err != nil { // twice is once
		t.Fatal(err)
	}
	published := kids(t, p)
	if _, signs := signedBy(t, p); len(published) != 2 || signs != before {
		t.Fatalf("published %q, and %s signs", published, signs)
	}
	stores.Clock.Advance(oidc.KeyAhead - time.Minute)
	for _, step := range []struct {
		after     time.Duration
		signs     bool // the next one
		published int
		verifies  bool // the old one
	}{
		{0, false, 2, true},
		{time.Minute, true, 2, true},
		{oidc.KeyPublished - time.Minute, true, 2, true},
		{2 * time.Minute, true, 1, true},
		{oidc.KeyVerifies, true, 1, false},
	} {
		stores.Clock.Advance(step.after)
		if err := p.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, signs := signedBy(t, p)
		if n := len(kids(t, p)); (signs != before) != step.signs || n != step.published {
			t.Errorf("after %v: the next one signs: %v, published %d", step.after, signs != before, n)
		}
		if _, err := p.VerifyHint(t.Context(), old); (err == nil) != step.verifies {
			t.Errorf("after %v: a token of before: %v", step.after, err)
		}
	}
}

func TestKeys_ARevokedOneVerifiesNothing(t *testing.T) {
	p, _ := provider(t)
	old, before := signedBy(t, p)
	if err := p.RevokeKey(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	if _, err := p.VerifyHint(t.Context(), old); !errors.Is(err, oidc.ErrToken) {
		t.Errorf("got %v", err)
	}
	fresh, signs := signedBy(t, p)
	if _, err := p.VerifyHint(t.Context(), fresh); err != nil || signs == before || strings.Join(kids(t, p), "") != signs {
		t.Errorf("%v, %s signs, published %q", err, signs, kids(t, p))
	}
	if err := p.RevokeKey(t.Context(), "x"); !errors.Is(err, oidc.ErrNoKey) {
		t.Errorf("an unknown one: %v", err)
	}
}

func TestAddress_IsHTTPSOrLeavesTheMachineNot(t *testing.T) {
	for address, want := range map[string][2]bool{ // of a confidential client, of a public one
		"https://web.example.org/cb": {true, true}, "https://web.example.org": {true, true}, "https://web.example.org/cb?x=1": {true, true},
		"http://web.lan:3000/cb": {true, false}, "http://127.0.0.1/cb": {true, true}, "http://localhost:8080/cb": {true, true}, "http://[::1]:1/cb": {true, true},
		"app.immich:///oauth-callback": {true, true}, "com.example.app:/cb": {true, true},
		"https://web.example.org/cb#f": {}, "https://u@web.example.org/cb": {}, "https://*.example.org/cb": {}, "https:///cb": {}, "HTTPS://web.example.org/cb": {}, "https://web.example.org/ü": {},
		"javascript:alert(1)": {}, "data:text/html,x": {}, "vbscript:x": {}, "file:///etc/passwd": {}, "intent://x": {}, "//web.example.org/cb": {}, "/cb": {}, "": {}, "https://web.example.org/\n": {},
		"https://web.example.org\\@evil.org/": {}, "https://web.example.org/" + strings.Repeat("x", 512): {},
	} {
		for i, public := range []bool{false, true} {
			if got := oidc.CheckAddress(address, public) == nil; got != want[i] {
				t.Errorf("%q, public %v: %v", address, public, got)
			}
		}
	}
}

// TestAddress_APortIsFreeForPublicClientsOnly: a program on the user's machine takes the port that is free (RFC 8252,
// section 7.3).
func TestAddress_APortIsFreeForPublicClientsOnly(t *testing.T) {
	const entered, withPort = "http://127.0.0.1/cb", "http://127.0.0.1:49152/cb"
	for _, public := range []bool{true, false} {
		c := oidc.Client{Public: public, Redirects: []string{entered, "https://app.example.org/cb"}}
		for address, want := range map[string]bool{
			entered: true, withPort: public, withPort + "/x": false,
			"http://127.0.0.1:0/cb": false, "http://localhost:49152/cb": false,
			"https://app.example.org:49152/cb": false,
		} {
			if got := c.HasRedirect(address); got != want {
				t.Errorf("public is %t, %s: %t", public, address, got)
			}
		}
	}
}

// TestAddress_OnTheUsersOwnMachineProvesNothing, however its name is written (RFC 6761, section 6.3).
func TestAddress_OnTheUsersOwnMachineProvesNothing(t *testing.T) {
	for address, want := range map[string]bool{
		"http://127.0.0.1:1/cb": false, "https://127.1.2.3/": false, "http://[::1]/cb": false,
		"http://[::ffff:127.0.0.1]/cb": false, "http://localhost/cb": false, "https://LocalHost:1/cb": false,
		"http://localhost./cb": false, "http://app.localhost/cb": false, "app:/cb": false,
		"https://localhost.example.org/cb": true, "https://mylocalhost/cb": true, "http://192.168.1.2/cb": true,
	} {
		if got := (oidc.Answer{To: address}).Proves(); got != want {
			t.Errorf("%q: %v", address, got)
		}
	}
}

// TestOrigin_IsOneThatBrowsersPermit: the directive form-action has no addresses of IPv6 (Content Security Policy,
// section 2.3.1). Chromium passes over one, and would not follow the redirect after the question.
func TestOrigin_IsOneThatBrowsersPermit(t *testing.T) {
	for address, want := range map[string]string{
		"https://web.example.org/cb?x=1": "https://web.example.org", "https://web.lan:1?x": "https://web.lan:1",
		"http://127.0.0.1:1/cb": "http://127.0.0.1:1", "http://[::1]:1/cb": "http:", "https://[2001:db8::1]/cb": "https:",
		"app.immich:///oauth-callback": "app.immich:",
	} {
		if got := oidc.Origin(address); got != want {
			t.Errorf("%q: %q, want %q", address, got, want)
		}
	}
}
