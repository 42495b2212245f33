package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestACommandLineThatMakesNoSenseIsRefused(t *testing.T) {
	environment := map[string]string{
		"USERS_DATABASE_URL": "sqlite:" + filepath.Join(t.TempDir(), "u.db"), "LEDGER_DATABASE_URL": "sqlite:l.db", "RECEIPT_SIGNING_KEY_FILE": "key.pem",
	}
	for what, args := range map[string][]string{"is needed": {}, "no command": {"steal"}, "not defined": {"-x", "save"}, "is needed ": {"save", "twice"}, "no such file": {"save"}} {
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

func TestHelpAndVersionAreTold(t *testing.T) {
	for flag, want := range map[string]string{"--help": "backup restore < ARCHIVE", "--version": "backup "} {
		var out bytes.Buffer
		if err := run(t.Context(), []string{flag}, os.Getenv, os.Stdin, &out, &out); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v %s", flag, err, out.String())
		}
	}
}
