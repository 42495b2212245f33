package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/internal/stack"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
)

// at returns the address on which an application of a name listens, and the origin by which
// browsers reach it.
func at(t *testing.T, name string) (addr, port, origin string) {
	t.Helper()
	addr = freeAddr(t)
	_, port = split(addr)
	return addr, port, "http://" + name + ".test:" + port
}

// TestSignIn_ActualBudget is about a budget that one person owns: who signs in first.
func TestSignIn_ActualBudget(t *testing.T) {
	t.Parallel()
	program, server := node(t), installed(t, "@actual-app/sync-server/build/app.js")
	onBothDatabases(t, func(t *testing.T, s *signIn) {
		addr, port, origin := at(t, "actual")
		secret := s.client(t, "actual", origin, "--redirect", origin+"/openid/callback")
		s.application(t, "actual", program, append(settingsOf(s.recipe(t, "Actual", "actual", origin, secret)),
			"ACTUAL_DATA_DIR="+t.TempDir(), "ACTUAL_PORT="+port, "ACTUAL_HOSTNAME=127.0.0.1", "NODE_ENV=production"), stack.Healthy("http://"+addr+"/health"), server)
		signIn := func(p *person) (token string, end answer) {
			t.Helper()
			var begun struct{ Data struct{ ReturnURL string } }
			body, err := json.Marshal(map[string]string{"loginMethod": "openid", "returnUrl": origin})
			if err != nil {
				t.Fatal(err)
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, origin+"/account/login", strings.NewReader(string(body)))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			p.send(req).want(t, 200, &begun)
			end = p.open(begun.Data.ReturnURL)
			return end.Request.URL.Query().Get("token"), end
		}
		petra := s.person(t, "petra")
		token, end := signIn(petra)
		if token == "" || !slices.Equal(petra.asked, []string{"/pforte/login"}) {
			t.Fatalf("petra, who was asked %v, ends at %s: %d %s", petra.asked, end.Request.URL, end.StatusCode, end.body)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, origin+"/account/validate", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Actual-Token", token)
		var account struct {
			Data struct{ UserName, DisplayName, Permission, LoginMethod string }
		}
		petra.send(req).want(t, 200, &account)
		if got := account.Data; got.UserName != "petra" || got.DisplayName != "Das ist petra" || got.Permission != "ADMIN" || got.LoginMethod != "openid" {
			t.Errorf("Actual knows %+v", got)
		}
		if token, end := signIn(s.person(t, "otto")); token != "" || end.StatusCode != http.StatusForbidden || end.Request.URL.Host != petra.origin.Host {
			t.Errorf("otto ends at %s: %d", end.Request.URL, end.StatusCode)
		}
		s.leave(t)
		if token, end := signIn(petra); token != "" || end.StatusCode != http.StatusForbidden {
			t.Errorf("petra, out of the group, ends at %s: %d", end.Request.URL, end.StatusCode)
		}
	})
}

// TestSignIn_Miniflux is about a feed reader that makes an account of who signs in.
func TestSignIn_Miniflux(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, s *signIn) {
		path := filepath.Join(s.Bin, "miniflux")
		if _, err := os.Stat(path); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatalf("%v, and CI is set", err)
			}
			t.Skip(err)
		}
		feeds := sqldbtest.Postgres(t)
		if feeds == "" {
			t.Skip("Postgres is not installed")
		}
		addr, _, origin := at(t, "miniflux")
		secret := s.client(t, "miniflux", origin, "--redirect", origin+"/oauth2/oidc/callback")
		s.application(t, "miniflux", path, append([]string{"DATABASE_URL=" + feeds, "RUN_MIGRATIONS=1", "LISTEN_ADDR=" + addr, "BASE_URL=" + origin},
			settingsOf(s.recipe(t, "Miniflux", "miniflux", origin, secret))...), stack.Healthy("http://"+addr+"/healthcheck"))
		petra := s.person(t, "petra")
		if a := petra.open(origin + "/oauth2/oidc/redirect"); a.StatusCode != 200 || a.Request.URL.Host != strings.TrimPrefix(origin, "http://") || !slices.Equal(petra.asked, []string{"/pforte/login"}) {
			t.Fatalf("petra, who was asked %v, ends at %s: %d %s", petra.asked, a.Request.URL, a.StatusCode, a.body)
		}
		if a := petra.shown(origin + "/settings"); a.StatusCode != 200 || !strings.Contains(string(a.body), "Logged in as petra") {
			t.Errorf("Miniflux does not know petra: %s: %d %s", a.Request.URL, a.StatusCode, a.body)
		}
		if a := s.person(t, "otto").open(origin + "/oauth2/oidc/redirect"); a.StatusCode != http.StatusForbidden || a.Request.URL.Host != petra.origin.Host {
			t.Errorf("otto ends at %s: %d", a.Request.URL, a.StatusCode)
		}
	})
}

