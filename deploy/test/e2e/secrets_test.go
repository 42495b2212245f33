package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pforte/pforte/deploy/internal/layout"
)

func TestSecrets_AreInNoLog(t *testing.T) {
	w := newWorld(t, withLog(t, func(l *layout.Layout) {
		l.Extra["auth"] = map[string]string{"LOG_LEVEL": "debug"}
		l.Extra["verifier"] = map[string]string{"LOG_LEVEL": "debug"}
	}))
	b := w.admin(t)
	b.request("POST", "/api/v1/auth/login", credentials("admin", "a wrong password")).want(t, 401, nil)
	w.buy(t)
	secrets := w.secrets(t, b)
	secrets["a mistyped password"] = "a wrong password"
	logs, err := filepath.Glob(filepath.Join(w.Path("logs"), "*.log"))
	if err != nil || len(logs) < 5 {
		t.Fatalf("logs %v: %v", logs, err)
	}
	for _, log := range logs {
		content := w.log(t, strings.TrimSuffix(filepath.Base(log), ".log"))
		for name, secret := range secrets {
			if strings.Contains(content, secret) {
				t.Errorf("%s holds %s", filepath.Base(log), name)
			}
		}
	}
}

// secrets are what must not be in a log or a trace, by name, after a purchase.
func (w *world) secrets(t *testing.T, b *browser) map[string]string {
	t.Helper()
	password, err := w.AdminPassword()
	if err != nil {
		t.Fatal(err)
	}
	secrets := map[string]string{
		"the admin's password": password, "the session cookie": b.cookie("svc.sid"), "the CSRF token": b.cookie("csrf-token"),
		"the payment": w.lastPaid(t).Header.Get("PAYMENT-SIGNATURE"),
	}
	files := []string{"session-secret", "receipt-key.pem"}
	if w.Layout.Log {
		files = append(files, "log-key.pem", "witness-1-key.pem", "witness-2-key.pem")
	}
	for _, file := range files {
		content, err := os.ReadFile(w.Path(file))
		if err != nil {
			t.Fatal(err)
		}
		secrets[file] = strings.Split(strings.TrimPrefix(string(content), "-----BEGIN PRIVATE KEY-----\n"), "\n")[0]
	}
	for name, secret := range secrets {
		if len(secret) < 16 {
			t.Fatalf("%s is not known here: %q", name, secret)
		}
	}
	return secrets
}
