package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
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
