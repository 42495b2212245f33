package receipt_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/receipt"
)

// maxScriptLines is what the documentation promises of the verifiers.
const maxScriptLines = 15

func TestScripts_JavaScriptVerifierAgrees(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		missing(t, "node is not installed")
	}
	runVerifier(t, node, "testdata/verify.mjs")
}

func TestScripts_PythonVerifierAgrees(t *testing.T) {
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
	var names []string
	for _, v := range vectors {
		names = append(names, v.name)
	}
	for _, v := range transferVectors {
		names = append(names, v.name)
	}
	for _, name := range names {
		answer, keys := vectorFile(name, "response.json"), vectorFile(name, "key.json")
		if out, err := run(t, program, script, answer, keys); err != nil || out != "signature valid\n" {
			t.Errorf("%s: %v, %s", name, err, out)
		}
	}
	// What one kind's signature covers is not a document of the other kind.
	for name, types := range map[string][2]string{
		vectors[0].name:         {`"chain-evidence-receipt"`, `"chain-evidence-transfer"`},
		transferVectors[0].name: {`"chain-evidence-transfer"`, `"chain-evidence-receipt"`},
	} {
		swapped := edited(t, vectorFile(name, "response.json"), types[0], types[1])
		if out, err := run(t, program, script, swapped, vectorFile(name, "key.json")); err == nil {
			t.Errorf("%s as the other kind is accepted: %s", name, out)
		}
		resigned := resignedAsTheOtherKind(t, readVector(t, name))
		if out, err := run(t, program, script, resigned, vectorFile(name, "key.json")); err == nil {
			t.Errorf("%s, signed under the other payload type, is accepted: %s", name, out)
		}
	}
	answer, keys := vectorFile(names[0], "response.json"), vectorFile(names[0], "key.json")
	forged := edited(t, answer, `"gasUsed":"`, `"gasUsed":"1`)
	if out, err := run(t, program, script, forged, keys); err == nil {
		t.Errorf("a changed receipt is accepted: %s", out)
	}
	revoked := edited(t, keys, `"active"`, `"revoked"`)
	if out, err := run(t, program, script, answer, revoked); err == nil {
		t.Errorf("a revoked key is accepted: %s", out)
	}
}

// resignedAsTheOtherKind is an answer whose signature is good, but for the payload type
// of the other kind.
func resignedAsTheOtherKind(t *testing.T, v vector) string {
	t.Helper()
	payloadType := receipt.PayloadType
	if v.response.Signature.PayloadType == payloadType {
		payloadType = receipt.TransferPayloadType
	}
	seed, err := hex.DecodeString("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
	if err != nil {
		t.Fatal(err)
	}
	v.response.Signature.PayloadType = payloadType
	v.response.Signature.Value = base64.StdEncoding.EncodeToString(ed25519.Sign(ed25519.NewKeyFromSeed(seed), receipt.PAE(payloadType, v.response.Receipt)))
	path := filepath.Join(t.TempDir(), "resigned.json")
	if err := os.WriteFile(path, mustMarshal(t, v.response), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
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
