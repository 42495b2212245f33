package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestAgent_KilledWhilePayingGetsWhatItPaidFor(t *testing.T) {
	w := sharedWorld(t)
	before, state := w.income(t), t.TempDir()
	ctx, kill := context.WithCancel(t.Context())
	killer := w.killing(t, kill)
	args := []string{"--json", "--url", killer.URL, "--rpc", "http://" + w.Chain, "--state", state}
	cmd := exec.CommandContext(ctx, filepath.Join(w.Bin, "agent"), args...)
	cmd.Env = w.AgentEnv()
	if out, err := cmd.CombinedOutput(); ctx.Err() == nil {
		t.Fatalf("the agent ends before it was killed: %v: %s", err, out)
	}
	if got := w.income(t) - before; got != price {
		t.Fatalf("%d moved before the agent was killed", got)
	}
	// Without a transaction to verify the agent resumes its own purchase.
	code, out := w.agent(t, "--json", "--url", killer.URL, "--state", state)
	var bought purchase
	if err := json.Unmarshal(out, &bought); code != 0 || err != nil || !bought.Verified || !bought.Payment.Resumed {
		t.Errorf("the agent ends with %d: %v: %s", code, err, out)
	}
	if got := w.income(t) - before; got != price {
		t.Errorf("%d moved", got)
	}
	w.checkReceipt(t, bought.Answer)
	limits := filepath.Join(state, "limits") // what was spent stays counted
	if left, err := filepath.Glob(filepath.Join(state, "*")); err != nil || slices.ContainsFunc(left, func(path string) bool { return path != limits }) {
		t.Errorf("the journal still has %s", strings.Join(left, ", "))
	}
}

// killing stands before the proxy, and calls kill when the first answer to a
// payment is on its way back; that answer is lost.
func (w *world) killing(t *testing.T, kill func()) *httptest.Server {
	t.Helper()
	proxy, err := url.Parse(w.PublicURL)
	if err != nil {
		t.Fatal(err)
	}
	killed := false
	killer := httptest.NewServer(readFirst(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(proxy) },
		ModifyResponse: func(resp *http.Response) error {
			if killed || resp.Request.Header.Get("PAYMENT-SIGNATURE") == "" {
				return nil
			}
			killed = true
			kill()
			return errors.New("the agent was killed")
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}))
	t.Cleanup(killer.Close)
	return killer
}
