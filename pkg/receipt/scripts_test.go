package receipt_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// maxScriptLines is what the documentation promises of the verifiers.
const maxScriptLines = 15

func TestTheJavaScriptVerifierAgrees(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		missing(t, "node is not installed")
	}
	runVerifier(t, node, "testdata/verify.mjs")
}

func TestThePythonVerifierAgrees(t *testing.T) {
	// Where another Python stands in front of Debian's, that one may lack what
	// apt-get has installed.
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if _, err := run(t, python, "-c", "import cryptography"); err == nil {
			runVerifier(t, python, "testdata/verify.py")
			return
		}
	}
	missing(t, "no python3 with the package cryptography")
}

// missing skips for a person and fails where everything must be tested.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(what)
	}
	t.Skip(what)
}

func runVerifier(t *testing.T, program, script string) {
	t.Helper()
	if lines := bytes.Count(readFile(t, script), []byte("\n")); lines >= maxScriptLines {
		t.Errorf("%s has %d lines, not under %d", script, lines, maxScriptLines)
	}
	for _, v := range vectors {
		answer, keys := vectorFile(v.name, "response.json"), vectorFile(v.name, "key.json")
		if out, err := run(t, program, script, answer, keys); err != nil || out != "signature valid\n" {
			t.Errorf("%s: %v, %s", v.name, err, out)
		}
	}
	name := vectors[0].name
	answer, keys := vectorFile(name, "response.json"), vectorFile(name, "key.json")
	forged := edited(t, answer, `"gasUsed":"`, `"gasUsed":"1`)
	if out, err := run(t, program, script, forged, keys); err == nil {
		t.Errorf("a changed receipt is accepted: %s", out)
	}
	revoked := edited(t, keys, `"active"`, `"revoked"`)
	if out, err := run(t, program, script, answer, revoked); err == nil {
		t.Errorf("a revoked key is accepted: %s", out)
	}
}

func vectorFile(vector, name string) string { return filepath.Join(vectorsFolder, vector, name) }

// edited is a copy of a file with one text replaced.
func edited(t *testing.T, path, old, replacement string) string {
	t.Helper()
	text := readFile(t, path)
	if !bytes.Contains(text, []byte(old)) {
		t.Fatalf("%s does not contain %s", path, old)
	}
	copied := filepath.Join(t.TempDir(), filepath.Base(path))
	if err := os.WriteFile(copied, bytes.Replace(text, []byte(old), []byte(replacement), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	return copied
}

func run(t *testing.T, program string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	return string(out), err
}