// TestSignIn_NodeRED is about an editor for home automation whose library sends the secret in the
// body, knows no PKCE, and learns the name from userinfo.
func TestSignIn_NodeRED(t *testing.T) {
	t.Parallel()
	program, red := node(t), installed(t, "node-red/red.js")
	onBothDatabases(t, func(t *testing.T, s *signIn) {
		addr, port, origin := at(t, "nodered")
		secret := s.client(t, "nodered", origin, "--redirect", origin+"/auth/strategy/callback")
		folder := t.TempDir()
		recipe := s.recipe(t, "Node-RED", "nodered", origin, secret)
		if !strings.Contains(recipe, "module.exports") {
			recipe = "module.exports = {\n" + recipe + "\n}\n"
		}
		if err := os.WriteFile(filepath.Join(folder, "settings.js"), []byte(recipe), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Dir(filepath.Dir(red)), filepath.Join(folder, "node_modules")); err != nil {
			t.Fatal(err)
		}
		s.application(t, "node-red", program, nil, stack.Listening(addr), red, "--userDir", folder, "--settings", filepath.Join(folder, "settings.js"), "--port", port)
		petra := s.person(t, "petra")
		end := petra.open(origin + "/auth/strategy")
		_, token, _ := strings.Cut(end.Request.URL.RawQuery, "access_token=") // base64, not escaped
		if token == "" || !slices.Equal(petra.asked, []string{"/pforte/login"}) {
			t.Fatalf("petra, who was asked %v, ends at %s: %d %s", petra.asked, end.Request.URL, end.StatusCode, end.body)
		}
		settings := petra.navigate(origin + "/settings")
		settings.Header.Set("Authorization", "Bearer "+token)
		var known struct{ User struct{ Username string } }
		settings.Header.Set("Accept", "application/json")
		petra.send(settings).want(t, 200, &known)
		if known.User.Username != "petra" {
			t.Errorf("Node-RED knows %+v", known)
		}
		if a := s.person(t, "otto").open(origin + "/auth/strategy"); a.StatusCode != http.StatusForbidden || a.Request.URL.Host != petra.origin.Host {
			t.Errorf("otto ends at %s: %d", a.Request.URL, a.StatusCode)
		}
	})
}

// apache is a server with Debian's module for OpenID Connect in front of an application.
type apache struct{ origin, addr string }

// newApache starts one with the recipe of the page.
func newApache(t *testing.T, s *signIn) apache {
	t.Helper()
	needs(t, "apache2")
	const modules = "/usr/lib/apache2/modules/"
	if _, err := os.Stat(modules + "mod_auth_openidc.so"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%v, and CI is set", err)
		}
		t.Skip(err)
	}
	addr, _, origin := at(t, "apache")
	secret := s.client(t, "apache", origin, "--redirect", origin+"/oidc", "--after-logout", origin+"/bye", "--logout-uri", "http://"+addr+"/oidc?logout=backchannel")
	recipe := s.recipe(t, "Apache", "apache", origin, secret)
	folder := t.TempDir()
	var b strings.Builder
	fmt.Fprintf(&b, "ServerRoot %[1]q\nPidFile %[1]s/pid\nListen %[2]s\nServerName apache.test\nErrorLog %[1]s/error.log\n", folder, addr)
	if os.Geteuid() == 0 {
		b.WriteString("User www-data\nGroup www-data\n")
	}
	for _, name := range []string{"mpm_event", "authn_core", "authz_core", "authz_user", "headers", "proxy", "proxy_http", "auth_openidc"} {
		fmt.Fprintf(&b, "LoadModule %s_module %smod_%s.so\n", name, modules, name)
	}
	fmt.Fprintf(&b, "%s\nProxyPass /oidc !\nProxyPass / http://%s/\n<Location /bye>\nAuthType None\nRequire all granted\n</Location>\n", recipe, claimsEcho(t))
	config := filepath.Join(folder, "httpd.conf")
	if err := os.WriteFile(config, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if content, err := os.ReadFile(filepath.Join(folder, "error.log")); t.Failed() && err == nil {
			t.Logf("Apache said:\n%s", content)
		}
	})
	s.application(t, "apache2", "/usr/sbin/apache2", nil, stack.Listening(addr), "-D", "FOREGROUND", "-f", config)
	return apache{origin: origin, addr: addr}
}

