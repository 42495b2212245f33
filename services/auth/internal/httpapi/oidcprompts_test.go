package httpapi_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/session"
)

// step returns the path that a request leads to, and the one to return to.
func (b *browser) step(changes ...string) (path, again string) {
	b.h.t.Helper()
	got := b.at("GET", "/pforte/oidc/authorize?"+asked(changes...).Encode(), "").want(http.StatusSeeOther)
	to := must(url.Parse(got.header.Get("Location")))(b.h.t)
	if to.Host != "" {
		return to.Scheme + "://" + to.Host + to.Path, ""
	}
	again = to.Query().Get("return")
	if again == "" {
		again = "/pforte/oidc/authorize?r=" + url.QueryEscape(to.Query().Get("r"))
	}
	return to.Path, again
}

// goesOn reports whether a kept request leads back with a code now.
func (b *browser) goesOn(again string) bool {
	b.h.t.Helper()
	return strings.HasPrefix(b.at("GET", again, "").header.Get("Location"), callback+"?code=")
}

func (b *browser) reauth(pass string) {
	b.h.t.Helper()
	b.send(http.MethodPost, prefix+"/reauth", object("password", pass)).want(http.StatusOK)
}

// TestPrompt_AsksForAProofOnceForEachRequest: what is proved after the request came counts, so that no one is led in a
// circle; what was proved before does not.
func TestPrompt_AsksForAProofOnceForEachRequest(t *testing.T) {
	h := newSigningIn(t)
	otto := h.otto()
	h.clock.Advance(time.Minute)
	for _, changes := range [][]string{{"prompt", "login"}, {"max_age", "0"}, {"max_age", "59"}} {
		for range 2 {
			path, again := otto.step(changes...)
			if path != "/pforte/reauth" {
				t.Fatalf("%v leads to %s", changes, path)
			}
			if otto.goesOn(again) {
				t.Errorf("%v: without a proof", changes)
			}
			otto.reauth(userPass)
			if !otto.goesOn(again) {
				t.Errorf("%v: not with a proof", changes)
			}
			h.clock.Advance(time.Minute)
		}
		if got := otto.back(append(changes, "prompt", "none")...); changes[0] != "prompt" && got.Get("error") != "login_required" {
			t.Errorf("%v with prompt=none: %v", changes, got)
		}
	}
	if path, _ := otto.step("max_age", "61"); !strings.HasPrefix(path, callback) {
		t.Errorf("max_age that is not over leads to %s", path)
	}
	if path, _ := otto.step("acr_values", "mfa phr"); !strings.HasPrefix(path, callback) {
		t.Errorf("acr_values that the user cannot meet lead to %s", path)
	}
	// A login after the request is a proof, too.
	b := h.browser()
	path, again := b.step("prompt", "login")
	if path != "/pforte/login" {
		t.Fatalf("anonymous: %s", path)
	}
	b.login("otto", userPass).want(http.StatusOK)
	if !b.goesOn(again) {
		t.Error("asked again after the login")
	}
	h.clock.Advance(time.Minute)
	// So is one as somebody else, which a choice of accounts leads to.
	path, again = b.step("prompt", "select_account")
	if path != "/pforte/continue" || b.goesOn(again) {
		t.Fatalf("select_account leads to %s", path)
	}
	h.clock.Advance(time.Second)
	b.login("anna", adminPass).want(http.StatusOK)
	if !b.goesOn(again) {
		t.Error("asked for an account again after another one's login")
	}
	if path, _ := b.step("login_hint", "anna", "prompt", "unknown"); !strings.HasPrefix(path, callback) {
		t.Errorf("an unknown prompt leads to %s", path)
	}
}

// TestPrompt_AsksForTheWeakestAsked of acr_values, where the user has a second factor and the session is weaker.
func TestPrompt_AsksForTheWeakestAsked(t *testing.T) {
	h := newSigningIn(t)
	byPassword := h.otto()
	app, _ := h.setUp(byPassword)
	byCode := h.pending()
	byCode.verify(app.code(0)).want(http.StatusOK)
	for values, want := range map[string][2]string{
		"pwd": {callback, callback}, "mfa": {"/pforte/reauth", callback}, "mfa phr": {"/pforte/reauth", callback},
		"phr": {"/pforte/reauth", "/pforte/reauth"}, "unknown": {callback, callback},
	} {
		for i, b := range []*browser{byPassword, byCode} {
			if path, _ := b.step("acr_values", values); !strings.HasPrefix(path, want[i]) {
				t.Errorf("acr_values=%s of session %d leads to %s", values, i, path)
			}
		}
	}
}

