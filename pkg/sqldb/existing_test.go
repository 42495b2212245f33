package sqldb_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
)

func TestExisting_TellsWhereNothingWasOpenedAndCreatesNothing(t *testing.T) {
	sqldbtest.Each(t, func(t *testing.T, url string) {
		if err := sqldb.Existing(t.Context(), url); !errors.Is(err, sqldb.ErrMissing) {
			t.Fatalf("before: %v", err)
		}
		if err := sqldb.Existing(t.Context(), url); !errors.Is(err, sqldb.ErrMissing) {
			t.Fatalf("asked again: %v", err)
		}
		open(t, url)
		if err := sqldb.Existing(t.Context(), url); err != nil {
			t.Error(err)
		}
	})
	folder := t.TempDir()
	if err := sqldb.Existing(t.Context(), "sqlite:"+filepath.Join(folder, "data", "x.db")); !errors.Is(err, sqldb.ErrMissing) {
		t.Error(err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
	text := filepath.Join(folder, "text.db")
	if err := os.WriteFile(text, []byte(strings.Repeat("no database ", 20)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := sqldb.Existing(t.Context(), "sqlite:"+text); err == nil || errors.Is(err, sqldb.ErrMissing) {
		t.Errorf("of a file of text: %v", err)
	}
}

func TestPlace_HasNoPassword(t *testing.T) {
	for url, want := range map[string]string{
		"postgres://u:hunter2@h:5432/d?password=hunter2": "postgres://h:5432/d", "sqlite:/data/x.db": "sqlite:/data/x.db", "sqlite:///data/x.db": "sqlite:/data/x.db", "hunter2": "the database of DATABASE_URL",
	} {
		if got := sqldb.Place(url); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
	if got := sqldb.Place("sqlite:x.db"); !strings.HasPrefix(got, "sqlite:/") || !strings.HasSuffix(got, "/pkg/sqldb/x.db") {
		t.Errorf("got %s", got)
	}
}
