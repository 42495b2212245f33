package e2e

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// fakeGrafana is an application that has users sign in at the household, by what the recipe of Grafana has it enter.
type fakeGrafana struct {
	mu       sync.Mutex
	settings map[string]string
}

var setting = regexp.MustCompile(`(?m)^(\w+) = (.*)$`)

func (g *fakeGrafana) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	back := "http://" + r.Host + "/login/generic_oauth"
	switch r.URL.Path {
	case "/configure":
		body, _ := io.ReadAll(r.Body)
		for _, s := range setting.FindAllStringSubmatch(string(body), -1) {
			g.settings[s[1]] = s[2]
		}
	case "/":
		if r.URL.Query().Has("slash") {
			back += "/"
		}
		http.Redirect(w, r, g.settings["auth_url"]+"?"+url.Values{
			"client_id": {g.settings["client_id"]}, "redirect_uri": {back}, "response_type": {"code"}, "scope": {g.settings["scopes"]}, "state": {"s"},
		}.Encode(), http.StatusSeeOther)
	default:
		if strings.HasSuffix(r.URL.Path, "/") {
			back += "/"
		}
		said := r.URL.Query().Get("error")
		if said == "" {
			said = g.username(r, back)
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(w, "<!doctype html><html lang=de><link rel=icon href=data:,><title>Grafana</title><h1>Grafana: %s</h1>", html.EscapeString(said))
	}
}

// username returns who has signed in, or what went wrong.
func (g *fakeGrafana) username(r *http.Request, back string) string {
	tokens, err := http.PostForm(g.settings["token_url"], url.Values{
		"grant_type": {"authorization_code"}, "code": {r.URL.Query().Get("code")}, "redirect_uri": {back},
		"client_id": {g.settings["client_id"]}, "client_secret": {g.settings["client_secret"]},
	})
	if err != nil {
		return err.Error()
	}
	defer func() { _ = tokens.Body.Close() }()
	var got struct {
		Access string `json:"access_token"`
		Error  string `json:"error_description"`
	}
	if err := json.NewDecoder(tokens.Body).Decode(&got); err != nil || got.Access == "" {
		return fmt.Sprint(got.Error, err)
	}
	req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, g.settings["api_url"], nil)
	if err != nil {
		return err.Error()
	}
	req.Header.Set("Authorization", "Bearer "+got.Access)
	about, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = about.Body.Close() }()
	var claims map[string]any
	if err := json.NewDecoder(about.Body).Decode(&claims); err != nil {
		return err.Error()
	}
	return fmt.Sprint(claims[g.settings["login_attribute_path"]])
}

// TestSignInPages_FromTheRecipeToTheDisconnection is the way of an admin and a member through the pages of signing in.
func TestSignInPages_FromTheRecipeToTheDisconnection(t *testing.T) {
	h := newHousehold(t, "localhost", nil)
	inAllVariants(t, func(t *testing.T, v variant) {
		grafana := httptest.NewServer(&fakeGrafana{settings: map[string]string{}})
		t.Cleanup(grafana.Close)
		slug := "grafana-" + v.name
		at := strings.Replace(grafana.URL, "127.0.0.1", slug+".test", 1)
		h.member(t, "lotte-"+v.name)
		h.journey(t, "signin-pages.mjs", append(append(h.asAdmin(t), "MEMBER=lotte-"+v.name, "MEMBER_PASSWORD=a password of eight",
			"NAME=Grafana "+v.name, "SLUG="+slug, "GRAFANA="+at, "CONFIGURE="+grafana.URL), v.env...)...)
	})
}