// TestPrompt_AProofBeforeTheRequestIsNone, also where both are in one second; one after it counts.
func TestPrompt_AProofBeforeTheRequestIsNone(t *testing.T) {
	h := newSigningIn(t)
	for _, changes := range [][]string{{"prompt", "login"}, {"max_age", "0"}} {
		otto := h.otto()
		path, again := otto.step(changes...)
		if path != "/pforte/reauth" || otto.goesOn(again) {
			t.Fatalf("%v leads to %s", changes, path)
		}
		if got := otto.back("max_age", "0", "prompt", "none"); got.Get("error") != "login_required" {
			t.Errorf("max_age=0 with prompt=none: %v", got)
		}
		otto.reauth(userPass)
		if !otto.goesOn(again) {
			t.Errorf("%v: not with a proof", changes)
		}
	}
	if path, _ := h.otto().step("prompt", "select_account"); path != "/pforte/continue" {
		t.Errorf("a login in the second of the request counts as a choice of the account: %s", path)
	}
	h.ok(h.policy.CreateApplication(t.Context(), session.Session{}, policy.NewApplication{Slug: "below", URL: "/below/"}))
	if path, _ := h.otto().step("response_mode", "form_post"); path != "/pforte/reauth" {
		t.Errorf("a form with the code, with an application below the portal: %s", path)
	}
}

// TestPrompt_AProofOfTheFutureIsNone: it was made while a clock was ahead, and would count for all requests until then.
func TestPrompt_AProofOfTheFutureIsNone(t *testing.T) {
	h := newSigningIn(t)
	otto := h.otto()
	path, again := otto.step("prompt", "login")
	if path != "/pforte/reauth" {
		t.Fatalf("prompt=login leads to %s", path)
	}
	otto.reauth(userPass)
	h.clock.SetBack(time.Minute) // as much as the clocks of two replicas may differ
	if !otto.goesOn(again) {
		t.Error("a proof of the next minute does not count")
	}
	h.clock.SetBack(time.Second)
	if otto.goesOn(again) {
		t.Error("a proof of a later time counts")
	}
	for _, changes := range [][]string{{"prompt", "login"}, {"max_age", "3600"}} {
		path, again := otto.step(changes...)
		if path != "/pforte/reauth" || otto.goesOn(again) {
			t.Fatalf("%v leads to %s", changes, path)
		}
	}
	_, again = otto.step("prompt", "login")
	otto.reauth(userPass)
	if !otto.goesOn(again) {
		t.Error("not with a proof of now")
	}
}

// TestPrompt_HintAtAnotherGetsNoCode: an application that says whose login it has is not given somebody else's.
func TestPrompt_HintAtAnotherGetsNoCode(t *testing.T) {
	h := newSigningIn(t)
	otto, anna := h.otto(), h.anna()
	hint := h.exchange(otto.code()).ID
	h.clock.Advance(2 * time.Hour) // it has expired, and says who it was all the same
	for _, prompt := range []string{"none", "-"} {
		if got := anna.back("id_token_hint", hint, "prompt", prompt); got.Get("error") != "login_required" || got.Has("code") {
			t.Errorf("another's hint, prompt %s: %v", prompt, got)
		}
		if got := otto.back("id_token_hint", hint, "prompt", prompt); !got.Has("code") {
			t.Errorf("the user's own hint, prompt %s: %v", prompt, got)
		}
		if got := anna.back("id_token_hint", hint+"x", "prompt", prompt); !got.Has("code") {
			t.Errorf("a hint that is none of ours, prompt %s: %v", prompt, got)
		}
	}
}

