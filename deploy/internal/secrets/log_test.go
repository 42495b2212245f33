package secrets_test

import (
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/deploy/internal/secrets"
	"github.com/pforte/pforte/pkg/receipt/receiptlog"
)

// witnesses are the addresses of two witnesses.
var witnesses = []string{"http://witness-1:8090", "http://witness-2:8090"}

// public returns the public key in a file.
func public(t *testing.T, folder, name string) string {
	t.Helper()
	key, err := receiptlog.ParsePrivateKey([]byte(content(t, folder, name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(key.Public().(ed25519.PublicKey))
}

func TestLog_IsAddedOnceWhereThereIsNone(t *testing.T) {
	folder := made(t)
	for _, name := range []string{"verifier", "witness-1", "witness-2", "mirror"} {
		if err := os.Mkdir(filepath.Join(folder, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	files := []string{
		"verifier/log-key.pem", "verifier/log-policy", "mirror/log-policy", "witness-1/log-policy", "witness-2/log-policy",
		"witness-1/witness-1-key.pem", "witness-1/witness-1-state.json", "witness-2/witness-2-key.pem", "witness-2/witness-2-state.json",
	}
	before := content(t, folder, "receipt-key.pem")
	var first map[string]string
	for range 2 {
		if err := secrets.MakeLog(folder, "home.example.org", witnesses); err != nil {
			t.Fatal(err)
		}
		seen := map[string]string{}
		for _, file := range files {
			seen[file] = content(t, folder, file)
		}
		if first == nil {
			first = seen
		}
		if diff := cmp.Diff(first, seen); diff != "" {
			t.Errorf("made anew (-first +second):\n%s", diff)
		}
	}
	if content(t, folder, "receipt-key.pem") != before || content(t, folder, "verifier/log-key.pem") == before {
		t.Error("the log has the key of the receipts, or theirs was changed")
	}
	policy, err := receiptlog.ParsePolicy([]byte(first["verifier/log-policy"]))
	if err != nil {
		t.Fatal(err)
	}
	logs := []string{}
	for _, log := range policy.Logs {
		logs = append(logs, log.Key.Name())
		if string(log.Key.Public()) != public(t, folder, "verifier/log-key.pem") {
			t.Errorf("%s has another key", log.Key.Name())
		}
	}
	if diff := cmp.Diff([]string{"home.example.org/v1/log/1"}, logs); diff != "" {
		t.Errorf("logs (-want +got):\n%s", diff)
	}
	for i, witness := range policy.Witnesses {
		name := filepath.Join(witness.Name, secrets.WitnessKey(i+1))
		if witness.URL != witnesses[i] || witness.Key.Name() != secrets.WitnessID("home.example.org", i+1) || string(witness.Key.Public()) != public(t, folder, name) {
			t.Errorf("%s is %s at %s", witness.Name, witness.Key, witness.URL)
		}
	}
	if one := policy.Met(func(i int) bool { return i == 0 }); one || !policy.Met(func(int) bool { return true }) {
		t.Error("one witness is enough, or both are not")
	}
}

// A new state would let the witness cosign a second history.
func TestWitness_ThatLostItsStateGetsNoNewOne(t *testing.T) {
	folder := t.TempDir()
	if err := secrets.MakeLog(folder, "home.example.org", witnesses); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(folder, secrets.WitnessState(2))
	if err := os.Remove(state); err != nil {
		t.Fatal(err)
	}
	if err := secrets.MakeLog(folder, "home.example.org", witnesses); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(state); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its state: %v", err)
	}
}

func TestLog_IsNotMadeBeforeARestoreSucceeds(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, secrets.Unfinished), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := secrets.MakeLog(folder, "home.example.org", witnesses); !errors.Is(err, secrets.ErrRestore) {
		t.Errorf("got %v", err)
	}
}

func TestLog_BelongsToOneHost(t *testing.T) {
	folder := t.TempDir()
	for host, want := range map[string]bool{"localhost:8080": true, "localhost:80": true} { // there is none
		if got, err := secrets.LogIsOf(folder, host); got != want || err != nil {
			t.Errorf("%s: %v, %v", host, got, err)
		}
	}
	if err := secrets.MakeLog(folder, "localhost:8080", witnesses); err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]bool{"localhost:8080": true, "localhost:80": false, "localhost": false} {
		if got, err := secrets.LogIsOf(folder, host); got != want || err != nil {
			t.Errorf("%s: %v, %v", host, got, err)
		}
	}
	if err := secrets.MakeLog(t.TempDir(), "a host", witnesses); err == nil || !strings.Contains(err.Error(), "a host") {
		t.Errorf("a host that no key can name: %v", err)
	}
}

func TestAddLog_NamesALaterGenerationInEveryPolicyOnce(t *testing.T) {
	for _, folders := range [][]string{nil, {"verifier", "witness-1", "witness-2", "mirror"}} {
		folder := t.TempDir()
		for _, name := range folders {
			if err := os.Mkdir(filepath.Join(folder, name), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := secrets.MakeLog(folder, "home.example.org", witnesses); err != nil {
			t.Fatal(err)
		}
		var vkey string
		for range 2 {
			var err error
			if vkey, err = secrets.AddLog(folder, "home.example.org/v1/log/2"); err != nil {
				t.Fatal(err)
			}
		}
		files, err := filepath.Glob(filepath.Join(folder, "*", secrets.LogPolicy))
		if err != nil || len(files) != len(folders) {
			t.Fatal(files, err)
		}
		if len(files) == 0 {
			files = []string{filepath.Join(folder, secrets.LogPolicy)}
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			policy, err := receiptlog.ParsePolicy(text)
			if err != nil || len(policy.Logs) != 2 || policy.Logs[0].Key.String() != vkey || policy.Logs[0].Key.Name() != "home.example.org/v1/log/2" {
				t.Errorf("%s: %v\n%s", file, err, text)
			}
		}
		if _, err := secrets.AddLog(folder, "another.example.org/v1/log/2"); err == nil || !strings.Contains(err.Error(), "names no log of which") {
			t.Errorf("another's: %v", err)
		}
	}
}
