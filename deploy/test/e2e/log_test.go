package e2e

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/internal/secrets"
	"github.com/pforte/pforte/deploy/internal/stack"
	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/receiptlog"
)

// logWorld is a stack with a log of receipts that two witnesses must cosign.
type logWorld struct {
	*world
	dir string
	n   int // answers that were written to dir
}

func newLogWorld(t *testing.T) *logWorld {
	t.Helper()
	return &logWorld{world: newWorld(t, withLog(t, func(*layout.Layout) {})), dir: t.TempDir()}
}

// withLog returns the options of a stack with a log.
func withLog(t *testing.T, change func(*layout.Layout)) options {
	return options{
		change: func(l *layout.Layout) {
			l.Log = true
			if err := l.Prepare(); err != nil {
				t.Fatal(err)
			}
			change(l)
		},
		before: func(l layout.Layout) []stack.Program {
			witnesses, err := l.Witnesses()
			if err != nil {
				t.Fatal(err)
			}
			return witnesses
		},
	}
}

// logged is an answer that was bought, in a file.
type logged struct{ answer, proof string }

// sell sells an answer: with arguments to a question of its own.
func (w *logWorld) sell(t *testing.T, args ...string) (logged, purchase) {
	t.Helper()
	bought := w.buy(t, args...)
	w.n++
	l := logged{filepath.Join(w.dir, fmt.Sprintf("%d.json", w.n)), filepath.Join(w.dir, fmt.Sprintf("%d.tlog-proof", w.n))}
	if err := os.WriteFile(l.answer, bought.Answer, 0o600); err != nil {
		t.Fatal(err)
	}
	return l, bought
}

