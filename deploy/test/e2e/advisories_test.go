package e2e

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/oauth2"
)

// TestAdvisories_OfOtherProvidersDoNotHoldHere tries what was found in other providers, each by its names.
func TestAdvisories_OfOtherProvidersDoNotHoldHere(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, s *signIn) {
		advisories := []struct {
			names string
			test  func(t *testing.T, c *conform)
		}{
			{"GHSA-qh6q-598w-w6m2, GHSA-xg2q-62g2-cvcm, GHSA-xqxv-4jc2-x56x: a code is bound to client, address and verifier", codeIsBound},
			{"CVE-2026-26232: a code is good once", codeIsGoodOnce},
			{"CVE-2026-26247, CVE-2023-48228, pocket-id ce6bdb9, RFC 9700 4.8.2: PKCE is not dropped", pkceIsNotDropped},
			{"GHSA-2wvm-8mvp-22qv, tinyauth 854, CVE-2026-41479, CVE-2026-44681, GHSA-9h33-g3ww-mqff, CVE-2024-52289, CVE-2020-15233, CVE-2020-15234, CVE-2026-67333: nothing leads to an address that is not entered", nothingLeadsAstray},
			{"GHSA-36f2-fcrx-fp4j, GHSA-v959-qxv6-6f8p: a logout leads to entered addresses", logoutLeadsToEnteredAddresses},
			{"CVE-2026-43983, CVE-2023-22492, GHSA-7qjx-gp9h-65qj, dex 4889: a refresh asks again who may", refreshAsksAgain},
			{"GHSA-3q28-qjrv-qr39, GHSA-hp74-gm6m-2qm5: a login that waits for its second factor is none", pendingLoginIsNone},
			{"CVE-2026-27840: a token is compared whole", tokensAreComparedWhole},
			{"kanidm 4514: what the address does not prove is asked", loopbackIsAsked},
			{"hydra 770, CVE-2022-39222: a yes in one browser gives nothing in another", yesStaysInItsBrowser},
			{"GHSA-7wfc-4796-gmg5: nothing is fetched that a request names", nothingIsFetched},
			{"a client authenticates one way", clientAuthenticatesOneWay},
			{"an ID token of another algorithm or type is no hint", hintsAreChecked},
		}
		each := newConforms(t, s, "", len(advisories))
		for i, of := range advisories {
			t.Run(of.names, func(t *testing.T) { of.test(t, each[i].in(t)) })
		}
	})
}

// code returns a code for the client.
func (c *conform) freshCode(t *testing.T, values ...string) string {
	t.Helper()
	got := c.led(t, c.p.open(c.request(values...)))
	if got.Get("code") == "" {
		t.Fatalf("no code: %v", got)
	}
	return got.Get("code")
}

// exchange sends a code with further values, an empty one leaves a parameter out, and returns the error.
func (c *conform) exchange(t *testing.T, code string, values ...string) string {
	t.Helper()
	grant := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {c.redirect()}}
	for i := 0; i < len(values); i += 2 {
		grant.Set(values[i], values[i+1])
		if values[i+1] == "" {
			grant.Del(values[i])
		}
	}
	status, body := c.token(t, grant)
	if status == http.StatusOK {
		return "OK"
	}
	return fmt.Sprint(body["error"])
}

var (
	verifier  = oauth2.GenerateVerifier()
	challenge = oauth2.S256ChallengeFromVerifier(verifier)
)

