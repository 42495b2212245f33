package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
)

// AUTH-3: authentication, then admin, then CSRF; the body comes last.

const malformed = `{"username":`

var guarded = []struct {
	method, path string
	admin, csrf  bool
}{
	{http.MethodPost, "/logout", false, true},
	{http.MethodGet, "/me", false, false},
	{http.MethodPatch, "/me/password", false, true},
	{http.MethodGet, "/users", true, false},
	{http.MethodPost, "/users", true, true},
	{http.MethodDelete, "/users/2", true, true},
	{http.MethodDelete, "/users/x", true, true},
}

func TestGuards_WithoutASession401(t *testing.T) {
	b := newFixture(t).browser()
	for _, g := range guarded {
		b.send(g.method, prefix+g.path, malformed).want(http.StatusUnauthorized)
		b.send(g.method, prefix+g.path, "a=b", "Content-Type", "application/x-www-form-urlencoded").want(http.StatusUnauthorized)
		b.send(g.method, prefix+g.path, strings.Repeat(" ", 70000)).want(http.StatusUnauthorized)
	}
}

func TestGuards_AMemberGets403OnAdminRoutes(t *testing.T) {
	b := newFixture(t).otto()
	for _, g := range guarded {
		if !g.admin {
			continue
		}
		got := b.send(g.method, prefix+g.path, malformed, "X-CSRF-Token", "").want(http.StatusForbidden)
		if !strings.Contains(string(got.body), "Administrator") || got.header.Get("X-CSRF-Token") != "" {
			t.Errorf("%s: refused for another reason: %s", got.what, got.body)
		}
	}
}

func TestGuards_WithoutACSRFToken403BeforeTheBody(t *testing.T) {
	b := newFixture(t).anna()
	token := b.cookies["csrf-token"]
	for _, g := range guarded {
		for _, wrong := range []string{"", "x", token[:63], token + "0", strings.ToUpper(token), "0" + token[1:], strings.Repeat("0", 64)} {
			if !g.csrf || wrong == token {
				continue
			}
			got := b.send(g.method, prefix+g.path, malformed, "X-CSRF-Token", wrong).want(http.StatusForbidden)
			if !strings.Contains(string(got.body), "CSRF") || got.header.Get("X-CSRF-Token") != token {
				t.Errorf("%s: got %s, %q", got.what, got.body, got.header.Get("X-CSRF-Token"))
			}
		}
	}
	b.get(prefix + "/me").want(http.StatusOK)
}

func TestCSRF_TheCookieAloneIsNoToken(t *testing.T) {
	b := newFixture(t).anna()
	b.send(http.MethodPost, prefix+"/logout?csrf-token="+b.cookies["csrf-token"], object("csrf-token", b.cookies["csrf-token"]), "X-CSRF-Token", "").want(http.StatusForbidden)
}

func TestCSRF_TheTokenOfAnotherSessionIsWrong(t *testing.T) {
	h := newFixture(t)
	a, b := h.anna(), h.anna()
	if a.cookies["csrf-token"] == b.cookies["csrf-token"] {
		t.Fatal("two sessions share a token")
	}
	a.send(http.MethodPost, prefix+"/logout", "", "X-CSRF-Token", b.cookies["csrf-token"]).want(http.StatusForbidden)
	a.cookies["csrf-token"] = b.cookies["csrf-token"] // the attacker sets cookie and header alike
	a.logout().want(http.StatusForbidden)
}

func TestCSRF_ALostTokenIsInTheRefusal(t *testing.T) {
	b := newFixture(t).anna()
	delete(b.cookies, "csrf-token")
	token := b.logout().want(http.StatusForbidden).header.Get("X-CSRF-Token")
	b.send(http.MethodPost, prefix+"/logout", "", "X-CSRF-Token", token).want(http.StatusOK)
}

func TestCSRF_EveryLoginGetsANewToken(t *testing.T) {
	b := newFixture(t).anna()
	old := b.cookies["csrf-token"]
	b.login("anna", adminPass).want(http.StatusOK)
	if b.cookies["csrf-token"] == old {
		t.Error("the token stayed")
	}
}

func TestSession_AChangeOfRoleTakesEffect(t *testing.T) {
	h := newFixture(t)
	b := h.otto()
	b.get(prefix + "/users").want(http.StatusForbidden)
	if err := h.people.SetRole(t.Context(), "otto", "admin"); err != nil {
		t.Fatal(err)
	}
	b.get(prefix + "/users").want(http.StatusOK)
	if me := read[sessionBody](b.get(prefix + "/me").want(http.StatusOK)); me.User.Role != "admin" {
		t.Errorf("got %+v", me.User)
	}
	if err := h.people.SetRole(t.Context(), "otto", "member"); err != nil {
		t.Fatal(err)
	}
	b.get(prefix + "/users").want(http.StatusForbidden)
}

func TestGuards_MethodsAreNotOverridden(t *testing.T) {
	h := newFixture(t)
	b := h.anna()
	b.send(http.MethodGet, prefix+"/users/2?_method=DELETE", "", "X-HTTP-Method-Override", "DELETE", "X-CSRF-Token", b.cookies["csrf-token"]).want(http.StatusMethodNotAllowed)
	b.send(http.MethodPost, prefix+"/users/2", "", "X-HTTP-Method-Override", "DELETE", "X-Http-Method", "DELETE").want(http.StatusMethodNotAllowed)
	h.otto()
}
