package httpapi_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// introspect asks what a token is good for.
func (h *signingIn) introspect(token string, changes ...string) (answer map[string]any, status int) {
	h.t.Helper()
	got := h.form("/pforte/oidc/introspect", append([]string{"token", token}, changes...)...)
	answer = map[string]any{}
	got.into(&answer)
	return answer, got.status
}

// revoke revokes a token.
func (h *signingIn) revoke(token string, changes ...string) reply {
	h.t.Helper()
	values := url.Values{"client_id": {"grafana"}, "client_secret": {h.secret}, "token": {token}}
	for i := 0; i < len(changes); i += 2 {
		values[changes[i]] = []string{changes[i+1]}
		if changes[i+1] == "-" {
			values.Del(changes[i])
		}
	}
	return h.browser().at("POST", "/pforte/oidc/revoke", values.Encode(), "Content-Type", "application/x-www-form-urlencoded")
}

// rule changes the rule of grafana.
func (h *signingIn) rule(change func(*application.Application)) {
	h.t.Helper()
	if err := h.database.Applications.ChangeApplication(h.t.Context(), "grafana", func(a *application.Application) error {
		change(a)
		return nil
	}, session.Session{}); err != nil {
		h.t.Fatal(err)
	}
}

// ending is what ends otto's logins at grafana.
type ending struct {
	do func(t *testing.T, h *signingIn, anna, otto *browser)
	// login: it ends what the login opened, and neither offline_access nor other logins.
	login bool
	// before prepares the rule.
	before func(h *signingIn)
}

var endings = map[string]ending{
	"logout": {login: true, do: func(_ *testing.T, _ *signingIn, _, otto *browser) {
		otto.send("POST", prefix+"/logout", "").want(http.StatusOK)
	}},
	"another login in the same browser": {login: true, do: func(_ *testing.T, _ *signingIn, _, otto *browser) {
		otto.login("anna", adminPass).want(http.StatusOK)
	}},
	"the session ended on another device": {login: true, do: func(t *testing.T, h *signingIn, _, otto *browser) {
		other := h.otto()
		var sessions struct {
			Data []struct {
				ID      string
				Current bool
			}
		}
		other.get(prefix + "/sessions").want(http.StatusOK).into(&sessions)
		for _, s := range sessions.Data {
			if !s.Current {
				other.send("DELETE", prefix+"/sessions/"+s.ID, "").want(http.StatusOK)
			}
		}
		otto.get(prefix + "/me").want(http.StatusUnauthorized)
	}},
	"the session ended by a command": {login: true, do: func(t *testing.T, h *signingIn, _, otto *browser) {
		infos := must(h.accounts.Sessions(t.Context(), "otto"))(t)
		if err := h.accounts.RevokeSession(t.Context(), "otto", infos[0].Key[:8]); err != nil {
			t.Fatal(err)
		}
	}},
	"a new password": {do: func(_ *testing.T, _ *signingIn, _, otto *browser) {
		otto.send("PATCH", prefix+"/me/password", object("current_password", userPass, "new_password", newPass)).want(http.StatusOK)
		otto.get(prefix + "/me").want(http.StatusOK) // which keeps this session
	}},
	"a reset password": {do: func(t *testing.T, h *signingIn, _, _ *browser) {
		if err := h.accounts.ResetPassword(t.Context(), "otto", newPass); err != nil {
			t.Fatal(err)
		}
	}},
	"log out everywhere else": {do: func(_ *testing.T, _ *signingIn, _, otto *browser) {
		otto.send("POST", prefix+"/logout-others", "").want(http.StatusOK)
	}},
	"a reset factor": {do: func(_ *testing.T, _ *signingIn, anna, _ *browser) {
		anna.send("DELETE", prefix+"/users/2/2fa", "").want(http.StatusOK)
	}},
	"disabling": {do: func(_ *testing.T, _ *signingIn, anna, _ *browser) {
		anna.send("POST", prefix+"/members/2/disable", "").want(http.StatusOK)
	}},
	"deletion": {do: func(_ *testing.T, _ *signingIn, anna, _ *browser) {
		anna.send("DELETE", prefix+"/users/2", "").want(http.StatusOK)
	}},
	"the last day": {do: func(t *testing.T, h *signingIn, _, _ *browser) {
		ends := h.clock.Now().Add(time.Second)
		if err := h.database.Users.Change(t.Context(), 2, user.Change{EndsAt: &ends}, session.Session{}); err != nil {
			t.Fatal(err)
		}
		h.clock.Advance(2 * time.Second)
	}},
	"leaving the group": {
		before: func(h *signingIn) {
			if err := h.policy.CreateGroup(h.t.Context(), session.Session{}, "cooks", "Cooks", 2); err != nil {
				h.t.Fatal(err)
			}
			h.rule(func(a *application.Application) { a.Rule, a.Group = application.Group, "cooks" })
		},
		do: func(_ *testing.T, _ *signingIn, anna, _ *browser) {
			anna.send("PATCH", prefix+"/members/2", object("groups", []string{})).want(http.StatusOK)
		},
	},
	"demotion": {
		before: func(h *signingIn) {
			if err := h.database.Users.SetRole(h.t.Context(), 2, user.Admin); err != nil {
				h.t.Fatal(err)
			}
			h.rule(func(a *application.Application) { a.Rule = application.Admin })
		},
		do: func(_ *testing.T, _ *signingIn, anna, _ *browser) {
			anna.send("PATCH", prefix+"/members/2", object("role", "member")).want(http.StatusOK)
		},
	},
	"another rule": {do: func(_ *testing.T, _ *signingIn, anna, _ *browser) {
		anna.send("PATCH", prefix+"/apps/grafana", object("rule", "admin")).want(http.StatusOK)
	}},
	"a second factor demanded": {do: func(_ *testing.T, _ *signingIn, anna, _ *browser) {
		anna.send("PATCH", prefix+"/apps/grafana", object("second_factor", true)).want(http.StatusOK)
	}},
	"the application removed": {do: func(_ *testing.T, _ *signingIn, anna, _ *browser) {
		anna.send("DELETE", prefix+"/apps/grafana", "").want(http.StatusOK)
	}},
}