func codeIsBound(t *testing.T, c *conform) {
	other := *c
	other.clientID, other.secret = c.otherID, c.other
	withPKCE := []string{"code_challenge", challenge, "code_challenge_method", "S256"}
	for what, try := range map[string]func() string{
		"another client":                    func() string { return other.exchange(t, c.freshCode(t)) },
		"another client, with its verifier": func() string { return other.exchange(t, c.freshCode(t, withPKCE...), "code_verifier", verifier) },
		"another address":                   func() string { return c.exchange(t, c.freshCode(t), "redirect_uri", c.rp.origin+"/cb/") },
		"no address":                        func() string { return c.exchange(t, c.freshCode(t), "redirect_uri", "") },
		"another verifier": func() string {
			return c.exchange(t, c.freshCode(t, withPKCE...), "code_verifier", oauth2.GenerateVerifier())
		},
		"the challenge as the verifier":      func() string { return c.exchange(t, c.freshCode(t, withPKCE...), "code_verifier", challenge) },
		"another client and another address": func() string { return other.exchange(t, c.freshCode(t), "redirect_uri", c.rp.origin+"/cb/") },
		"another address, another verifier": func() string {
			return c.exchange(t, c.freshCode(t, withPKCE...), "redirect_uri", c.rp.origin+"/cb/", "code_verifier", oauth2.GenerateVerifier())
		},
		"cut":    func() string { code := c.freshCode(t); return c.exchange(t, code[:len(code)-1]) },
		"longer": func() string { return c.exchange(t, c.freshCode(t)+"A") },
		"burnt by a first wrong try": func() string {
			code := c.freshCode(t)
			other.exchange(t, code)
			return c.exchange(t, code)
		},
	} {
		if got := try(); got != "invalid_grant" && (what != "no address" || got != "invalid_request") {
			t.Errorf("%s: %s", what, got)
		}
	}
	if got := c.exchange(t, c.freshCode(t, withPKCE...), "code_verifier", verifier); got != "OK" {
		t.Errorf("with all that is right: %s", got)
	}
}

func codeIsGoodOnce(t *testing.T, c *conform) {
	code := c.freshCode(t, "code_challenge", challenge, "code_challenge_method", "S256")
	answers := make([]string, 100)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() { answers[i] = c.exchange(t, code, "code_verifier", verifier) })
	}
	wg.Wait()
	count := map[string]int{}
	for _, answer := range answers {
		count[answer]++
	}
	if count["OK"] != 1 || count["invalid_grant"] != 99 {
		t.Errorf("100 copies of one exchange: %v", count)
	}
}

func pkceIsNotDropped(t *testing.T, c *conform) {
	public := *c
	public.clientID, public.secret, public.here = "public-"+c.clientID, "", true
	c.s.client(t, public.clientID, "http://"+public.clientID+".test", "--public", "--redirect", public.redirect())
	for what, values := range map[string][]string{
		"plain":             {"code_challenge", verifier, "code_challenge_method", "plain"},
		"plain by omission": {"code_challenge", challenge},
		"another method":    {"code_challenge", challenge, "code_challenge_method", "s256"},
		"too short":         {"code_challenge", challenge[:42], "code_challenge_method", "S256"},
		"too long":          {"code_challenge", challenge + "A", "code_challenge_method", "S256"},
		"no challenge":      {"code_challenge_method", "S256"},
	} {
		for _, client := range []*conform{c, &public} {
			if got := client.refused(t, values...); got.Get("error") != "invalid_request" {
				t.Errorf("%s: %v", what, got)
			}
		}
	}
	if got := public.refused(t); got.Get("error") != "invalid_request" {
		t.Errorf("a public client without PKCE: %v", got)
	}
	withPKCE := []string{"code_challenge", challenge, "code_challenge_method", "S256"}
	if got := c.exchange(t, c.freshCode(t, withPKCE...)); got != "invalid_grant" && got != "invalid_request" {
		t.Errorf("a challenge without its verifier: %s", got)
	}
	if got := public.exchange(t, public.freshCode(t, withPKCE...)); got != "invalid_grant" && got != "invalid_request" {
		t.Errorf("a public client's challenge without its verifier: %s", got)
	}
	// The injection of RFC 9700, 4.8.2: a code that was asked for without a challenge, and a client that sends its verifier.
	plain := *c
	plain.clientID, plain.secret = c.otherID, c.other
	if got := plain.refusedOrCode(t); got != "" {
		if got := plain.exchange(t, got, "code_verifier", verifier); got != "invalid_grant" && got != "invalid_request" {
			t.Errorf("a verifier without a challenge: %s", got)
		}
	}
	// Once a client has used PKCE, it is a duty.
	if got := c.exchange(t, c.freshCode(t, withPKCE...), "code_verifier", verifier); got != "OK" {
		t.Fatalf("with PKCE: %s", got)
	}
	eventually(t, "PKCE is a duty for who has used it", func(context.Context) error { // auth keeps clients in memory for seconds
		if got := c.led(t, c.p.open(c.request())); got.Get("error") != "invalid_request" {
			return fmt.Errorf("without it: %v", got)
		}
		return nil
	})
}

