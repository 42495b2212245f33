package httpapi_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/token"
)

type tokenItem struct {
	Data struct {
		ID         int64
		UserID     int64 `json:"user_id"`
		Username   string
		Name       string
		Prefix     string
		Scopes     []string
		ReadOnly   bool `json:"read_only"`
		Active     bool
		CreatedBy  int64   `json:"created_by"`
		ExpiresAt  *string `json:"expires_at"`
		RevokedAt  *string `json:"revoked_at"`
		LastUsedAt *string `json:"last_used_at"`
	}
	Token string
}

func (b *browser) createToken(pairs ...any) reply {
	b.h.t.Helper()
	return b.send(http.MethodPost, prefix+"/api-tokens", object(pairs...))
}

// tokens returns "id username active" of the app tokens that a browser's user sees.
func (b *browser) tokens(query string) string {
	b.h.t.Helper()
	var list struct {
		Data []struct {
			ID       int64
			Username string
			Active   bool
		}
	}
	b.get(prefix + "/api-tokens" + query).want(http.StatusOK).into(&list)
	return fmt.Sprint(list.Data)
}

func TestAppToken_IsCreatedAndEndedByItsUser(t *testing.T) {
	h := newFixture(t)
	h.applications()
	otto := h.otto()
	until := h.clock.Now().Add(time.Hour)
	var got tokenItem
	otto.createToken("name", " Kalender ", "scopes", []string{"app:all", "app:all"}, "read_only", true, "expires_at", until.Format(time.RFC3339)).want(http.StatusCreated).into(&got)
	d := got.Data
	if !token.Is(got.Token) || d.Prefix != got.Token[:8] || d.UserID != 2 || d.Username != "otto" || d.Name != "Kalender" || fmt.Sprint(d.Scopes) != "[app:all]" ||
		!d.ReadOnly || !d.Active || d.CreatedBy != 2 || d.ExpiresAt == nil || *d.ExpiresAt != "2026-03-01T13:00:00Z" || d.RevokedAt != nil || d.LastUsedAt != nil {
		t.Errorf("got %+v", got)
	}
	if list := otto.get(prefix + "/api-tokens").want(http.StatusOK); strings.Contains(string(list.body), got.Token[:9]) {
		t.Errorf("the list has the token: %s", list.body)
	}
	if strings.Contains(h.log.String(), got.Token[:9]) {
		t.Error("the log has the token")
	}
	var endless tokenItem
	otto.createToken("name", "x", "scopes", []string{"app:all"}, "expires_at", nil).want(http.StatusCreated).into(&endless)
	if endless.Data.ExpiresAt != nil || endless.Data.ReadOnly {
		t.Errorf("got %+v", endless)
	}
	remove := func(id int64) reply {
		return otto.send(http.MethodPost, fmt.Sprintf("%s/api-tokens/%d/remove", prefix, id), "")
	}
	remove(1).because(http.StatusConflict, "api_token_active")
	h.clock.Advance(time.Hour)
	otto.send(http.MethodDelete, prefix+"/api-tokens/2", "").want(http.StatusOK)
	otto.send(http.MethodDelete, prefix+"/api-tokens/2", "").want(http.StatusOK)
	if got := otto.tokens(""); got != "[{2 otto false} {1 otto false}]" {
		t.Errorf("got %s", got)
	}
	if _, _, err := h.policy.TokenVisitor(t.Context(), endless.Token, ""); err == nil {
		t.Error("a revoked token is valid")
	}
	remove(1).want(http.StatusOK)
	remove(2).want(http.StatusOK)
	remove(2).because(http.StatusNotFound, "not_found")
	if got := otto.tokens(""); got != "[]" {
		t.Errorf("got %s", got)
	}
}

