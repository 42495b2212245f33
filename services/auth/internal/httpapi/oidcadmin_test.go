package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/session"
)

// guardedSignIns are the routes of applications that have users log in by OpenID Connect.
var guardedSignIns = []guardedRoute{
	{request{http.MethodGet, "/apps/all/oidc", ""}, true, false, false, false},
	{request{http.MethodPut, "/apps/all/oidc", `{}`}, true, true, true, true},
	{request{http.MethodDelete, "/apps/all/oidc", ""}, true, true, true, false},
	{request{http.MethodPost, "/apps/all/oidc/secrets", ""}, true, true, true, false},
	{request{http.MethodDelete, "/apps/all/oidc/secrets/1", ""}, true, true, true, false},
	{request{http.MethodGet, "/apps/all/oidc/preview?user=otto", ""}, true, false, false, false},
	{request{http.MethodPut, "/oidc/issuer", ""}, true, true, true, false},
	{request{http.MethodGet, "/grants", ""}, false, false, false, false},
	{request{http.MethodGet, "/grants?all=true", ""}, true, false, false, false},
	{request{http.MethodDelete, "/grants/g1", ""}, false, true, false, false},
}

func TestSignIns_RoutesAreGuarded(t *testing.T) {
	checkGuards(t, guardedSignIns, func(h *fixture) {
		h.applications()
		_, secret := oidc.NewSecret()
		h.ok(h.database.Clients.CreateClient(t.Context(), oidc.Client{
			Slug: "all", ID: "all", Alg: oidc.RS256, PKCE: oidc.Auto, Groups: oidc.GroupsAsked, Redirects: []string{callback}, Secrets: []oidc.Secret{secret},
		}, issuer, session.Session{}))
		c := must(h.oidc.Client(t.Context(), "all"))(t)
		p, _, err := h.database.Grants.Person(t.Context(), 1, c.ApplicationID)
		h.ok(err)
		_, err = h.database.Grants.CreateGrant(t.Context(), oidc.Grant{ID: "g1", ApplicationID: c.ApplicationID, UserID: 1, Stamp: p.User.SessionStamp, Factor: "pwd"})
		h.ok(err)
	})
}

func TestSignIns_AreEditedByAdmins(t *testing.T) {
	h := newFixture(t, func(s *settings) { s.publicURL = origin })
	h.ok(h.policy.CreateApplication(t.Context(), session.Session{}, policy.NewApplication{Slug: "grafana", URL: "https://grafana.example.org", Rule: "admin"}))
	anna, otto := h.anna(), h.otto()
	at := prefix + "/apps/grafana/oidc"
	anna.get(at).because(http.StatusNotFound, "not_found")
	anna.send(http.MethodPut, prefix+"/apps/nothing/oidc", "{}").because(http.StatusNotFound, "not_found")
	anna.send(http.MethodPut, at, object("client_id", "grafana")).because(http.StatusBadRequest, "addresses")
	for reason, address := range map[string]string{
		"address": "javascript:alert(1)", "addresses": "",
	} {
		anna.send(http.MethodPut, at, `{"redirects":["`+address+`"]}`).because(http.StatusBadRequest, reason)
	}
	var made struct {
		Data struct{ Slug, Issuer, Secret string }
	}
	anna.send(http.MethodPut, at, `{"redirects":["`+callback+`"],"groups":"always"}`).want(http.StatusCreated).into(&made)
	if made.Data.Issuer != issuer || !strings.HasPrefix(made.Data.Secret, "pfc_") {
		t.Errorf("made is %+v", made)
	}
	var shown struct {
		Data struct {
			ClientID string `json:"client_id"`
			Alg      string
			Groups   string
			Email    bool
			Secrets  []struct {
				ID   int64
				Hint string
			}
		}
	}
	anna.send(http.MethodPut, at, `{"alg":"ES256"}`).want(http.StatusOK).into(&shown)
	if d := shown.Data; d.ClientID != "grafana" || d.Alg != "ES256" || d.Groups != "always" || !d.Email || len(d.Secrets) != 1 || !strings.HasSuffix(made.Data.Secret, d.Secrets[0].Hint) {
		t.Errorf("shown is %+v", d)
	}
	anna.send(http.MethodPost, at+"/secrets", "").want(http.StatusCreated)
	anna.send(http.MethodPost, at+"/secrets", "").because(http.StatusConflict, "too_many")
	anna.send(http.MethodPost, prefix+"/apps/nothing/oidc/secrets", "").because(http.StatusNotFound, "not_found")
	anna.send(http.MethodDelete, at+"/secrets/x", "").because(http.StatusNotFound, "not_found")
	h.ok(h.policy.CreateApplication(t.Context(), session.Session{}, policy.NewApplication{Slug: "notes", URL: "https://notes.example.org"}))
	anna.send(http.MethodPut, prefix+"/apps/notes/oidc", `{"client_id":"grafana","redirects":["`+callback+`"]}`).because(http.StatusConflict, "client_id_taken")
	var preview struct {
		Data struct {
			Claims  map[string]any
			Refused string
		}
	}
	anna.get(at + "/preview?user=otto").want(http.StatusOK).into(&preview)
	if preview.Data.Refused != "app_denied" || preview.Data.Claims["preferred_username"] != "otto" {
		t.Errorf("of otto: %+v", preview)
	}
	anna.get(at + "/preview?user=anna").want(http.StatusOK).into(&preview)
	if preview.Data.Refused != "" || preview.Data.Claims["aud"] != "grafana" {
		t.Errorf("of anna: %+v", preview)
	}
	anna.get(at + "/preview?user=nobody").want(http.StatusNotFound)
	otto.send(http.MethodDelete, prefix+"/grants/x", "").because(http.StatusNotFound, "not_found")
	anna.send(http.MethodDelete, at, "").want(http.StatusOK)
	anna.send(http.MethodDelete, at, "").because(http.StatusNotFound, "not_found")
}