// refusedOrCode returns the code that a request gets, or nothing where it is refused.
func (c *conform) refusedOrCode(t *testing.T) string {
	t.Helper()
	return c.led(t, c.p.open(c.request())).Get("code")
}

// astray returns addresses that are not the entered one, and look like it.
func astray(entered string) []string {
	u, err := url.Parse(entered)
	if err != nil {
		panic(err)
	}
	host, port := u.Hostname(), u.Port()
	all := []string{
		"", "/", "/cb", "//evil.example", "https://evil.example", "javascript:alert(1)", "data:text/html,x", "null", " " + entered, entered + " ", entered + "%20", entered + "\n", "\t" + entered,
		entered + "/", entered + "/.", entered + "/../cb", entered + "//", entered + "?", entered + "?x=1", entered + "#", entered + "#x", entered + "%23", entered + "%00", entered + "\x00", entered + ";x", entered + "*", entered + "%2e",
		strings.ToUpper(entered), strings.Replace(entered, "http:", "HTTP:", 1), strings.Replace(entered, "http:", "https:", 1), strings.Replace(entered, "http:", "", 1), strings.Replace(entered, "http://", "http:/", 1),
		strings.Replace(entered, "http://", "http:\\\\", 1), strings.Replace(entered, "://", ":///", 1), strings.Replace(entered, host, strings.ToUpper(host), 1), strings.Replace(entered, host, host+".", 1), strings.Replace(entered, host, host+".evil.example", 1),
		strings.Replace(entered, host, "evil."+host, 1), strings.Replace(entered, host, "*."+host, 1), strings.Replace(entered, host, host[1:], 1), strings.Replace(entered, host, "127.0.0.1", 1), strings.Replace(entered, host, "xn--"+host, 1),
		strings.Replace(entered, host, strings.Replace(host, "e", "\u0435", 1), 1), strings.Replace(entered, "://", "://evil.example@", 1), strings.Replace(entered, "://", "://x:y@", 1), strings.Replace(entered, host+":"+port, host+":"+port+"@evil.example", 1),
		strings.Replace(entered, host+":"+port, "evil.example\\@"+host+":"+port, 1), strings.Replace(entered, ":"+port, "", 1), strings.Replace(entered, ":"+port, ":1", 1), strings.Replace(entered, ":"+port, ":0"+port, 1), strings.Replace(entered, ":"+port, ":"+port+"0", 1),
		strings.Replace(entered, "/cb", "/CB", 1), strings.Replace(entered, "/cb", "/%63b", 1), strings.Replace(entered, "/cb", "/c%62", 1), strings.Replace(entered, "/cb", "//cb", 1), strings.Replace(entered, "/cb", "/./cb", 1), strings.Replace(entered, "/cb", "\\cb", 1), strings.Replace(entered, "/cb", "/x/../cb", 1),
		strings.Replace(entered, "/cb", "/c", 1), strings.Replace(entered, "/cb", "", 1), strings.Replace(entered, "/cb", "/", 1), "http://evil.example/?" + entered, "http://evil.example/#" + entered, "http://evil.example\\" + entered, entered + "," + entered, entered + " " + entered,
		"com.evil.app:/" + strings.TrimPrefix(entered, "http://"), "http://[::1]:" + port + "/cb", "http://localhost:" + port + "/cb",
	}
	slices.Sort(all)
	return slices.Compact(slices.DeleteFunc(all, func(one string) bool { return one == entered }))
}

