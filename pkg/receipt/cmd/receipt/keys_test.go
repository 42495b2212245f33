package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pforte/pforte/pkg/receipt"
)

func TestKeygen_MakesAnOwnersFileAndOverwritesNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key.pem")
	code, out, errOut := run(t, "", "keygen", "--out", path)
	if code != 0 || !strings.HasPrefix(out, "sha256:") {
		t.Fatalf("exit %d, %q, %q", code, out, errOut)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	before := read(t, path)
	if code, _, errOut := run(t, "", "keygen", "--out", path); code != 4 || !strings.Contains(errOut, "will not be overwritten") {
		t.Errorf("a second time: exit %d, %q", code, errOut)
	}
	if read(t, path) != before {
		t.Error("the key was overwritten")
	}
	if code, out, _ := run(t, "", "keygen"); code != 0 || !strings.HasPrefix(out, "-----BEGIN PRIVATE KEY-----\n") {
		t.Errorf("without a file: exit %d, %q", code, out)
	}
}

func TestPubkey_ReturnsTheKeyDocument(t *testing.T) {
	_, pem, _ := run(t, "", "keygen")
	code, out, errOut := run(t, pem, "pubkey", "-", "--chain", "eip155:10")
	if code != 0 {
		t.Fatalf("exit %d, %q", code, errOut)
	}
	key, err := receipt.ParseSigningKey([]byte(pem))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := receipt.ParseKeyDocument([]byte(out))
	if err != nil || doc.KeyID != key.ID() || doc.Chain != "eip155:10" {
		t.Errorf("%+v, %v", doc, err)
	}
	if code, _, errOut := run(t, "secret", "pubkey", "-"); code != 1 || strings.Contains(errOut, "secret") {
		t.Errorf("not a key: exit %d, %q", code, errOut)
	}
	if code, _, _ := run(t, pem, "pubkey", "-", "--chain", "base"); code != 2 {
		t.Errorf("not a chain: exit %d", code)
	}
}