func TestPrompt_QuestionIsAskedWhereTheAddressProvesNothing(t *testing.T) {
	h := newSigningIn(t)
	h.client("asks", func(c *oidc.Client) { c.Ask = true })
	_, challenge := pkce()
	h.client("desktop", func(c *oidc.Client) {
		c.Public, c.Redirects = true, []string{"http://127.0.0.1/cb", "app.desktop:///cb"}
	})
	otto := h.otto()
	h.clock.Advance(time.Minute)
	for what, changes := range map[string][]string{
		"the switch":     {"client_id", "asks", "redirect_uri", strings.Replace(callback, "grafana", "asks", 1)},
		"prompt=consent": {"prompt", "consent"},
		"loopback":       append([]string{"client_id", "desktop", "redirect_uri", "http://127.0.0.1:49152/cb"}, challenge...),
		"own scheme":     append([]string{"client_id", "desktop", "redirect_uri", "app.desktop:///cb"}, challenge...),
		"select_account": {"prompt", "select_account"},
	} {
		path, again := otto.step(changes...)
		if path != "/pforte/continue" {
			t.Errorf("%s leads to %s", what, path)
			continue
		}
		handle := must(url.Parse(again))(t).Query().Get("r")
		waiting := must(h.oidc.Waiting(t.Context(), handle))(t)
		if waiting.To != asked(changes...).Get("redirect_uri") || waiting.Origin == "" {
			t.Errorf("%s: waiting is %+v", what, waiting)
		}
		if got := otto.at("GET", again, "").header.Get("Location"); !strings.HasPrefix(got, "/pforte/continue") {
			t.Errorf("%s: unanswered leads to %s", what, got)
		}
		session := must(h.stores.List(t.Context(), 2))(t)[0].Session
		holder := must(h.accounts.Holder(t.Context(), session))(t)
		for denied, want := range map[bool]string{true: "", false: "code"} {
			step := must(h.oidc.Authorize(t.Context(), oidc.Attempt{Handle: handle, Session: &session, User: holder, Confirmed: !denied, Denied: denied}))(t)
			if step.Kind != oidc.Back || (step.Answer.Values.Get("code") != "") != (want == "code") || (step.Err != nil) != denied {
				t.Errorf("%s, denied %v: %+v", what, denied, step)
			}
		}
	}
	for _, address := range []string{"http://127.0.0.1:0/cb", "http://127.0.0.1:49152/cb/", "http://127.0.0.2:1/cb", "https://127.0.0.1:1/cb", "http://localhost:1/cb", "http://127.0.0.1:1@evil.org/cb", "http://127.0.0.1:1/cb?x"} {
		if got := otto.at("GET", "/pforte/oidc/authorize?"+asked(append([]string{"client_id", "desktop", "redirect_uri", address}, challenge...)...).Encode(), ""); got.status != http.StatusBadRequest {
			t.Errorf("%s: %d", address, got.status)
		}
	}
	// A page of an application at our own origin can send the form of the question: the user proves who they are first.
	h.ok(h.policy.CreateApplication(t.Context(), session.Session{}, policy.NewApplication{Slug: "below", URL: "/below/"}))
	path, again := otto.step("prompt", "consent")
	if path != "/pforte/reauth" {
		t.Errorf("with an application below the portal: %s", path)
	}
	handle := must(url.Parse(again))(t).Query().Get("r")
	asking := must(h.stores.List(t.Context(), 2))(t)[0].Session
	holder := must(h.accounts.Holder(t.Context(), asking))(t)
	answered := oidc.Attempt{Handle: handle, Session: &asking, User: holder, Confirmed: true}
	if step := must(h.oidc.Authorize(t.Context(), answered))(t); step.Kind != oidc.ToReauth {
		t.Errorf("the answer without a proof: %+v", step)
	}
	// Such a page could read the code where it comes by a page, too.
	if path, _ := otto.step("response_mode", "form_post"); path != "/pforte/reauth" {
		t.Errorf("a form with the code, with an application below the portal: %s", path)
	}
	otto.reauth(userPass)
	if got := otto.at("GET", again, "").header.Get("Location"); !strings.HasPrefix(got, "/pforte/continue") {
		t.Errorf("and then: %s", got)
	}
}

func TestRule_RefusesByAPageOrAnError(t *testing.T) {
	h := newSigningIn(t)
	h.ok(h.policy.ChangeApplication(t.Context(), session.Session{}, "grafana",
		policy.ApplicationChange{Rule: ptr("admin")}))
	otto := h.otto()
	got := otto.at("GET", "/pforte/oidc/authorize?"+asked().Encode(), "").want(http.StatusOK)
	if !strings.Contains(string(got.body), "error=access_denied") {
		t.Errorf("got %s", got.body)
	}
	if got := otto.back("prompt", "none"); got.Get("error") != "access_denied" {
		t.Errorf("prompt=none: %v", got)
	}
	if got := h.anna().back(); got.Get("code") == "" {
		t.Errorf("an admin: %v", got)
	}
	h.ok(h.policy.ChangeApplication(t.Context(), session.Session{}, "grafana", policy.ApplicationChange{Rule: ptr("login"), SecondFactor: ptr(true)}))
	if got := otto.at("GET", "/pforte/oidc/authorize?"+asked().Encode(), "").want(http.StatusOK); !strings.Contains(string(got.body), "error=access_denied") {
		t.Errorf("without a second factor: %s", got.body)
	}
}

