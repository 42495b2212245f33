package e2e

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pforte/pforte/deploy/internal/secrets"
)

// backupCommand runs the program backup over the state of a stack.
func (w *world) backupCommand(t *testing.T, stdin []byte, args ...string) (stdout []byte, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(w.Bin, "backup"), args...)
	cmd.Env = []string{
		"USERS_DATABASE_URL=sqlite:" + w.Path("auth.db"), "LEDGER_DATABASE_URL=sqlite:" + w.Path("verifier.db"),
		"RECEIPT_SIGNING_KEY_FILE=" + w.Path("receipt-key.pem"), "RECEIPT_RETIRED_KEYS_FILE=" + w.Path("retired-keys.json"),
	}
	var out, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &out, &stderr
	if err = cmd.Run(); err != nil {
		err = errors.New(stderr.String())
	}
	return out.Bytes(), err
}

// lose stops the services and Redis, and deletes everything that they kept.
func (w *world) lose(t *testing.T) {
	t.Helper()
	for _, name := range []string{"proxy", "verifier", "auth", "redis"} {
		w.Programs.Kill(name)
	}
	for _, pattern := range []string{"*.db*", "*.pem", "*.json", "session-secret*", "redis/*"} {
		files, err := filepath.Glob(w.Path(pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if err := os.RemoveAll(file); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// resume starts what lose stopped, with what it then lacks.
func (w *world) resume(t *testing.T) {
	t.Helper()
	if err := w.Prepare(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.StartRedis(t.Context(), w.Programs); err != nil {
		t.Fatal(err)
	}
	w.restart(t, w.Auth(), w.Verifier(), w.Proxy())
}

// TestRestore_BringsBackAStackThatLostEverything loses users, ledger, keys, secrets and
// sessions, and goes on from a backup that was made while it ran.
func TestRestore_BringsBackAStackThatLostEverything(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	emil, user := w.member(t, "emil")
	bought := w.buy(t)
	paid := w.lastPaid(t)
	archive, err := w.backupCommand(t, nil, "save")
	if err != nil {
		t.Fatal(err)
	}
	later, laterPaid := w.buy(t), w.lastPaid(t)
	w.admin(t).create("late", "a password of eight")
	before := w.income(t)

	w.lose(t)
	if _, err := w.backupCommand(t, archive[:len(archive)/2], "restore"); err == nil {
		t.Fatal("half a backup was restored")
	}
	if _, err := w.backupCommand(t, archive, "restore"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.backupCommand(t, archive, "restore"); err == nil || !strings.Contains(err.Error(), "there already") {
		t.Errorf("a second time: %v", err)
	}
	w.resume(t)

	// Sessions ended, passwords hold, and ids go on.
	emil.me(401)
	if again := newBrowser(t, w.PublicURL).login("emil", "a password of eight"); again != user {
		t.Errorf("emil is %+v and was %+v", again, user)
	}
	newBrowser(t, w.PublicURL).request("POST", "/api/v1/auth/login", credentials("late", "a password of eight")).want(t, 401, nil)

	// What was sold is there, and holds: also what was sold after the backup,
	// because it was signed by the same key.
	if got := w.resend(t, paid); got.StatusCode != http.StatusOK || !bytes.Equal(bytes.TrimSpace(got.body), bytes.TrimSpace(bought.Answer)) {
		t.Errorf("the paid answer is %d %s", got.StatusCode, got.body)
	}
	w.checkReceipt(t, bought.Answer)
	w.checkReceipt(t, later.Answer)
	// The chain shows the money, which is in no record any more: the answer is served once more for it.
	if got := w.resend(t, laterPaid); got.StatusCode != http.StatusOK || !bytes.Equal(bytes.TrimSpace(got.body), bytes.TrimSpace(later.Answer)) {
		t.Errorf("the answer that was paid after the backup is %d %s", got.StatusCode, got.body)
	}
	if moved := w.income(t) - before; moved != 0 {
		t.Errorf("%d moved again", moved)
	}
	w.checkReceipt(t, w.buy(t).Answer)
}

// TestRotate_SessionSecretEndsNoSession follows the rotation of the page keys.md.
func TestRotate_SessionSecretEndsNoSession(t *testing.T) {
	w := newWorld(t, options{})
	b, _ := w.member(t, "frida")
	rotate := func() {
		t.Helper()
		if err := secrets.RotateSession(w.State); err != nil {
			t.Fatal(err)
		}
		w.Programs.Kill("auth")
		w.restart(t, w.Auth())
	}
	stolen := b.cookie("svc.sid")
	rotate()
	b.me(200) // and has a cookie that the new secret signed
	if b.cookie("svc.sid") == stolen {
		t.Error("the cookie was not signed anew")
	}
	rotate()
	b.me(200)
	old := newBrowser(t, w.PublicURL)
	old.request("GET", "/api/v1/auth/me", "", "Cookie", "svc.sid="+stolen).want(t, 401, nil)
}

// TestRotate_ReceiptKeyIsAnnouncedFirst follows the other one.
func TestRotate_ReceiptKeyIsAnnouncedFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	old := w.buy(t)
	restart := func(change func(string) error) {
		t.Helper()
		if err := change(w.State); err != nil {
			t.Fatal(err)
		}
		w.Programs.Kill("verifier")
		w.restart(t, w.Verifier())
	}
	restart(secrets.AnnounceReceiptKey)
	kept := filepath.Join(t.TempDir(), "kept.json") // by a buyer who does not read it again
	document := newBrowser(t, w.PublicURL).request("GET", "/.well-known/receipt-signing-key.json", "").want(t, 200, nil)
	if err := os.WriteFile(kept, document.body, 0o600); err != nil {
		t.Fatal(err)
	}
	restart(secrets.RotateReceiptKey)
	fresh := w.buy(t, "--tx", old.Transaction, "--min-confirmations", "1") // another question, which is signed anew
	for _, answer := range [][]byte{old.Answer, fresh.Answer} {
		w.checkReceipt(t, answer)
		file := filepath.Join(t.TempDir(), "answer.json")
		if err := os.WriteFile(file, answer, 0o600); err != nil {
			t.Fatal(err)
		}
		if code, out := command(t, nil, filepath.Join(w.Bin, "receipt"), "verify", file, "--key", kept); code != 0 {
			t.Errorf("with the key document of before: %d %s", code, out)
		}
	}
	again := w.buy(t, "--tx", old.Transaction, "--min-confirmations", "1")
	if !bytes.Equal(again.Answer, fresh.Answer) {
		t.Error("the same request, and another answer")
	}
}
