package layout_test

import (
	"os"
	"strings"
	"testing"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/internal/secrets"
)

// withLog returns a layout with a log of receipts.
func withLog(t *testing.T) layout.Layout {
	return layout.Layout{
		State: t.TempDir(), PublicURL: "http://localhost:8080", Log: true,
		Addresses: layout.Addresses{Witness1: "127.0.0.1:1", Witness2: "127.0.0.1:2"},
	}
}

// policyOf prepares a layout and returns the policy of its log.
func policyOf(t *testing.T, l layout.Layout) string {
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

// The policy is made anew at each start, and setup -log has named a generation in it.
func TestPrepare_KeepsALaterGenerationThatTheWitnessesBeganOrAreToBegin(t *testing.T) {
	l := withLog(t)
	prepare := func() string { return policyOf(t, l) }
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

// A start that is killed may leave no policy, or one with the first generation alone.
func TestPrepare_KeepsLaterGenerationsAfterAKill(t *testing.T) {
	l := withLog(t)
	first := policyOf(t, l)
	var lines, begun []string
	for _, origin := range []string{"localhost:8080/v1/log/2", "localhost:8080/v1/log/10"} {
		vkey, err := secrets.AddLog(l.State, origin)
		if err != nil {
			t.Fatal(err)
		}
		lines, begun = append([]string{"log " + vkey + "\n"}, lines...), append(begun, `"`+vkey+`":""`)
		l.LogBegin = vkey // the last one is to begin
	}
	state := `{"logs":{` + begun[0] + `}}`
	if err := os.WriteFile(l.Path(secrets.WitnessState(1)), []byte(state), 0o600); err != nil {
		t.Fatal(err)
	}
	want := strings.Join(lines, "") + first
	if err := os.WriteFile(l.LogPolicy(), []byte(first), 0o600); err != nil {
		t.Fatal(err)
	}
	if text := policyOf(t, l); text != want {
		t.Errorf("with the first alone:\n%s", text)
	}
	if err := os.Remove(l.LogPolicy()); err != nil {
		t.Fatal(err)
	}
	if text := policyOf(t, l); text != want {
		t.Errorf("without a policy:\n%s", text)
	}
}