func ptr[T any](v T) *T { return &v }

// TestLimit_OfKeptRequestsIsByAddress: only what is kept counts.
func TestLimit_OfKeptRequestsIsByAddress(t *testing.T) {
	h := newSigningIn(t)
	otto := h.otto()
	b := h.browser()
	for range 30 {
		b.step()
	}
	if got := b.at("GET", "/pforte/oidc/authorize?"+asked().Encode(), ""); got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") == "" {
		t.Errorf("one more: %d", got.status)
	}
	otto.code() // from the same address
	h.clock.Advance(time.Minute)
	long := asked("login_hint", strings.Repeat("x", 4<<10)).Encode()
	for i := range 11 { // each counts as three
		if got := b.at("GET", "/pforte/oidc/authorize?"+long, ""); (got.status == http.StatusTooManyRequests) != (i == 10) {
			t.Errorf("long request %d: %d", i, got.status)
		}
	}
	if got := h.elsewhere().at("GET", "/pforte/oidc/authorize?"+asked().Encode(), ""); got.status != http.StatusSeeOther {
		t.Errorf("another address: %d", got.status)
	}
}

// TestLimit_OfKeptRequestsLeadToAClient: a form that leads nowhere gets the page that it gets by GET, and does not
// count.
func TestLimit_OfKeptRequestsLeadToAClient(t *testing.T) {
	h := newSigningIn(t)
	b := h.browser()
	post := func(changes ...string) reply {
		return b.at("POST", "/pforte/oidc/authorize", asked(changes...).Encode(), "Content-Type", "application/x-www-form-urlencoded")
	}
	kept := func() int { return len(must(h.redis.Keys(t.Context(), "svc:oidc:req:*").Result())(t)) }
	for _, changes := range [][]string{{"client_id", "nobody"}, {"client_id", "-"}, {"redirect_uri", "https://evil.org/"}, {"redirect_uri", "-"}} {
		want := b.at("GET", "/pforte/oidc/authorize?"+asked(changes...).Encode(), "")
		for range 31 {
			if got := post(changes...); got.status != http.StatusBadRequest || got.status != want.status || got.header.Get("Location") != "" {
				t.Fatalf("%v: %d, %d by GET", changes, got.status, want.status)
			}
		}
	}
	if n := kept(); n != 0 {
		t.Errorf("%d are kept", n)
	}
	for range 30 {
		post().want(http.StatusSeeOther)
	}
	if got := post(); got.status != http.StatusTooManyRequests || kept() != 30 {
		t.Errorf("one more: %d, and %d are kept", got.status, kept())
	}
}