// TestEnd_RefusesAtTheNextUse: a code under way, access and refresh tokens, userinfo and introspection.
func TestEnd_RefusesAtTheNextUse(t *testing.T) {
	for name, e := range endings {
		t.Run(name, func(t *testing.T) {
			inEach(t, func(t *testing.T, h *signingIn) {
				if e.before != nil {
					e.before(h)
				}
				anna, otto := h.anna(), h.otto()
				plain := h.exchange(otto.code())
				offline := h.exchange(otto.code("scope", "openid offline_access"))
				pending := otto.code()
				if answer, status := h.introspect(plain.Access); status != 200 || answer["active"] != true || offline.Refresh == "" {
					t.Fatalf("before: %d %v, %s", status, answer, offline.body)
				}
				e.do(t, h, anna, otto)
				refused := func(what string, status int, word string) {
					t.Helper()
					if status != 400 && status != 401 || word != "invalid_grant" && word != "invalid_token" && word != "invalid_client" {
						t.Errorf("%s: %d %s", what, status, word)
					}
				}
				got := h.exchange(pending)
				refused("the code under way", got.status, got.Error)
				claims, status := h.userInfo(plain.Access)
				refused("userinfo", status, fmt.Sprint(claims["error"]))
				if answer, status := h.introspect(plain.Access); status == 200 && fmt.Sprint(answer) != "map[active:false]" {
					t.Errorf("introspection: %d %v", status, answer)
				}
				again := h.refresh(offline.Refresh)
				answer, _ := h.introspect(offline.Refresh)
				if e.login {
					if again.status != 200 || answer["active"] != true || answer["token_type"] != "refresh_token" {
						t.Errorf("offline_access: %d %s, %v", again.status, again.body, answer)
					}
					return
				}
				refused("the refresh token", again.status, again.Error)
				if answer["active"] == true {
					t.Errorf("introspection of the refresh token: %v", answer)
				}
				claims, status = h.userInfo(offline.Access)
				refused("its access token", status, fmt.Sprint(claims["error"]))
			})
		})
	}
}

