package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/pforte/pforte/deploy/internal/layout"
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