func nothingLeadsAstray(t *testing.T, c *conform) {
	stranger := c.s.person(t, "petra")
	transport := thisMachine()
	addresses := astray(c.rp.origin + "/cb")
	requests := map[string][]string{
		"a good request": nil, "prompt=none": {"prompt", "none"}, "prompt=login": {"prompt", "login"}, "prompt=consent": {"prompt", "consent"}, "prompt=select_account": {"prompt", "select_account"}, "no response type": {"response_type", ""},
		"another response type": {"response_type", "token"}, "no openid": {"scope", "profile"}, "a request object": {"request", "x.y."}, "a request's address": {"request_uri", "https://evil.example"}, "plain PKCE": {"code_challenge", "x"}, "max_age": {"max_age", "-1"},
		"form_post": {"response_mode", "form_post"}, "fragment": {"response_mode", "fragment"}, "registration": {"registration", "{}"},
	}
	n := 0
	for what, values := range requests {
		for _, address := range addresses {
			for _, by := range []*person{c.p, stranger} {
				req := by.navigate(c.request(append([]string{"redirect_uri", address}, values...)...))
				for _, cookie := range by.Jar.Cookies(req.URL) {
					req.AddCookie(cookie)
				}
				n++
				req.Header.Set("X-Forwarded-For", fmt.Sprintf("198.18.%d.%d", n/200, n%200))
				resp, err := transport.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusBadRequest || resp.Header.Get("Location") != "" || resp.Header.Get("Refresh") != "" {
					t.Errorf("%s to %q is answered %d, Location %q", what, address, resp.StatusCode, resp.Header.Get("Location"))
				}
			}
		}
	}
	// Twice the same parameter, each way round: no page reads one and checks the other.
	for _, twice := range []string{"&redirect_uri=" + url.QueryEscape("https://evil.example"), "&client_id=" + c.otherID, "&response_mode=query&response_mode=form_post", "&state=x"} {
		req := c.p.navigate(c.request() + twice)
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest || resp.Header.Get("Location") != "" {
			t.Errorf("%s is answered %d, Location %q", twice, resp.StatusCode, resp.Header.Get("Location"))
		}
	}
	t.Logf("%d addresses, %d requests", len(addresses), n)
}

func logoutLeadsToEnteredAddresses(t *testing.T, c *conform) {
	f := c.flow(t)
	for _, address := range astray(c.rp.origin + "/bye") {
		if address == "" {
			continue // no address
		}
		for _, hint := range []string{f.idToken, "", signedByAnother(t, f)} {
			q := url.Values{"post_logout_redirect_uri": {address}, "state": {"z"}}
			if hint != "" {
				q.Set("id_token_hint", hint)
			}
			a := c.p.shown(c.s.issuer + "/oidc/end-session?" + q.Encode())
			if a.Request.URL.Host != c.p.origin.Host || !strings.HasPrefix(address, "/") && strings.Contains(string(a.body), "href=\""+html.EscapeString(address)) || a.StatusCode >= 500 {
				t.Errorf("%q leads to %s: %d", address, a.Request.URL, a.StatusCode)
			}
			if hint == f.idToken {
				c.p.submit(a, "", "one") // of the application alone: the session goes on
				if got, led := c.rp.take("/bye"); led {
					t.Errorf("%q leads to the application: %+v", address, got)
				}
			}
		}
	}
	if got := c.flow(t, "prompt", "none"); got.asked != 0 {
		t.Error("a GET ended the session")
	}
}

func refreshAsksAgain(t *testing.T, c *conform) {
	for what, end := range map[string]func(*testing.T){
		"out of the group": c.s.leave,
		"another rule":     func(t *testing.T) { c.s.authCommand(t, "app", "set", c.clientID, "--rule", "admin") },
		"removed":          nil,
	} {
		f := c.flow(t, "scope", "openid offline_access")
		if end == nil {
			c.s.authCommand(t, "oidc", "end", fmt.Sprint(f.claims["sid"]))
		} else {
			end(t)
		}
		if status, body := c.token(t, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {f.refresh}}); status != http.StatusBadRequest || body["error"] != "invalid_grant" {
			t.Errorf("%s: refresh is answered %d %v", what, status, body)
		}
		if status, _ := c.ask(t, http.MethodGet, "userinfo", f.access, nil); status != http.StatusUnauthorized {
			t.Errorf("%s: userinfo is answered %d", what, status)
		}
		c.s.join(t)
		c.s.authCommand(t, "app", "set", c.clientID, "--rule", "group:familie")
	}
	// A code under way is refused as well.
	code := c.freshCode(t)
	c.s.leave(t)
	if got := c.exchange(t, code); got != "invalid_grant" {
		t.Errorf("a code of who has left the group: %s", got)
	}
	c.s.join(t)
}

