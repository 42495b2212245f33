package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSecretsAreMadeOnceAndThePasswordIsShownOnce(t *testing.T) {
	folder := t.TempDir()
	var first, second bytes.Buffer
	if err := run([]string{"-admin", folder}, &first); err != nil {
		t.Fatal(err)
	}
	made := map[string]string{}
	for _, name := range []string{"session-secret", "receipt-key.pem", "admin-password"} {
		made[name] = read(t, folder, name)
	}
	if !strings.Contains(first.String(), made["admin-password"]) || len(made["admin-password"]) < 20 {
		t.Errorf("it said %s", &first)
	}
	for _, name := range []string{"session-secret", "receipt-key.pem"} {
		if strings.Contains(first.String(), made[name]) {
			t.Errorf("it told %s", name)
		}
	}
	if err := run([]string{"-admin", folder}, &second); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(second.String(), made["admin-password"]) {
		t.Errorf("it said again %s", &second)
	}
	for name, content := range made {
		if read(t, folder, name) != content {
			t.Errorf("%s was made anew", name)
		}
	}
}

func TestWithoutAdminNoPasswordIsMade(t *testing.T) {
	folder := t.TempDir()
	var out bytes.Buffer
	if err := run([]string{folder}, &out); err != nil || out.Len() != 0 {
		t.Errorf("got %v, %s", err, &out)
	}
	if _, err := os.Stat(filepath.Join(folder, "admin-password")); err == nil {
		t.Error("a password was made")
	}
}

func TestAFolderThatCannotBeWrittenIsAFault(t *testing.T) {
	if err := run([]string{filepath.Join(t.TempDir(), "none")}, &bytes.Buffer{}); err == nil {
		t.Error("no fault")
	}
	if err := run(nil, &bytes.Buffer{}); err == nil {
		t.Error("no folder is no fault")
	}
}

// read gives a file that nobody else may read.
func read(t *testing.T, folder, name string) string {
	t.Helper()
	path := filepath.Join(folder, name)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("%s has mode %s", name, info.Mode())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