// claimsEcho is an application that answers with the headers of the module.
func claimsEcho(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "user %s, groups %s, at %s", r.Header.Get("OIDC_CLAIM_preferred_username"), r.Header.Get("OIDC_CLAIM_groups"), r.URL.Path)
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// TestSignIn_Apache is about a module that closes its own sessions when the provider tells it: a logout in the
// application, leaving the group, and a deletion.
func TestSignIn_Apache(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, s *signIn) {
		a := newApache(t, s)
		petra := s.person(t, "petra")
		opened := func(p *person) bool {
			got := p.shown(a.origin + "/album")
			return got.StatusCode == 200 && strings.HasPrefix(string(got.body), "user petra, groups ") && strings.Contains(string(got.body), "familie")
		}
		signedIn := func(p *person) {
			t.Helper()
			if got := p.open(a.origin + "/album"); got.StatusCode != 200 || !strings.HasPrefix(string(got.body), "user petra") {
				t.Fatalf("%s ends at %s: %d %s", p.username, got.Request.URL, got.StatusCode, got.body)
			}
			if !opened(p) {
				t.Fatal("the application is not open")
			}
		}
		signedIn(petra)

		t.Run("logout in the application", func(t *testing.T) {
			asked := petra.shown(a.origin + "/oidc?logout=" + url.QueryEscape(a.origin+"/bye"))
			if asked.Request.URL.Path != "/pforte/oidc/end-session" {
				t.Fatalf("leads to %s: %d %s", asked.Request.URL, asked.StatusCode, asked.body)
			}
			end := petra.submit(asked, "")
			if end.Request.URL.String() != a.origin+"/bye" {
				t.Errorf("the logout ends at %s: %d %s", end.Request.URL, end.StatusCode, end.body)
			}
			if got := petra.shown(s.origin + "/pforte/"); got.Request.URL.Path != "/pforte/login" {
				t.Errorf("the household is still open: %s", got.Request.URL)
			}
		})
		t.Run("logout in the household", func(t *testing.T) {
			second := s.person(t, "petra") // another device, which stays signed in
			signedIn(second)
			signedIn(petra)
			petra.request("POST", "/api/v1/auth/logout", "").want(t, 200, nil)
			took := within(t, time.Second, "Apache closes", func() bool { return !petra.session(a) })
			t.Logf("Apache closed %v after the logout", took.Round(time.Millisecond))
			if !second.session(a) {
				t.Error("the logout of one device ended the other")
			}
		})
		t.Run("out of the group", func(t *testing.T) {
			signedIn(petra)
			s.leave(t)
			took := within(t, time.Second, "Apache closes", func() bool { return !petra.session(a) })
			t.Logf("Apache closed %v after the group was left", took.Round(time.Millisecond))
			if got := petra.open(a.origin + "/album"); got.StatusCode != http.StatusForbidden || got.Request.URL.Host != petra.origin.Host {
				t.Errorf("who is out of the group is led to %s: %d", got.Request.URL, got.StatusCode)
			}
			s.join(t)
		})
		t.Run("deleted", func(t *testing.T) {
			signedIn(petra)
			s.remove(t, "petra")
			took := within(t, time.Second, "Apache closes", func() bool { return !petra.session(a) })
			t.Logf("Apache closed %v after the deletion", took.Round(time.Millisecond))
			if got := petra.shown(a.origin + "/album"); got.Request.URL.Path != "/pforte/login" {
				t.Errorf("who is deleted is led to %s: %d", got.Request.URL, got.StatusCode)
			}
		})
	})
}

// session reports whether a browser has a session with the module: the answer is not a redirect.
func (p *person) session(a apache) bool {
	p.t.Helper()
	req := p.navigate(a.origin + "/album")
	for _, c := range p.Jar.Cookies(req.URL) {
		req.AddCookie(c)
	}
	resp, err := p.Transport.RoundTrip(req)
	if err != nil {
		p.t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// TestSignIn_GuardedApplicationAsksOnce is about an application behind the guard that also signs in: a user
// without a session logs in once, and one with a session sees no page.
func TestSignIn_GuardedApplicationAsksOnce(t *testing.T) {
	t.Parallel()
	for _, database := range []string{"SQLite", "Postgres"} {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			rp := newParty(t, "guarded")
			var origin string
			s := newSignIn(t, database, func(l *layout.Layout) {
				l.Extra["pforte-proxy"]["ROUTES"] += fmt.Sprintf("@guarded host guarded.test\nhandle @guarded {\nimport require_app guarded\nreverse_proxy %s\n}\n", rp.server.Listener.Addr())
			})
			origin = strings.Replace(s.origin, "localhost", "guarded.test", 1)
			secret := s.client(t, "guarded", origin, "--redirect", origin+"/cb")
			c := newGoClient(t, s, "guarded", secret, rp)
			c.RedirectURL = origin + "/cb"
			petra := s.person(t, "petra")
			if got := petra.open(origin + "/"); got.StatusCode != 200 || string(got.body) != "here is guarded" {
				t.Fatalf("petra ends at %s: %d %s", got.Request.URL, got.StatusCode, got.body)
			}
			claims, _ := c.signIn(t, petra)
			claims.check(t, "behind the guard")
			if !slices.Equal(petra.asked, []string{"/pforte/login"}) {
				t.Errorf("petra was asked %v", petra.asked)
			}
			s.leave(t)
			if got := petra.shown(origin + "/"); got.StatusCode != http.StatusForbidden {
				t.Errorf("who is out of the group is answered %d at %s", got.StatusCode, got.Request.URL)
			}
		})
	}
}
