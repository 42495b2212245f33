package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pforte/pforte/deploy/internal/backup"
	"github.com/pforte/pforte/deploy/internal/secrets"
)

func TestArguments_ThatMakeNoSenseAreRefused(t *testing.T) {
	environment := map[string]string{
		"USERS_DATABASE_URL": "sqlite:" + filepath.Join(t.TempDir(), "u.db"), "LEDGER_DATABASE_URL": "sqlite:l.db", "RECEIPT_SIGNING_KEY_FILE": "key.pem",
	}
	for what, args := range map[string][]string{"is needed": {}, "no command": {"steal"}, "not defined": {"-x", "save"}, "is needed ": {"save", "twice", "thrice"}, "missing.tar": {"restore", "missing.tar"}, "no such file": {"save"}} {
		var out bytes.Buffer
		err := run(t.Context(), args, func(name string) string { return environment[name] }, os.Stdin, &out, &out)
		if err == nil || !strings.Contains(err.Error(), strings.TrimSpace(what)) || out.Len() > 0 {
			t.Errorf("%v: %v %s", args, err, out.String())
		}
	}
	err := run(t.Context(), []string{"save"}, func(string) string { return "" }, os.Stdin, os.Stdout, os.Stderr)
	if err == nil || !strings.Contains(err.Error(), "USERS_DATABASE_URL") || !strings.Contains(err.Error(), "RECEIPT_SIGNING_KEY_FILE") {
		t.Errorf("without settings: %v", err)
	}
}

func TestHelp_AndVersionArePrinted(t *testing.T) {
	for flag, want := range map[string]string{"--help": "backup restore FILE", "--version": "backup "} {
		var out bytes.Buffer
		if err := run(t.Context(), []string{flag}, os.Getenv, os.Stdin, &out, &out); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v %s", flag, err, out.String())
		}
	}
}

// stack returns the settings of a small stack in a folder, with what it has where
// filled.
func stack(t *testing.T, filled bool) (folder string, getenv func(string) string) {
	t.Helper()
	folder = t.TempDir()
	environment := map[string]string{
		"USERS_DATABASE_URL": "none", "LEDGER_DATABASE_URL": "none",
		"RECEIPT_SIGNING_KEY_FILE": filepath.Join(folder, "receipt-key.pem"), "RECEIPT_RETIRED_KEYS_FILE": filepath.Join(folder, "retired-keys.json"),
	}
	if filled {
		if err := secrets.Make(folder); err != nil {
			t.Fatal(err)
		}
	}
	return folder, func(name string) string { return environment[name] }
}

func TestArchive_IsCheckedBeforeItGetsItsName(t *testing.T) {
	folder, getenv := stack(t, true)
	archive := filepath.Join(t.TempDir(), "pforte.tar")
	if err := os.WriteFile(archive, []byte("the one of yesterday"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, log bytes.Buffer
	if err := run(t.Context(), []string{"save", archive}, getenv, os.Stdin, &out, &log); err != nil || out.Len() > 0 || !strings.Contains(log.String(), "checked receipt-key.pem") {
		t.Fatalf("%v %s %s", err, &out, &log)
	}
	if err := run(t.Context(), []string{"check", archive}, getenv, os.Stdin, &out, &log); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(archive); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := os.Remove(filepath.Join(folder, "receipt-key.pem")); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(archive)
	if err := run(t.Context(), []string{"save", archive}, getenv, os.Stdin, &out, &log); err == nil {
		t.Error("a stack without its key was saved")
	}
	if after, _ := os.ReadFile(archive); !bytes.Equal(before, after) {
		t.Error("a save that failed took the archive of before away")
	}
	if left, _ := filepath.Glob(archive + ".*"); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
}

func TestSave_NeverWritesToATerminal(t *testing.T) {
	_, getenv := stack(t, true)
	device, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = device.Close() }()
	if err := run(t.Context(), []string{"save"}, getenv, os.Stdin, device, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "name a file") {
		t.Error(err)
	}
}

// An archive that begins with a builder's output is none. Where it was to be put
// back, setup must not make new keys as on a first start.
func TestRestore_ThatFailsMakesNoNewKeys(t *testing.T) {
	_, saved := stack(t, true)
	archive := filepath.Join(t.TempDir(), "pforte.tar")
	if err := run(t.Context(), []string{"save", archive}, saved, nil, &bytes.Buffer{}, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	folder, getenv := stack(t, false)
	mixed := append([]byte("#0 building with \"default\" instance\n"), whole...)
	if err := run(t.Context(), []string{"restore"}, getenv, bytes.NewReader(mixed), &bytes.Buffer{}, &bytes.Buffer{}); !errors.Is(err, backup.ErrArchive) {
		t.Errorf("a mixed archive: %v", err)
	}
	if err := secrets.Make(folder); !errors.Is(err, secrets.ErrRestore) {
		t.Errorf("secrets are made after it: %v", err)
	}
	if err := secrets.TakeOver(t.TempDir(), folder); !errors.Is(err, secrets.ErrRestore) {
		t.Errorf("secrets are taken over after it: %v", err)
	}
	if err := run(t.Context(), []string{"restore", archive}, getenv, nil, &bytes.Buffer{}, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	if err := secrets.Make(folder); err != nil {
		t.Error(err)
	}
	// A restore over a stack that has its keys changes nothing, so it goes on.
	if err := run(t.Context(), []string{"restore", archive}, getenv, nil, &bytes.Buffer{}, &bytes.Buffer{}); !errors.Is(err, backup.ErrTaken) {
		t.Error(err)
	}
	if err := secrets.Make(folder); err != nil {
		t.Error(err)
	}
}
