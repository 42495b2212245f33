package sqldb_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
)

func TestTheLogIsTheOneThatCommitsAreWrittenTo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b%20c.db")
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(link+"-wal", nil, 0o600); err != nil { // of something else
		t.Fatal(err)
	}
	db := open(t, "sqlite:"+link)
	log, err := db.LeaveSync(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	var level int
	if err := db.Writer.QueryRow("PRAGMA synchronous").Scan(&level); err != nil || level != 1 {
		t.Errorf("commits wait for level %d, %v", level, err)
	}
	opened, err := os.Stat(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{"CREATE TABLE logged (x)", "INSERT INTO logged VALUES (1)", "PRAGMA wal_checkpoint(TRUNCATE)", "INSERT INTO logged VALUES (2)"} {
		if _, err := db.Writer.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
		if err := log.Sync(); err != nil {
			t.Errorf("after %s: %v", statement, err)
		}
	}
	now, err := os.Stat(path + "-wal")
	if err != nil || !os.SameFile(opened, now) || now.Size() == 0 {
		t.Errorf("the log is another file than before: %v", err)
	}
}

func TestALogThatCannotBeSyncedSaysSo(t *testing.T) {
	db := open(t, "sqlite:"+filepath.Join(t.TempDir(), "a.db"))
	log, err := db.LeaveSync(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if err := log.Sync(); err == nil {
		t.Error("a closed log was synced")
	}
}

func TestThereIsNoLogWhereCommitsWaitThemselves(t *testing.T) {
	urls := map[string]string{"memory": "sqlite::memory:"}
	if url := sqldbtest.URLs(t)["postgres"]; url != "" {
		urls["postgres"] = url
	}
	for name, url := range urls {
		if log, err := open(t, url).LeaveSync(t.Context()); log != nil || err != nil {
			t.Errorf("%s: %v, %v", name, log, err)
		}
	}
}