func TestAppToken_IsRefusedWhereItsUserMayNotOpen(t *testing.T) {
	h := newFixture(t)
	h.applications()
	otto := h.otto()
	for what, scopes := range map[string][]string{
		"none": {}, "another form": {"all"}, "all of them": {"app:*"}, "an unknown one": {"app:nobody"}, "an admins' one": {"app:all", "app:admins"},
		"a group's one": {"app:group"}, "one that accepts none": {"app:closed"},
	} {
		if got := otto.createToken("name", "x", "scopes", scopes).because(http.StatusBadRequest, "scope"); got.status != http.StatusBadRequest {
			t.Errorf("for %s: %d", what, got.status)
		}
	}
	otto.createToken("name", "x").because(http.StatusBadRequest, "scope")
	for _, at := range []string{"tomorrow", "", "2026-03-01T12:00:00Z", "0001-01-01T00:00:00Z"} {
		otto.createToken("name", "x", "scopes", []string{"app:all"}, "expires_at", at).because(http.StatusBadRequest, "expires_at")
	}
	otto.createToken("name", " ", "scopes", []string{"app:all"}).because(http.StatusBadRequest, "name")
	for range token.MaxPerUser {
		h.token(policy.NewToken{})
	}
	otto.createToken("name", "x", "scopes", []string{"app:all"}).because(http.StatusConflict, "too_many")
}

func TestAppToken_IsSeenAndEndedByAdmins(t *testing.T) {
	h := newFixture(t)
	h.applications()
	anna, otto := h.anna(), h.otto()
	otto.createToken("name", "x", "scopes", []string{"app:all"}, "subject_user_id", 2).want(http.StatusCreated)
	anna.createToken("name", "x", "scopes", []string{"app:admins"}).want(http.StatusCreated)
	var got tokenItem
	anna.createToken("name", "x", "scopes", []string{"app:all"}, "subject_user_id", 2).want(http.StatusCreated).into(&got)
	if got.Data.UserID != 2 || got.Data.CreatedBy != 1 {
		t.Errorf("got %+v", got)
	}
	anna.createToken("name", "x", "scopes", []string{"app:admins"}, "subject_user_id", 2).because(http.StatusBadRequest, "scope")
	anna.createToken("name", "x", "scopes", []string{"app:all"}, "subject_user_id", 99).because(http.StatusForbidden, "subject")
	for _, id := range []int{1, 99, 0} {
		otto.createToken("name", "x", "scopes", []string{"app:all"}, "subject_user_id", id).because(http.StatusForbidden, "subject")
	}
	if got := otto.tokens(""); got != "[{3 otto true} {1 otto true}]" {
		t.Errorf("otto sees %s", got)
	}
	if got := anna.tokens(""); got != "[{2 anna true}]" {
		t.Errorf("anna sees %s of her own", got)
	}
	if got := anna.tokens("?all=1"); got != "[{3 otto true} {2 anna true} {1 otto true}]" {
		t.Errorf("anna sees %s", got)
	}
	for _, id := range []string{"2", "99", "x"} {
		otto.send(http.MethodDelete, prefix+"/api-tokens/"+id, "").because(http.StatusNotFound, "not_found")
		otto.send(http.MethodPost, prefix+"/api-tokens/"+id+"/remove", "").because(http.StatusNotFound, "not_found")
	}
	h.clock.Advance(10*time.Minute + time.Second) // one's own needs no proof
	anna.send(http.MethodDelete, prefix+"/api-tokens/2", "").want(http.StatusOK)
	for method, path := range map[string]string{http.MethodDelete: "", http.MethodPost: "/remove"} {
		anna.send(method, prefix+"/api-tokens/3"+path, "").because(http.StatusForbidden, "reauth_required")
	}
	anna.reauth(adminPass)
	anna.send(http.MethodDelete, prefix+"/api-tokens/3", "").want(http.StatusOK)
	anna.send(http.MethodPost, prefix+"/api-tokens/3/remove", "").want(http.StatusOK)
	if got := anna.tokens("?all=1"); got != "[{2 anna false} {1 otto true}]" {
		t.Errorf("anna sees %s", got)
	}
}

// TestAppToken_IsNoSession sends a valid one to every route that needs a session.
func TestAppToken_IsNoSession(t *testing.T) {
	h := newFixture(t)
	h.applications()
	_, text := h.token(policy.NewToken{})
	b := h.browser()
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("otto:"+text))
	routes := append(append([]guardedRoute{{request: request{http.MethodGet, "/me", ""}}}, guardedPeople...), guardedPolicy...)
	for _, route := range routes {
		for name, value := range map[string]string{"X-Pforte-Token": text, "Authorization": "Bearer " + text, "authorization": basic} {
			b.send(route.method, prefix+route.path, route.body, name, value).want(http.StatusUnauthorized)
		}
	}
	if regexp.MustCompile(`pft_[A-Za-z0-9_-]{5}`).MatchString(h.log.String()) {
		t.Error("the log has the token")
	}
}
