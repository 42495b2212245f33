package backup_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/deploy/internal/backup"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
)

// Such an archive is put back beside databases that are in use, and neither it nor
// a whole one is taken for the other.
func TestSave_LeavesOutADatabaseSavedAnotherWay(t *testing.T) {
	whole := newSettings(t, sqldbtest.SQLite)
	fill(t, whole)
	keys := whole
	keys.Users, keys.Ledger = backup.None, backup.None
	if err := keys.Validate(); err != nil {
		t.Fatal(err)
	}
	archive := save(t, keys)

	restored := newSettings(t, sqldbtest.SQLite)
	restored.Users, restored.Ledger = backup.None, backup.None
	m, err := restored.Restore(t.Context(), bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range m.Files {
		names = append(names, f.Name)
	}
	if diff := cmp.Diff([]string{"receipt-key.pem", "retired-keys.json"}, names); diff != "" {
		t.Errorf("saved (-want +got):\n%s", diff)
	}
	if read(t, restored.SigningKey) != read(t, whole.SigningKey) || read(t, restored.RetiredKeys) != "[]" {
		t.Error("another key was restored")
	}
	if _, err := whole.Check(t.Context(), bytes.NewReader(archive)); !errors.Is(err, backup.ErrArchive) || !strings.Contains(err.Error(), "users.db") {
		t.Errorf("keys taken for all: %v", err)
	}
	if _, err := keys.Check(t.Context(), bytes.NewReader(save(t, whole))); !errors.Is(err, backup.ErrArchive) || !strings.Contains(err.Error(), "users.db") {
		t.Errorf("all taken for keys: %v", err)
	}
}

// Its URL would be taken for a Postgres without a name or a host, which is whatever runs on the machine.
func TestSettings_HaveNoDatabaseInMemory(t *testing.T) {
	s := newSettings(t, sqldbtest.SQLite)
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	s.Ledger = "sqlite::memory:"
	if err := s.Validate(); err == nil || !strings.Contains(err.Error(), "LEDGER_DATABASE_URL: ") {
		t.Errorf("it says %v", err)
	}
}