// TestEnd_AStepUpEndsNothing: the session that it makes is of the same login, and logs out with it.
func TestEnd_AStepUpEndsNothing(t *testing.T) {
	h := newSigningIn(t)
	otto := h.otto()
	got := h.exchange(otto.code())
	otto.send("POST", prefix+"/reauth", object("password", userPass)).want(http.StatusOK)
	if _, status := h.userInfo(got.Access); status != 200 {
		t.Fatalf("after a step-up: %d", status)
	}
	otto.send("POST", prefix+"/logout", "").want(http.StatusOK)
	if _, status := h.userInfo(got.Access); status != 401 {
		t.Errorf("after the logout: %d", status)
	}
}

// TestEnd_LogoutFailsWhereItCannotEndLogins: it does not say that what is still open has ended.
func TestEnd_LogoutFailsWhereItCannotEndLogins(t *testing.T) {
	h := newSigningIn(t)
	otto := h.otto()
	got := h.exchange(otto.code())
	h.brokenDelete.Store(true) // Redis
	otto.send("POST", prefix+"/logout", "").want(http.StatusInternalServerError)
	h.brokenDelete.Store(false)
	if _, status := h.userInfo(got.Access); status != 401 {
		t.Errorf("the application is open: %d", status)
	}
	otto.get(prefix + "/me").want(http.StatusOK)
}

func TestRevoke_EndsWhatATokenIsGoodFor(t *testing.T) {
	inEach(t, func(t *testing.T, h *signingIn) {
		otto := h.otto()
		h.client("app", func(c *oidc.Client) { c.Public = true })
		other := h.client("two", func(*oidc.Client) {})
		got := h.exchange(otto.code("scope", "openid offline_access"))
		second := h.refresh(got.Refresh)
		of := []string{"client_id", "two", "client_secret", other}
		for what, reply := range map[string]reply{
			"another client's":          h.revoke(got.Refresh, of...),
			"another client's access":   h.revoke(got.Access, of...),
			"by a public client":        h.revoke(got.Access, "client_id", "app", "client_secret", "-"),
			"unknown":                   h.revoke("pfa_" + strings.Repeat("x", 43)),
			"cut":                       h.revoke(got.Access[:len(got.Access)-1]),
			"cut refresh token":         h.revoke(got.Refresh[:len(got.Refresh)-1]),
			"an ID token":               h.revoke(got.ID),
			"of a type that is unknown": h.revoke("x", "token_type_hint", "y"),
		} {
			if reply.status != http.StatusOK || len(reply.body) != 0 {
				t.Errorf("%s: %d %s", what, reply.status, reply.body)
			}
		}
		for _, token := range []string{got.Access, second.Access} {
			if _, status := h.userInfo(token); status != 200 {
				t.Fatalf("another's request ended it: %d", status)
			}
		}
		if reply := h.revoke(got.Access, "client_secret", "wrong"); reply.status != http.StatusUnauthorized {
			t.Errorf("a wrong secret: %d", reply.status)
		}
		if reply := h.revoke(""); reply.status != http.StatusBadRequest {
			t.Errorf("no token: %d", reply.status)
		}
		h.revoke(got.Access).want(http.StatusOK)
		if _, status := h.userInfo(got.Access); status != 401 {
			t.Errorf("a revoked access token: %d", status)
		}
		if _, status := h.userInfo(second.Access); status != 200 {
			t.Errorf("the other of the grant: %d", status)
		}
		h.revoke(got.Refresh).want(http.StatusOK)
		if _, status := h.userInfo(second.Access); status != 401 {
			t.Errorf("of a revoked grant: %d", status)
		}
		h.refresh(got.Refresh).is(t, "a revoked refresh token", 400, "invalid_grant")
	})
}

// TestRevoke_StoreThatIsAwayIsNoYes: fosite said 200 (CVE-2020-15223).
func TestRevoke_StoreThatIsAwayIsNoYes(t *testing.T) {
	h := newSigningIn(t)
	got := h.exchange(h.otto().code("scope", "openid offline_access"))
	for what, fail := range map[string]func(){
		"grants": func() { h.brokenGrants.Store(1) },
		"tokens": func() { h.brokenShort.Store(1) },
	} {
		token := got.Refresh
		if what == "tokens" {
			token = got.Access
		}
		fail()
		if reply := h.revoke(token); reply.status != http.StatusServiceUnavailable || reply.header.Get("Retry-After") == "" {
			t.Errorf("revoke without %s: %d", what, reply.status)
		}
		fail()
		if answer, status := h.introspect(token); status != http.StatusServiceUnavailable {
			t.Errorf("introspect without %s: %d %v", what, status, answer)
		}
		h.brokenGrants.Store(0)
		h.brokenShort.Store(0)
	}
}

