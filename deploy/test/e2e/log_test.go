package e2e

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/pkg/freeport"
)

// logged gives the verifier a log of receipts with two witnesses, both of which must
// cosign, and returns the file of its policy.
func logged(t *testing.T, bin string, l *layout.Layout) (policy string) {
	t.Helper()
	receipt := filepath.Join(bin, "receipt")
	run := func(args ...string) string {
		t.Helper()
		code, out := command(t, nil, receipt, args...)
		if code != 0 {
			t.Fatalf("receipt %v ends with %d: %s", args, code, out)
		}
		return strings.TrimSpace(string(out))
	}
	dir := t.TempDir()
	site, err := url.Parse(l.PublicURL)
	if err != nil {
		t.Fatal(err)
	}
	addrs, err := freeport.Addrs(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	logKey := filepath.Join(dir, "log.pem")
	run("keygen", "--out", logKey)
	vkey := run("log", "key", logKey, site.Host+"/v1/log/1")
	text := "log " + vkey + "\n"
	for i, addr := range addrs {
		name, key := fmt.Sprintf("witness%d", i), filepath.Join(dir, fmt.Sprintf("witness%d.pem", i))
		run("keygen", "--out", key)
		text += fmt.Sprintf("witness %s %s http://%s\n", name, run("witness", "--key", key, "--name", name), addr)
		w := exec.Command(receipt, "witness", "--key", key, "--name", name, "--log", vkey, "--state", key+".state", "--init", "--listen", addr)
		if err := w.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = w.Process.Kill(); _ = w.Wait() })
	}
	policy = filepath.Join(dir, "policy")
	if err := os.WriteFile(policy, []byte(text+"group both all witness0 witness1\nquorum both\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"RECEIPT_LOG_KEY_FILE": logKey, "LOG_POLICY_FILE": policy, "LOG_MARK_FILE": filepath.Join(dir, "mark")} {
		l.Extra["verifier"][name] = value
	}
	return policy
}

func TestASoldReceiptIsInTheWitnessedLog(t *testing.T) {
	var policy string
	w := newWorld(t, options{change: func(l *layout.Layout) {
		if l.Extra["verifier"] == nil {
			l.Extra["verifier"] = map[string]string{}
		}
		policy = logged(t, os.Getenv("PFORTE_BIN"), l)
	}})
	receipt, dir := filepath.Join(w.Bin, "receipt"), t.TempDir()
	answer, proof := filepath.Join(dir, "answer.json"), filepath.Join(dir, "answer.tlog-proof")
	bought := w.buy(t)
	sold := time.Now()
	if err := os.WriteFile(answer, bought.Answer, 0o600); err != nil {
		t.Fatal(err)
	}
	for {
		code, out := command(t, nil, receipt, "log", "get", answer, w.PublicURL)
		if code == 0 {
			if err := os.WriteFile(proof, out, 0o600); err != nil {
				t.Fatal(err)
			}
			break
		}
		if time.Since(sold) > time.Minute {
			t.Fatalf("after a minute: %d %s", code, out)
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Logf("a proof %s after the sale", time.Since(sold).Round(10*time.Millisecond))
	seen := "that 2 of 2 witnesses saw"
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"verify", answer, "--key", w.PublicURL, "--log", proof, "--log-policy", policy}, 0, seen},
		{[]string{"verify", answer, "--key", w.PublicURL, "--log", w.PublicURL}, 0, seen + " (earliest "},
		{[]string{"log", "check", w.PublicURL, "--log-policy", policy, "--state", filepath.Join(dir, "state")}, 0, "seen by 2 of 2 witnesses"},
		{[]string{"log", "mirror", w.PublicURL, dir, "--log-policy", policy}, 0, "/v1/log/1: "},
	} {
		if code, out := command(t, nil, receipt, c.args...); code != c.code || !strings.Contains(string(out), c.want) {
			t.Errorf("receipt %v ends with %d: %s", c.args, code, out)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "v1", "log", "1", "checkpoint")); err != nil {
		t.Error(err)
	}
}