func TestSignIns_AChangedIssuerIsTakenByAnAdmin(t *testing.T) {
	h := newSigningIn(t)
	granted := h.exchange(h.otto().code("scope", offline))
	h.ok(h.database.Clients.SetIssuer(t.Context(), "https://old.example.org/pforte", session.Session{}))
	h.clock.Advance(5e9)
	discovery := func() int { return h.browser().at("GET", "/pforte/.well-known/openid-configuration", "").status }
	if got := discovery(); got != http.StatusNotFound {
		t.Errorf("another issuer is served: %d", got)
	}
	anna := h.anna()
	anna.send(http.MethodPut, prefix+"/apps/grafana/oidc", `{"ask":true}`).want(http.StatusOK)
	anna.send(http.MethodPut, prefix+"/oidc/issuer", "").want(http.StatusOK)
	if got := discovery(); got != http.StatusOK {
		t.Errorf("after it was taken: %d", got)
	}
	h.refresh(granted.Refresh).is(t, "a login by another issuer", http.StatusBadRequest, "invalid_grant")
	if _, status := h.userInfo(granted.Access); status != http.StatusUnauthorized {
		t.Errorf("its access token: %d", status)
	}
}

// Without PUBLIC_URL there is no issuer to take, and the one that applications know stays.
func TestSignIns_NoIssuerIsTakenWithoutAPublicURL(t *testing.T) {
	h := newFixture(t)
	h.ok(h.policy.CreateApplication(t.Context(), session.Session{}, policy.NewApplication{
		Slug: "grafana", URL: "https://grafana.example.org",
	}))
	h.ok(h.database.Clients.CreateClient(t.Context(), oidc.Client{
		Slug: "grafana", ID: "grafana", Alg: oidc.RS256, PKCE: oidc.Auto, Groups: oidc.GroupsAsked,
		Redirects: []string{callback},
	}, issuer, session.Session{}))
	h.anna().send(http.MethodPut, prefix+"/oidc/issuer", "").because(http.StatusConflict, "no_public_url")
	if got := must(h.oidc.WrittenIssuer(t.Context()))(t); got != issuer {
		t.Errorf("the issuer is %q", got)
	}
}

func TestSignIns_FrontendIsToldThatPasswordsLogIn(t *testing.T) {
	got := newFixture(t).browser().get(prefix + "/oidc/config").want(http.StatusOK)
	if string(got.body) != `{"enabled":false,"password_login_enabled":true,"guest_password_login_enabled":false}` {
		t.Errorf("got %s", got.body)
	}
}
