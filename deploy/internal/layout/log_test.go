package layout_test

import (
	"os"
	"strings"
	"testing"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/internal/secrets"
)

// The policy is made anew at each start, and setup -log has named a generation in it.
func TestPrepare_KeepsALaterGenerationThatTheWitnessesBeganOrAreToBegin(t *testing.T) {
	l := layout.Layout{State: t.TempDir(), PublicURL: "http://localhost:8080", Addresses: layout.Addresses{Witness1: "127.0.0.1:1", Witness2: "127.0.0.1:2"}, Log: true}
	prepare := func() string {
		t.Helper()
		if err := l.Prepare(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(l.LogPolicy())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	prepare()
	vkey, err := secrets.AddLog(l.State, "localhost:8080/v1/log/2")
	if err != nil {
		t.Fatal(err)
	}
	l.LogBegin = vkey
	if text := prepare(); !strings.HasPrefix(text, "log "+vkey+"\n") {
		t.Errorf("at the start that begins it:\n%s", text)
	}
	l.LogBegin = ""
	if err := os.WriteFile(l.Path(secrets.WitnessState(1)), []byte(`{"logs":{"`+vkey+`":""}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	l.Witness1 = "127.0.0.1:3"
	if text := prepare(); !strings.HasPrefix(text, "log "+vkey+"\n") || !strings.Contains(text, "127.0.0.1:3\n") {
		t.Errorf("at a later start:\n%s", text)
	}
	if err := os.WriteFile(l.Path(secrets.WitnessState(1)), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text := prepare(); strings.Contains(text, "/v1/log/2") {
		t.Errorf("one that no witness began:\n%s", text)
	}
}