// prove waits for the proof of an answer, and returns after which time it was there.
func (w *logWorld) prove(t *testing.T, l logged) time.Duration {
	t.Helper()
	begin := time.Now()
	for {
		code, out := w.receipt(t, "log", "get", l.answer, w.PublicURL)
		if code == 0 {
			if err := os.WriteFile(l.proof, []byte(out), 0o600); err != nil {
				t.Fatal(err)
			}
			return time.Since(begin)
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("after a minute: %d %s", code, out)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// place returns the index of an answer's entry.
func (w *logWorld) place(t *testing.T, l logged) int64 {
	t.Helper()
	_, out := w.receipt(t, "verify", l.answer, "--key", w.PublicURL, "--log", l.proof, "--log-policy", w.LogPolicy(), "--json")
	var report struct{ Log struct{ Index int64 } }
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return report.Log.Index
}

func (w *logWorld) receipt(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	code, text := command(t, nil, filepath.Join(w.Bin, "receipt"), args...)
	return code, string(text)
}

// verify verifies an answer with the proof that was kept and with the one that the
// verifier serves.
func (w *logWorld) verify(t *testing.T, l logged, code int, want string) {
	t.Helper()
	for _, log := range []string{l.proof, w.PublicURL} {
		got, out := w.receipt(t, "verify", l.answer, "--key", w.PublicURL, "--log", log, "--log-policy", w.LogPolicy())
		if got != code || !strings.Contains(out, want) {
			t.Errorf("receipt verify --log %s ends with %d, want %d with %q:\n%.600s", log, got, code, want, out)
		}
	}
}

// operate runs verifier log.
func (w *logWorld) operate(t *testing.T, code int, want string, args ...string) {
	t.Helper()
	got, out := command(t, w.Verifier().Env, filepath.Join(w.Bin, "verifier"), append([]string{"log"}, args...)...)
	if got != code || !strings.Contains(string(out), want) {
		t.Fatalf("verifier log %v ends with %d, want %d with %q:\n%s", args, got, code, want, out)
	}
}

// startWitness starts a witness again that was killed.
func (w *logWorld) startWitness(t *testing.T, which int) {
	t.Helper()
	witnesses, err := w.Witnesses()
	if err != nil {
		t.Fatal(err)
	}
	w.restart(t, witnesses[which])
}

func (w *logWorld) restartVerifier(t *testing.T) {
	t.Helper()
	w.Programs.Kill("verifier")
	w.restart(t, w.Verifier())
}

// backup runs the program backup on ledger and keys.
func (w *logWorld) backup(t *testing.T, args ...string) {
	t.Helper()
	code, out := command(t, []string{
		"USERS_DATABASE_URL=none", "LEDGER_DATABASE_URL=sqlite:" + w.Path("verifier.db"), "RECEIPT_SIGNING_KEY_FILE=" + w.Path(secrets.ReceiptKey),
		"RECEIPT_RETIRED_KEYS_FILE=" + w.Path(secrets.RetiredKeys), "RECEIPT_LOG_KEY_FILE=" + w.Path(secrets.LogKey),
	}, filepath.Join(w.Bin, "backup"), args...)
	if code != 0 {
		t.Fatalf("backup %v ends with %d: %s", args, code, out)
	}
}

// restore puts a backup in place of ledger and keys. Witnesses and mark stay as they are.
func (w *logWorld) restore(t *testing.T, archive string) {
	t.Helper()
	w.Programs.Kill("verifier")
	for _, pattern := range []string{"verifier.db*", secrets.ReceiptKey, secrets.RetiredKeys, secrets.LogKey} {
		files, err := filepath.Glob(w.Path(pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.backup(t, "restore", archive)
	w.restart(t, w.Verifier())
}

// proofPath returns the path of an answer's proof in the first log.
func proofPath(t *testing.T, answer []byte) string {
	t.Helper()
	entry, err := receiptlog.EntryOfAnswer(answer)
	if err != nil {
		t.Fatal(err)
	}
	leaf := entry.Leaf()
	return "/v1/log/1/proof/" + hex.EncodeToString(leaf[:])
}

// TestLog_IsKeptThroughRotationRevocationAndRestore is one story on one stack:
// each part goes on where the one before has ended.
func TestLog_IsKeptThroughRotationRevocationAndRestore(t *testing.T) {
	t.Parallel()
	w := newLogWorld(t)
	policy, seen := w.LogPolicy(), "that 2 of 2 witnesses saw"
	copied := filepath.Join(w.dir, "copy")
	mirror := func(t *testing.T) {
		t.Helper()
		if code, out := w.receipt(t, "log", "mirror", w.PublicURL, copied, "--log-policy", policy); code != 0 || !strings.Contains(out, "/v1/log/1: ") {
			t.Fatalf("receipt log mirror ends with %d: %s", code, out)
		}
	}

	part := func(name string, do func(t *testing.T)) {
		t.Helper()
		if !t.Run(name, do) {
			t.FailNow()
		}
	}

	old, bought := w.sell(t)
	again := func(confirmations int) []string { // another question about the same transaction
		return []string{"--tx", bought.Transaction, "--min-confirmations", fmt.Sprint(confirmations)}
	}
	part("a sold receipt is in the witnessed log", func(t *testing.T) {
		t.Logf("a proof %s after the sale", w.prove(t, old).Round(10*time.Millisecond))
		w.verify(t, old, 0, seen+" (earliest ")
		if code, out := w.receipt(t, "verify", old.answer, "--key", w.PublicURL, "--log", w.PublicURL); code != 0 || !strings.Contains(out, ", by the log's own policy\n") {
			t.Errorf("without a policy: %d %.600s", code, out)
		}
		mirror(t)
		for range 2 {
			code, out := w.receipt(t, "log", "check", w.PublicURL, "--log-policy", policy, "--state", filepath.Join(w.dir, "state"))
			if code != 0 || !strings.Contains(out, "seen by 2 of 2 witnesses") {
				t.Errorf("receipt log check ends with %d: %s", code, out)
			}
		}
	})

	var late, fresh logged
	part("a rotated key's receipts stay valid", func(t *testing.T) {
		late, _ = w.sell(t, again(1)...)
		w.prove(t, late)
		for _, change := range []func(string) error{secrets.AnnounceReceiptKey, secrets.RotateReceiptKey} {
			if err := change(w.State); err != nil {
				t.Fatal(err)
			}
			w.restartVerifier(t)
		}
		fresh, _ = w.sell(t, again(2)...)
		w.prove(t, fresh)
		for _, l := range []logged{old, late, fresh} {
			w.verify(t, l, 0, seen)
		}
	})

	part("a revoked key's receipts are valid before its cut-off", func(t *testing.T) {
		cutOff := fmt.Sprint(w.place(t, late))
		w.revoke(t, cutOff)
		w.restartVerifier(t)
		w.verify(t, old, 0, "its key was revoked later, from entry "+cutOff+" on")
		w.verify(t, late, 1, "NOT VALID")
		w.verify(t, fresh, 0, seen)
		if code, out := w.receipt(t, "verify", old.answer, "--key", w.PublicURL); code != 1 {
			t.Errorf("without the log a revoked key is good: %d %s", code, out)
		}
	})

	part("without its witnesses the log waits, and sales go on", func(t *testing.T) {
		w.Programs.Kill("witness-1")
		waiting, sold := w.sell(t, again(6)...)
		newBrowser(t, w.PublicURL).request("GET", proofPath(t, sold.Answer), "").want(t, http.StatusAccepted, nil)
		w.startWitness(t, 0)
		w.prove(t, waiting)
		w.verify(t, waiting, 0, seen)
	})

	archive := filepath.Join(w.dir, "backup.tar")
	var lost, frozen logged
	part("a restored log is frozen, and sales go on", func(t *testing.T) {
		w.backup(t, "save", archive)
		lost, _ = w.sell(t, again(3)...)
		w.prove(t, lost)
		mirror(t)
		w.restore(t, archive)
		w.operate(t, 0, "state      restored\n", "status")
		var sold purchase
		frozen, sold = w.sell(t, again(4)...)
		newBrowser(t, w.PublicURL).request("GET", proofPath(t, sold.Answer), "").want(t, http.StatusServiceUnavailable, nil)
		w.verify(t, fresh, 0, seen) // it was published before
		w.operate(t, 1, "", "resume")
		w.operate(t, 0, "state      restored\n", "status")
		// What others keep is valid, whatever the verifier has lost.
		if code, out := w.receipt(t, "verify", lost.answer, "--key", w.PublicURL, "--log", lost.proof, "--log-policy", policy); code != 0 {
			t.Errorf("the kept proof: %d %s", code, out)
		}
	})

	part("a mirror brings back what was lost", func(t *testing.T) {
		w.operate(t, 0, " entries came back\n", "recover", "--from", copied)
		w.operate(t, 0, "state      open\n", "status")
		w.prove(t, frozen)
		w.verify(t, frozen, 0, seen)
		w.verify(t, lost, 0, seen)
		w.operate(t, 0, "entries\n", "audit")
		mirror(t)
	})

	part("a log that cannot be recovered ends, and another begins", func(t *testing.T) {
		w.restore(t, archive)
		w.operate(t, 0, "state      restored\n", "status")
		origin := strings.TrimPrefix(w.PublicURL, "http://") + "/v1/log/"
		w.operate(t, 0, origin+"1 is closed; "+origin+"2 begins\n", "close", "--origin", origin+"1")
		kept := filepath.Join(w.dir, "policy of a reader who has not heard of it")
		text, err := os.ReadFile(policy)
		if err == nil {
			err = os.WriteFile(kept, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		w.begin(t, origin+"2")
		next, _ := w.sell(t, again(5)...)
		w.prove(t, next)
		w.verify(t, next, 0, " of "+origin+"2, ")
		for _, l := range []logged{old, fresh} {
			w.verify(t, l, 0, " of "+origin+"1, ")
		}
		w.verify(t, late, 1, "NOT VALID")
		for _, l := range []logged{lost, frozen} { // the restored ledger knows nothing of them
			if code, out := w.receipt(t, "verify", l.answer, "--key", w.PublicURL, "--log", l.proof, "--log-policy", kept); code != 0 || !strings.Contains(out, " of "+origin+"1, ") {
				t.Errorf("the kept proof: %d %s", code, out)
			}
			if code, out := w.receipt(t, "verify", l.answer, "--key", w.PublicURL, "--log", l.proof, "--log-policy", policy); code != 1 || !strings.Contains(out, origin+"1 was closed with ") {
				t.Errorf("beyond the end that the list names: %d %s", code, out)
			}
		}
		w.operate(t, 0, origin+"2\n", "status")
		// What the witnesses have seen of the first generation is more than its end.
		code, out := w.receipt(t, "log", "check", w.PublicURL, "--log-policy", policy)
		if code != 1 || !strings.Contains(out, origin+"2 continues: ") {
			t.Errorf("receipt log check ends with %d: %s", code, out)
		}
	})
}

// begin names a generation in the policy and starts each witness once with --begin, as
// keys.md says.
func (w *logWorld) begin(t *testing.T, origin string) {
	t.Helper()
	begun := w.Layout
	var err error
	if begun.LogBegin, err = secrets.AddLog(w.State, origin); err != nil {
		t.Fatal(err)
	}
	witnesses, err := begun.Witnesses()
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range witnesses {
		w.Programs.Kill(each.Name)
		w.restart(t, each)
	}
}

// revoke sets the retired key to revoked, with a cut-off.
func (w *logWorld) revoke(t *testing.T, cutOff string) {
	t.Helper()
	text, err := os.ReadFile(w.Path(secrets.RetiredKeys))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := receipt.ParseKeys(text)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(keys, func(k receipt.Key) bool { return k.Status == receipt.KeyRetired })
	keys[at].Status = receipt.KeyRevoked
	keys[at].Logged = &receipt.Logged{Origin: strings.TrimPrefix(w.PublicURL, "http://") + "/v1/log/1", Before: cutOff}
	if text, err = json.Marshal(keys); err == nil {
		err = os.WriteFile(w.Path(secrets.RetiredKeys), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