func TestPush_KeepsARequestOnce(t *testing.T) {
	h := newSigningIn(t)
	otto := h.otto()
	push := func(changes ...string) answered {
		values := []string{"client_secret", h.secret}
		for name, value := range asked() {
			values = append(values, name, value[0])
		}
		return h.form("/pforte/oidc/par", append(values, changes...)...)
	}
	var pushed struct {
		URI     string `json:"request_uri"`
		Expires int    `json:"expires_in"`
	}
	got := push()
	got.want(http.StatusCreated).into(&pushed)
	if pushed.Expires != 90 || !strings.HasPrefix(pushed.URI, "urn:ietf:params:oauth:request_uri:") {
		t.Fatalf("pushed is %+v", pushed)
	}
	keys := must(h.redis.Keys(t.Context(), "svc:oidc:req:*").Result())(t)
	if len(keys) != 1 || strings.Contains(must(h.redis.Get(t.Context(), keys[0]).Result())(t), h.secret) {
		t.Errorf("kept with its secret, or not once: %s", keys)
	}
	use := func(client string) reply {
		return otto.at("GET", "/pforte/oidc/authorize?"+url.Values{"client_id": {client}, "request_uri": {pushed.URI}}.Encode(), "")
	}
	if got := use("grafana"); !strings.HasPrefix(got.header.Get("Location"), callback+"?code=") {
		t.Errorf("led to %s", got.header.Get("Location"))
	}
	refused := func(what string, got reply) {
		t.Helper()
		if got.status != http.StatusBadRequest || got.header.Get("Location") != "" {
			t.Errorf("%s: %d, led to %s", what, got.status, got.header.Get("Location"))
		}
	}
	refused("a second time", use("grafana"))
	push().into(&pushed)
	handle := strings.TrimPrefix(pushed.URI, "urn:ietf:params:oauth:request_uri:")
	refused("as a handle", otto.at("GET", "/pforte/oidc/authorize?r="+handle, ""))
	refused("of another client", use("other"))
	post := func(uri string) reply {
		got := otto.at("POST", "/pforte/oidc/authorize", asked("request_uri", uri).Encode(), "Content-Type", "application/x-www-form-urlencoded")
		if to := got.header.Get("Location"); to != "" {
			return otto.at("GET", to, "")
		}
		return got
	}
	push().into(&pushed)
	if got := post(pushed.URI); !strings.HasPrefix(got.header.Get("Location"), callback+"?code=") {
		t.Errorf("by POST: %d, led to %s", got.status, got.header.Get("Location"))
	}
	refused("a second time by POST", post(pushed.URI))
	if got := post("https://evil.org/request"); !strings.HasPrefix(got.header.Get("Location"), callback+"?error=request_uri_not_supported") {
		t.Errorf("a foreign one by POST: %d, led to %s", got.status, got.header.Get("Location"))
	}
	push().into(&pushed)
	h.clock.Advance(91 * time.Second)
	refused("expired", use("grafana"))
	for what, changes := range map[string][]string{
		"another address": {"redirect_uri", "https://evil.org/"}, "plain PKCE": {"code_challenge", "x"}, "a request_uri": {"request_uri", pushed.URI}, "no openid": {"scope", "x"},
	} {
		if got := push(changes...); got.status != http.StatusBadRequest || got.Error == "" {
			t.Errorf("%s: %d %s", what, got.status, got.body)
		}
	}
	push("client_secret", "x").is(t, "wrong secret", http.StatusUnauthorized, "invalid_client")
}

func TestWebFinger_SaysTheSameOfAllNames(t *testing.T) {
	h := newSigningIn(t)
	for resource, status := range map[string]int{
		"acct:otto@home.example.org": 200, "acct:nobody@home.example.org": 200, "acct:otto@example.org": 404, "https://home.example.org": 404, "acct:@home.example.org": 404, "": 400,
	} {
		got := h.browser().at("GET", "/.well-known/webfinger?"+url.Values{"resource": {resource}}.Encode(), "")
		if got.status != status || status == 200 && !strings.Contains(string(got.body), `"href":"`+issuer+`"`) {
			t.Errorf("%q: %d %s", resource, got.status, got.body)
		}
	}
	if got := h.browser().at("GET", "/.well-known/oauth-authorization-server/pforte", ""); got.status != 200 || !strings.Contains(string(got.body), `"issuer":"`+issuer+`"`) {
		t.Errorf("metadata: %d %s", got.status, got.body)
	}
}

// TestLimit_OfPushedRequestsIsForPublicClients: a public client proves nothing, so a stranger can push in its name. The
// requests of one that proves itself are its own, and many of them come from one address.
func TestLimit_OfPushedRequestsIsForPublicClients(t *testing.T) {
	h := newSigningIn(t)
	h.client("phone", func(c *oidc.Client) { c.Public = true })
	_, challenge := pkce()
	push := func(changes ...string) answered {
		var values []string
		for name, value := range asked(changes...) {
			values = append(values, name, value[0])
		}
		return h.form("/pforte/oidc/par", values...)
	}
	public := append([]string{"client_id", "phone", "client_secret", "-", "redirect_uri", strings.Replace(callback, "grafana", "phone", 1)}, challenge...)
	for range 30 {
		push().want(http.StatusCreated)
		push(append(public, "client_secret", "x")...).want(http.StatusCreated)
	}
	if got := push(append(public, "client_secret", "x")...); got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") == "" || got.Error == "" {
		t.Errorf("one more: %d %s", got.status, got.body)
	}
	push().want(http.StatusCreated)
}