func TestIntrospect_TellsAClientOfItsOwnTokensAlone(t *testing.T) {
	h := newSigningIn(t)
	otto := h.otto()
	h.client("app", func(c *oidc.Client) { c.Public = true })
	other := h.client("two", func(*oidc.Client) {})
	got := h.exchange(otto.code("scope", "openid email offline_access"))
	_, claims := payload(t, got.ID)
	answer, _ := h.introspect(got.Access)
	now := float64(h.clock.Now().Unix())
	for name, want := range map[string]any{
		"active": true, "iss": issuer, "aud": "grafana", "client_id": "grafana", "sub": claims["sub"], "sid": claims["sid"], "username": "otto", "scope": "openid email offline_access",
		"iat": now, "exp": now + 3600, "token_type": "Bearer",
	} {
		if answer[name] != want {
			t.Errorf("%s is %v, want %v", name, answer[name], want)
		}
	}
	for what, changes := range map[string][]string{
		"another client":   {"client_id", "two", "client_secret", other},
		"an ID token":      {"token", got.ID},
		"a cut token":      {"token", got.Access[:20]},
		"an unknown token": {"token", "x"},
	} {
		if answer, status := h.introspect(got.Access, changes...); status != 200 || fmt.Sprint(answer) != "map[active:false]" {
			t.Errorf("%s: %d %v", what, status, answer)
		}
	}
	if answer, status := h.introspect(got.Access, "client_id", "app", "client_secret", "-"); status != http.StatusUnauthorized {
		t.Errorf("a public client: %d %v", status, answer)
	}
}

// logoutRequest reads a request for a logout.
func (h *signingIn) logoutRequest(parameters ...string) oidc.LogoutRequest {
	h.t.Helper()
	values := url.Values{}
	for i := 0; i < len(parameters); i += 2 {
		values.Add(parameters[i], parameters[i+1])
	}
	return must(h.oidc.EndSession(h.t.Context(), values))(h.t)
}

const after = "https://grafana.example.org/login?a=b"