func pendingLoginIsNone(t *testing.T, c *conform) {
	stranger := *c
	stranger.p = c.s.person(t, "petra")
	for _, name := range []string{"svc.2fa", "svc.sid", "svc.app"} { // as a login that waits has it, and as an application's
		for _, cookie := range c.p.Jar.Cookies(c.p.origin) {
			if name == "svc.sid" && cookie.Name == "svc.sid" {
				cookie.Value = strings.ToUpper(cookie.Value)
			}
			stranger.p.Jar.SetCookies(c.p.origin, []*http.Cookie{{Name: name, Value: cookie.Value, Path: "/"}})
			if name == cookie.Name && name != "svc.sid" {
				continue
			}
			if name == "svc.sid" && cookie.Name != "svc.sid" {
				continue
			}
			if got := stranger.refused(t, "prompt", "none"); got.Get("error") != "login_required" {
				t.Errorf("%s with the value of %s: %v", name, cookie.Name, got)
			}
		}
	}
	// What asks for more than a password is not answered by one.
	c.s.authCommand(t, "app", "set", c.clientID, "--second-factor")
	defer c.s.authCommand(t, "app", "set", c.clientID, "--second-factor=false")
	if got := c.refused(t, "prompt", "none"); got.Get("error") == "" || got.Get("code") != "" {
		t.Errorf("an application that demands a second factor: %v", got)
	}
}

func tokensAreComparedWhole(t *testing.T, c *conform) {
	f := c.flow(t, "scope", "openid offline_access")
	for what, change := range map[string]func(string) string{
		"cut":         func(s string) string { return s[:len(s)-1] },
		"half":        func(s string) string { return s[:len(s)/2] },
		"longer":      func(s string) string { return s + "A" },
		"other case":  swapCase,
		"padded":      func(s string) string { return s + "=" },
		"with a zero": func(s string) string { return s + "%00" },
	} {
		if status, _ := c.ask(t, http.MethodGet, "userinfo", change(f.access), nil); status != http.StatusUnauthorized {
			t.Errorf("an access token, %s, is answered %d", what, status)
		}
		if status, body := c.token(t, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {change(f.refresh)}}); status != http.StatusBadRequest || body["error"] != "invalid_grant" {
			t.Errorf("a refresh token, %s, is answered %d %v", what, status, body)
		}
		wrong := *c
		wrong.secret = change(c.secret)
		if status, body := wrong.token(t, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {f.refresh}}); status != http.StatusUnauthorized || body["error"] != "invalid_client" {
			t.Errorf("a secret, %s, is answered %d %v", what, status, body)
		}
	}
	for _, foreign := range []string{f.idToken, f.refresh, c.secret, ""} {
		status, _ := c.ask(t, http.MethodGet, "userinfo", cmp.Or(foreign, "x"), nil)
		if status != http.StatusUnauthorized {
			t.Errorf("another kind of token is answered %d at userinfo", status)
		}
	}
	if got := c.exchange(t, f.access); got != "invalid_grant" {
		t.Errorf("an access token as a code: %s", got)
	}
	// None of it has ended the grant.
	if status, body := c.token(t, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {f.refresh}}); status != http.StatusOK {
		t.Errorf("the true refresh token is answered %d %v", status, body)
	}
}

func swapCase(s string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' {
			return r - 32
		}
		if 'A' <= r && r <= 'Z' {
			return r + 32
		}
		return r
	}, s)
}

