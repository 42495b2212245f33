package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const example = `package example

func Share(of, among int) int {
	if among == 0 || of < 0 {
		return 0
	}
	switch {
	case of > 10 && among > 10:
		return 1
	}
	return of / among
}
`

func TestConditionsIn_FindsIfsCasesAndSides(t *testing.T) {
	found, err := conditionsIn("example.go", []byte(example))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, c := range found {
		got[c.text] = c.with
	}
	want := map[string]string{
		"among == 0 || of < 0":  "((among == 0 || of < 0) && false)",
		"among == 0":            "((among == 0) && false)",
		"of < 0":                "((of < 0) && false)",
		"of > 10 && among > 10": "((of > 10 && among > 10) && false)",
		"of > 10":               "((of > 10) || true)",
		"among > 10":            "((among > 10) || true)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestRun_ReportsWhatNoTestMisses(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":     "module example\n\ngo 1.26.0\n",
		"example.go": example,
		"example_test.go": `package example

import "testing"

func TestShare(t *testing.T) {
	if Share(6, 2) != 3 || Share(6, 0) != 0 || Share(-6, 2) != 0 {
		t.Error("wrong")
	}
}
`,
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The case and its two sides are in no test; the if and its two sides are.
	survived, err := run{folder: folder, packages: []string{"."}, timeout: time.Minute}.do(t.Context())
	if err != nil || survived != 3 {
		t.Errorf("%d survived, %v", survived, err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "example.go"))
	if err != nil || string(text) != example {
		t.Errorf("the checkout has changed: %s, %v", text, err)
	}
}
