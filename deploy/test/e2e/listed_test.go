package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/internal/stack"
	"github.com/pforte/pforte/deploy/test/internal/fixture"
)

// route sets where an application is. auth allows an address of this machine as soon as the proxy
// has told it that the operator names it.
func (w *world) route(t *testing.T, args ...string) {
	t.Helper()
	program := w.Auth()
	eventually(t, "auth takes the route", func(ctx context.Context) error {
		cmd := exec.CommandContext(ctx, program.Path, append([]string{"app", "route"}, args...)...)
		cmd.Env = program.Env
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

// TestRoute_ByHTTPSIsPinnedAtTheFirstProbe has an application with a certificate that no authority
// knows: the proxy tells auth its key, gets it back with the route, and is at the application then.
func TestRoute_ByHTTPSIsPinnedAtTheFirstProbe(t *testing.T) {
	nas := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "the nas, for "+r.Header.Get("Remote-User"))
	}))
	t.Cleanup(nas.Close)
	at := strings.TrimPrefix(nas.URL, "https://")
	h := household{}
	o := h.options("localhost", nil)
	change := o.change
	o.change = func(l *layout.Layout) {
		change(l)
		l.Extra["pforte-proxy"]["APPS"], l.Extra["pforte-proxy"]["APPS_TO"] = "lan", at
	}
	h.world = newWorld(t, o)
	h.authCommand(t, "app", "add", "nas", "/nas/")
	h.route(t, "nas", nas.URL, "--strip")
	const password = "a password of eight"
	h.admin(t).create("frida", password)
	b := newBrowser(t, h.origin)
	b.login("frida", password)
	eventually(t, "the application is reached", func(context.Context) error {
		if got := b.request("GET", "/nas/", ""); got.StatusCode != 200 || string(got.body) != "the nas, for frida" {
			return fmt.Errorf("%d %s", got.StatusCode, got.body)
		}
		return nil
	})
	if list := h.authCommand(t, "app", "list"); !strings.Contains(list, nas.URL) {
		t.Errorf("the list has no %s:\n%s", nas.URL, list)
	}
	h.authCommand(t, "app", "route", "nas", "--remove")
	eventually(t, "the application is not there", func(context.Context) error {
		if got := b.request("GET", "/nas/", ""); got.StatusCode != 404 {
			return fmt.Errorf("%d %s", got.StatusCode, got.body)
		}
		return nil
	})
}

// withTLS has the proxy speak https at home.test, with certificates of its own authority, and lead to applications at
// addresses of this machine. Its Caddyfile is the built-in one, but for the port of http, which is 80.
func (h *household) withTLS(t *testing.T, o options, at ...string) options {
	t.Helper()
	builtIn, err := os.ReadFile(top + "/proxy/Caddyfile")
	if err != nil {
		t.Fatal(err)
	}
	_, http := split(freeAddr(t))
	file := filepath.Join(t.TempDir(), "Caddyfile")
	content := bytes.Replace(builtIn, []byte("admin off"), []byte("admin off\n\thttp_port "+http), 1)
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	change := o.change
	o.change = func(l *layout.Layout) {
		change(l)
		_, port := split(l.Addresses.Proxy)
		h.origin = "https://home.test:" + port
		l.PublicURL, l.Extra["auth"]["PUBLIC_URL"] = h.origin, h.origin
		maps.Copy(l.Extra["pforte-proxy"], map[string]string{
			"TLS": "internal", "SITE_ADDRESS": "home.test:" + port, "APPS": "lan", "APPS_TO": strings.Join(at, " "),
			"ROUTES": "", "GUARD_RECHECK": "5s",
		})
	}
	o.only = func(l layout.Layout) []stack.Program {
		proxy := l.Proxy()
		proxy.Args = []string{"run", "--config", file, "--adapter", "caddyfile"}
		return []stack.Program{l.Auth(), proxy}
	}
	return o
}

// radicale starts the calendar server with the settings of the page about applications. It returns its address.
func radicale(t *testing.T) string {
	t.Helper()
	needs(t, "radicale")
	at, folder := freeAddr(t), t.TempDir()
	change := strings.NewReplacer("127.0.0.1:5232", at, "/var/lib/radicale", folder)
	settings := readRecipe(t, "Radicale: calendars and contacts", change).files[0]
	file := filepath.Join(folder, "config")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	programs, err := stack.New(folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { programs.Stop(context.Background(), 5*time.Second) })
	path, err := exec.LookPath("radicale")
	if err != nil {
		t.Fatal(err)
	}
	server := stack.Program{
		Name: "radicale", Path: path, Args: []string{"--config", file}, Env: []string{"PATH=" + os.Getenv("PATH")},
		Ready: stack.Listening(at),
	}
	if err := programs.Start(t.Context(), fixture.ReadyWithin, server); err != nil {
		t.Fatal(stack.Explain(err))
	}
	return at
}