func loopbackIsAsked(t *testing.T, c *conform) {
	public := *c
	public.clientID, public.secret = "desktop-"+c.clientID, ""
	c.s.client(t, public.clientID, "http://"+public.clientID+".test", "--public", "--redirect", "http://127.0.0.1/cb")
	loopback := "http://" + c.rp.server.Listener.Addr().String() + "/cb"
	request := public.request("redirect_uri", loopback, "code_challenge", challenge, "code_challenge_method", "S256")
	for range 2 {
		a := c.p.shown(request)
		if _, led := c.rp.take("/cb"); led || a.Request.URL.Path != "/pforte/continue" || a.StatusCode != 200 {
			t.Fatalf("a program on this machine, which is not asked about, ends at %s: %d", a.Request.URL, a.StatusCode)
		}
		c.p.submit(a, "")
		if got, led := c.rp.take("/cb"); !led || got.values.Get("code") == "" {
			t.Fatalf("after the yes: %v", got)
		}
	}
	if a := c.p.shown(public.request("redirect_uri", loopback, "code_challenge", challenge, "code_challenge_method", "S256", "prompt", "none")); true {
		if got, led := c.rp.take("/cb"); !led || got.values.Get("error") != "consent_required" && got.values.Get("error") != "interaction_required" {
			t.Errorf("prompt=none ends at %s: %v", a.Request.URL, got)
		}
	}
}

func yesStaysInItsBrowser(t *testing.T, c *conform) {
	// The page of a question, which one browser opened, is sent by another: nothing comes for the first one's user.
	asking := *c
	asking.clientID = "asks-" + c.clientID
	asking.secret = c.s.client(t, asking.clientID, "http://"+asking.clientID+".test", "--ask", "--redirect", c.rp.origin+"/cb")
	page := c.p.shown(asking.request())
	if page.Request.URL.Path != "/pforte/continue" {
		t.Fatalf("an application that asks ends at %s: %d", page.Request.URL, page.StatusCode)
	}
	attacker := c.s.person(t, "otto")
	if a := attacker.open(c.s.origin + "/pforte/"); a.StatusCode != 200 {
		t.Fatalf("otto ends at %s", a.Request.URL)
	}
	attacker.submit(page, "")
	if got, led := c.rp.take("/cb"); led && got.values.Get("code") != "" {
		t.Error("the yes of another browser gave a code")
	}
	a := attacker.open(page.Request.URL.String())
	if got, led := c.rp.take("/cb"); led && got.values.Get("code") != "" {
		t.Errorf("who may not use the application got a code by another's request, at %s", a.Request.URL)
	}
	// The user's own yes gives their own code, in the same answer.
	c.p.submit(page, "")
	if got, led := c.rp.take("/cb"); !led || got.values.Get("code") == "" {
		t.Errorf("after the user's own yes: %v", got)
	}
}

func nothingIsFetched(t *testing.T, c *conform) {
	for _, name := range []string{"request_uri", "jwks_uri", "sector_identifier_uri", "logo_uri", "client_uri", "id_token_hint", "resource", "registration"} {
		a := c.p.open(c.request(name, c.rp.server.URL+"/fetched"))
		if a.StatusCode >= 500 {
			t.Errorf("%s is answered %d", name, a.StatusCode)
		}
		c.rp.take("/cb")
	}
	c.p.shown(c.s.issuer + "/oidc/authorize?" + url.Values{"client_id": {c.rp.server.URL + "/fetched"}, "redirect_uri": {c.rp.server.URL + "/cb"}, "response_type": {"code"}, "scope": {"openid"}}.Encode())
	time.Sleep(100 * time.Millisecond)
	if got, fetched := c.rp.take("/fetched"); fetched {
		t.Errorf("the provider fetched what a request named: %+v", got)
	}
}

