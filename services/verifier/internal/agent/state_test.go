package agent

import (
	"os"
	"path/filepath"
	"testing"
)

func TestState_OfAReleaseBeforeMovesOnce(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(home, "cache"))
	t.Setenv("XDG_STATE_HOME", filepath.Join(home, "state"))
	former, state := formerState(), defaultState()
	if state != filepath.Join(home, "state", "pforte-agent") {
		t.Fatalf("the state is in %s", state)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(moveState(former, state)) // nothing is there
	must(os.MkdirAll(filepath.Join(former, "limits"), 0o700))
	must(os.WriteFile(filepath.Join(former, "limits", "spent.json"), []byte("1"), 0o600))
	for range 2 {
		must(moveState(former, state))
		for _, folder := range []string{former, state} {
			if text, err := os.ReadFile(filepath.Join(folder, "limits", "spent.json")); err != nil || string(text) != "1" {
				t.Errorf("%s: %q, %v", folder, text, err)
			}
		}
	}
	// The link goes with the cache, and what counts stays.
	must(os.RemoveAll(filepath.Join(home, "cache")))
	if _, err := os.Stat(filepath.Join(state, "limits", "spent.json")); err != nil {
		t.Error(err)
	}
	// What a release before began meanwhile does not replace it.
	must(os.MkdirAll(former, 0o700))
	must(moveState(former, state))
	if _, err := os.Stat(filepath.Join(state, "limits", "spent.json")); err != nil {
		t.Error(err)
	}
	t.Setenv("XDG_STATE_HOME", "relative")
	if got := defaultState(); got != filepath.Join(home, ".local", "state", "pforte-agent") {
		t.Errorf("without XDG_STATE_HOME it is %s", got)
	}
}

func TestKeyFile_ThatOthersMayReadIsWarnedOf(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	for mode, warned := range map[os.FileMode]bool{0o600: false, 0o400: false, 0o644: true, 0o640: true} {
		if err := os.WriteFile(file, []byte(devKey), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		o := options{url: "https://verifier.example"}
		err := o.takeKey(func(name string) string { return map[string]string{"AGENT_PRIVATE_KEY_FILE": file}[name] })
		if err != nil || (o.warning != "") != warned {
			t.Errorf("%o: %q, %v", mode, o.warning, err)
		}
	}
}