// named is an address of an application, which says its name at /at, and again and again at /live.
func named(t *testing.T, name, application string) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/", httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: application}))
	mux.HandleFunc("/at", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, name) })
	mux.HandleFunc("/live", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for r.Context().Err() == nil {
			_, _ = fmt.Fprintln(w, name)
			_ = http.NewResponseController(w).Flush()
			time.Sleep(100 * time.Millisecond)
		}
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// TestRoute_OfRadicaleComesMovesAndGoesWhileAStreamRuns has Radicale at two addresses of this machine.
func TestRoute_OfRadicaleComesMovesAndGoesWhileAStreamRuns(t *testing.T) {
	node(t)
	chromium(t)
	calendars := radicale(t)
	first, second := named(t, "first", calendars), named(t, "second", calendars)
	var h household
	h.world = newWorld(t, h.withTLS(t, h.options("home.test", nil), first, second))
	for _, v := range []variant{
		{"phone-de", []string{"VIEW=phone", "LANGUAGE=de"}},
		{"plain-de", []string{"VIEW=phone", "LANGUAGE=de", "SCRIPTS=no"}},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			h.journey(t, "radicale.mjs", append(append(
				h.asAdmin(t), "MEMBER=paul-"+v.name, "MEMBER_PASSWORD=a password of eight", "NAME=Kalender "+v.name,
				"SLUG=kalender-"+v.name, "FIRST=http://"+first, "SECOND=http://"+second,
				"ROOT="+h.Path("proxy/caddy/pki/authorities/local/root.crt")), v.env...)...)
		})
	}
}

// through is a browser's transport that reaches every host at the proxy at an address.
func through(t *testing.T, at string) http.RoundTripper {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, at)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// TestRoute_BothProxiesFollowAndOneStartsWhileAuthIsAway has proxies with an address and a folder each, as on two
// machines. While auth is away, the one that starts has the route of its last list, which lets nobody in, and what
// needs no login passes.
func TestRoute_BothProxiesFollowAndOneStartsWhileAuthIsAway(t *testing.T) {
	first, second := named(t, "first", "127.0.0.1:1"), named(t, "second", "127.0.0.1:1")
	proxies, transports := map[string]stack.Program{}, map[string]http.RoundTripper{}
	folder := t.TempDir()
	var h household
	o := h.options("home.test", nil)
	o.only = func(l layout.Layout) []stack.Program {
		auth := l.Auth()
		for _, name := range []string{"proxy", "proxy-2"} {
			l.Addresses.Proxy, l.ProxyAdmin, l.State = freeAddr(t), freeAddr(t), filepath.Join(folder, name)
			_, port := split(l.Addresses.Proxy)
			l.Extra = map[string]map[string]string{"pforte-proxy": {
				"SITE_ADDRESS": "http://home.test:" + port, "APPS": "lan", "APPS_TO": first + " " + second,
				"ROUTES": "handle /open {\n respond open \n}",
			}}
			program := l.Proxy()
			program.Name = name
			proxies[name], transports[name] = program, through(t, l.Addresses.Proxy)
		}
		return []stack.Program{auth, proxies["proxy"], proxies["proxy-2"]}
	}
	h.world = newWorld(t, o)
	notes := strings.Replace(h.origin, "home.test", "notes.home.test", 1)
	b := newBrowser(t, h.origin)
	open := func(name, address string, navigates bool) answer {
		b.Transport = transports[name]
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		if navigates {
			req.Header = http.Header{"Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"document"}, "Accept-Language": {"de"}}
		}
		return b.send(req)
	}
	// answers waits until the application's host answers so at each proxy, for at most some time.
	answers := func(want string, within time.Duration) {
		t.Helper()
		for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
			got := map[string]string{}
			for name := range proxies {
				a := open(name, notes+"/at", true)
				if text := fmt.Sprint(a.StatusCode, " ", string(a.body)); !strings.HasPrefix(text, want) {
					got[name] = fmt.Sprintf("%.200s", text)
				}
			}
			if len(got) == 0 {
				return
			}
			if time.Since(begun) > within {
				t.Fatalf("after %v there is %v, want %s", within, got, want)
			}
		}
	}
	const follow = 2 * time.Second
	password, err := h.AdminPassword()
	if err != nil {
		t.Fatal(err)
	}
	b.Transport = transports["proxy"]
	b.login(layout.AdminName, password)

	answers("404 ", 0)
	h.authCommand(t, "app", "add", "notes", notes)
	h.route(t, "notes", first)
	answers("200 first", follow)
	h.route(t, "notes", second)
	answers("200 second", follow)

	kept := filepath.Join(folder, "proxy-2", "proxy", "caddy", "apps.json")
	eventually(t, "the last list is kept", func(context.Context) error {
		if list, err := os.ReadFile(kept); err != nil || !bytes.Contains(list, []byte(second)) {
			return fmt.Errorf("%s: %w", list, err)
		}
		return nil
	})
	h.Programs.Kill("auth")
	h.Programs.Kill("proxy-2")
	h.restart(t, proxies["proxy-2"])
	for name := range proxies {
		page := open(name, notes+"/at", true)
		if page.StatusCode != 502 || page.Header.Get("Refresh") != "5" || !strings.Contains(string(page.body), "Die Anmeldung startet gerade neu.") {
			t.Errorf("%s: the page is %d %v %s", name, page.StatusCode, page.Header, page.body)
		}
		open(name, notes+"/at", false).want(t, 502, nil)
		open(name, strings.Replace(notes, "notes", "strange", 1)+"/at", false).want(t, 404, nil)
		if got := open(name, notes+"/open", false).want(t, 200, nil); string(got.body) != "open" {
			t.Errorf("%s: what needs no login is %s", name, got.body)
		}
	}
	h.restart(t, h.Auth())
	answers("200 second", 10*time.Second)
	h.authCommand(t, "app", "remove", "notes")
	answers("404 ", follow)
}