func clientAuthenticatesOneWay(t *testing.T, c *conform) {
	public := "alone-" + c.clientID
	c.s.client(t, public, "http://"+public+".test", "--public", "--redirect", c.rp.server.URL+"/cb")
	for _, try := range []struct {
		what, basicID, basicSecret, bodyID, bodySecret string
		refused                                        bool
	}{
		{"Basic", c.clientID, c.secret, "", "", false},
		{"the body", "", "", c.clientID, c.secret, false},
		{"Basic, and the same id in the body", c.clientID, c.secret, c.clientID, "", false},
		{"Basic, and another id in the body", c.clientID, c.secret, c.otherID, "", true},
		{"Basic, and another client in the body", c.clientID, c.secret, c.otherID, c.other, true},
		{"a wrong secret in Basic, the right one in the body", c.clientID, "pfc_wrong", c.clientID, c.secret, true},
		{"the right secret in Basic, a wrong one in the body", c.clientID, c.secret, c.clientID, "pfc_wrong", true},
		{"an id without a secret", "", "", c.clientID, "", true},
		{"an empty secret in Basic", c.clientID, "", "", "", true},
		{"nothing", "", "", "", "", true},
		{"the secret of another client", c.clientID, c.other, "", "", true},
		{"a public client's id", "", "", public, "", true},
		{"a public client's id, with a confidential one's secret", "", "", public, c.secret, true},
		{"an unknown client", "nobody", c.secret, "", "", true},
		{"another case", strings.ToUpper(c.clientID), c.secret, "", "", true},
	} {
		form := url.Values{"grant_type": {"authorization_code"}, "code": {c.freshCode(t)}, "redirect_uri": {c.redirect()}}
		for name, value := range map[string]string{"client_id": try.bodyID, "client_secret": try.bodySecret} {
			if value != "" {
				form.Set(name, value)
			}
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.s.issuer+"/oidc/token", strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if try.basicID != "" {
			req.SetBasicAuth(try.basicID, try.basicSecret)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var body map[string]any
		err = json.NewDecoder(resp.Body).Decode(&body)
		_ = resp.Body.Close()
		if err != nil || (resp.StatusCode != http.StatusOK) != try.refused || try.refused && !slices.Contains([]any{"invalid_client", "invalid_grant", "invalid_request"}, body["error"]) {
			t.Errorf("%s is answered %d %v, %v", try.what, resp.StatusCode, body["error"], err)
		}
		if resp.StatusCode == http.StatusUnauthorized && try.basicID != "" && !strings.HasPrefix(resp.Header.Get("WWW-Authenticate"), "Basic") {
			t.Errorf("%s: 401 without a challenge, RFC 6749 5.2", try.what)
		}
	}
	// Parameters in the query are not read, and twice the same is refused.
	code := c.freshCode(t)
	q := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {c.redirect()}, "client_id": {c.clientID}, "client_secret": {c.secret}}
	if status, body := c.ask(t, http.MethodPost, "token?"+q.Encode(), "", url.Values{}); status == http.StatusOK {
		t.Errorf("parameters in the query are answered %d %v", status, body)
	}
	if got := c.exchange(t, code); got != "OK" {
		t.Errorf("the code after them: %s", got)
	}
}

func hintsAreChecked(t *testing.T, c *conform) {
	f := c.flow(t)
	header := func(h string) string {
		_, rest, _ := strings.Cut(f.idToken, ".")
		return base64.RawURLEncoding.EncodeToString([]byte(h)) + "." + rest
	}
	payload := strings.Split(f.idToken, ".")[1]
	for what, hint := range map[string]string{
		"alg none":          base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + payload + ".",
		"HS256":             header(fmt.Sprintf(`{"alg":"HS256","typ":"JWT","kid":%q}`, f.header(t)["kid"])),
		"another algorithm": header(fmt.Sprintf(`{"alg":"PS256","typ":"JWT","kid":%q}`, f.header(t)["kid"])),
		"a logout token":    header(fmt.Sprintf(`{"alg":"RS256","typ":"logout+jwt","kid":%q}`, f.header(t)["kid"])),
		"a foreign key":     signedByAnother(t, f),
		"no signature":      strings.Join(strings.Split(f.idToken, ".")[:2], "."),
		"an access token":   f.access,
		"words":             "hint",
	} {
		own := c.s.person(t, "petra")
		own.open(c.s.origin + "/pforte/")
		a := own.shown(c.s.issuer + "/oidc/end-session?" + url.Values{"id_token_hint": {hint}, "post_logout_redirect_uri": {c.rp.origin + "/bye"}}.Encode())
		if to := a.logoutForm(t); to != "" {
			a = own.submit(a, to)
		}
		if got, led := c.rp.take("/bye"); led {
			t.Errorf("%s leads to the application: %+v", what, got)
		}
		if a.StatusCode >= 500 || a.Request.URL.Host != c.p.origin.Host {
			t.Errorf("%s leads to %s: %d", what, a.Request.URL, a.StatusCode)
		}
	}
}