// TestEndSession_LeadsOnlyWhereAnAdminEntered and with a true hint of that client alone.
func TestEndSession_LeadsOnlyWhereAnAdminEntered(t *testing.T) {
	h := newSigningIn(t)
	if err := h.oidc.Change(h.t.Context(), session.Session{}, "grafana", func(c *oidc.Client) error {
		c.AfterLogout = []string{after}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	h.client("two", func(c *oidc.Client) { c.AfterLogout = []string{"https://two.example.org/"} })
	otto := h.otto()
	hint := h.exchange(otto.code()).ID
	head, claims := payload(t, hint)
	if f := h.logoutRequest("id_token_hint", hint, "post_logout_redirect_uri", after, "state", "s t&x", "client_id", "grafana"); f.To != after+"&state=s+t%26x" || f.Grant != claims["sid"] {
		t.Errorf("got %+v", f)
	}
	h.clock.Advance(24 * time.Hour) // the hint has expired
	if f := h.logoutRequest("id_token_hint", hint, "post_logout_redirect_uri", after); f.To != after {
		t.Errorf("an expired hint: %+v", f)
	}
	parts := strings.Split(hint, ".")
	logout := must(h.oidc.Sign(t.Context(), oidc.RS256, oidc.TypeLogout, claims))(t)
	foreign := must(h.oidc.Sign(t.Context(), oidc.RS256, oidc.TypeID, map[string]any{"iss": "https://evil.example.org", "aud": "grafana", "sid": claims["sid"]}))(t)
	none := must(unsigned(head, claims))(t)
	for what, parameters := range map[string][]string{
		"no hint":                    {"post_logout_redirect_uri", after, "client_id", "grafana"},
		"an empty hint":              {"id_token_hint", "", "post_logout_redirect_uri", after, "client_id", "grafana"},
		"a hint without a signature": {"id_token_hint", parts[0] + "." + parts[1] + ".", "post_logout_redirect_uri", after},
		"alg none":                   {"id_token_hint", none, "post_logout_redirect_uri", after},
		"another signature":          {"id_token_hint", parts[0] + "." + parts[1] + "." + strings.Repeat("A", len(parts[2])), "post_logout_redirect_uri", after},
		"a logout token":             {"id_token_hint", logout, "post_logout_redirect_uri", after},
		"another issuer":             {"id_token_hint", foreign, "post_logout_redirect_uri", after},
		"another client":             {"id_token_hint", hint, "client_id", "two", "post_logout_redirect_uri", "https://two.example.org/"},
		"two hints":                  {"id_token_hint", hint, "id_token_hint", hint, "post_logout_redirect_uri", after},
		"two addresses":              {"id_token_hint", hint, "post_logout_redirect_uri", after, "post_logout_redirect_uri", "https://evil.example.org"},
	} {
		if f := h.logoutRequest(parameters...); f.To != "" || f.Known() {
			t.Errorf("%s: %+v", what, f)
		}
	}
	for _, to := range []string{
		"https://two.example.org/", "https://evil.example.org", "javascript:alert(1)", "data:text/html,x", after + "/", after + "#x", strings.ToUpper(after), "//grafana.example.org/login?a=b",
		"https://grafana.example.org@evil.example.org/", "https://grafana.example.org/login", " " + after, callback,
	} {
		if f := h.logoutRequest("id_token_hint", hint, "post_logout_redirect_uri", to); f.To != "" || !f.Known() {
			t.Errorf("%s: %+v", to, f)
		}
	}
}

// TestEndSession_KeysThatWereRevokedVerifyNoHint, and retired ones do.
func TestEndSession_KeysThatWereRevokedVerifyNoHint(t *testing.T) {
	h := newSigningIn(t)
	hint := h.exchange(h.otto().code()).ID
	head, _ := payload(t, hint)
	if err := h.oidc.RevokeKey(t.Context(), fmt.Sprint(head["kid"])); err != nil {
		t.Fatal(err)
	}
	if f := h.logoutRequest("id_token_hint", hint); f.Known() {
		t.Errorf("got %+v", f)
	}
	if _, status := h.userInfo(h.exchange(h.otto().code()).Access); status != 200 {
		t.Errorf("another key signs: %d", status)
	}
}

// unsigned returns a token that says alg none.
func unsigned(head, claims map[string]any) (string, error) {
	head = maps.Clone(head)
	head["alg"] = "none"
	text := ""
	for _, part := range []map[string]any{head, claims} {
		raw, err := json.Marshal(part)
		if err != nil {
			return "", err
		}
		text += base64.RawURLEncoding.EncodeToString(raw) + "."
	}
	return text, nil
}

// TestEnd_ComesBeforeTheCodeOfASessionThatWasLetIn: what ends a user's sessions while one of them asks for a code, after
// its guard has let it in, leaves it none, in a browser and for a device.
func TestEnd_ComesBeforeTheCodeOfASessionThatWasLetIn(t *testing.T) {
	h := newSigningIn(t, withPages)
	h.otto()
	waiting := must(h.oidc.WaitingDevice(t.Context(), h.device().User))(t)
	asking := must(h.stores.List(t.Context(), 2))(t)[0].Session
	holder := must(h.accounts.Holder(t.Context(), asking))(t)
	must(h.database.Users.EndSessions(t.Context(), holder.ID, session.Session{}))(t)
	step := must(h.oidc.Authorize(t.Context(), oidc.Attempt{
		Values: asked(), Session: &asking, User: holder, Spend: func(context.Context) error { return nil },
	}))(t)
	if step.Kind != oidc.ToLogin || step.Answer.Values.Has("code") {
		t.Errorf("a browser: %+v", step)
	}
	if kind := must(h.oidc.AllowDevice(t.Context(), waiting, asking, holder))(t); kind != oidc.ToLogin {
		t.Errorf("a device: step %d", kind)
	}
}
