package sqldb_test

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
)

// other makes the SQLite file of another program and leaves it open.
func other(t *testing.T, path, journal string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode("+journal+")")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE things (name TEXT); INSERT INTO things VALUES ('a')"); err != nil {
		t.Fatal(err)
	}
	return db
}

func names(t *testing.T, path string) (n int) {
	t.Helper()
	db, err := sqldb.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM things").Scan(&n); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "DELETE FROM things"); err == nil {
		t.Error("the file of another program was written to")
	}
	return n
}

func TestFile_OfAnotherProgramIsReadWhileItRuns(t *testing.T) {
	for _, journal := range []string{"wal", "delete"} {
		path := filepath.Join(t.TempDir(), "x ?.db")
		writer := other(t, filepath.Join(filepath.Dir(path), "x %3F.db"), journal)
		if _, err := writer.ExecContext(t.Context(), "INSERT INTO things VALUES ('b')"); err != nil {
			t.Fatal(err)
		}
		if n := names(t, path); n != 2 {
			t.Errorf("%s, while it runs: %d", journal, n)
		}
		if err := writer.Close(); err != nil {
			t.Fatal(err)
		}
		if n := names(t, path); n != 2 {
			t.Errorf("%s, after it: %d", journal, n)
		}
	}
}

func TestFile_ThatIsNotSQLiteIsReported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	for _, content := range []string{"", "SQLite format 3\x00", "username,display_name\n", "SQLite format 3, but not: this text is long enough to be a header, and then some more of it to be sure"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := sqldb.OpenFile(path); !errors.Is(err, sqldb.ErrNotSQLite) {
			t.Errorf("%q: %v", content, err)
		}
	}
	if _, err := sqldb.OpenFile(path + "-not-there"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestStatement_IsCarriedOutWhereItsTableIs(t *testing.T) {
	sqldbtest.Each(t, func(t *testing.T, url string) {
		schema := "-- +goose Up\nCREATE TABLE there (n INTEGER);\nINSERT INTO there VALUES (1);\n"
		files := fstest.MapFS{"migrations/sqlite/00001_x.sql": {Data: []byte(schema)}, "migrations/postgres/00001_x.sql": {Data: []byte(schema)}}
		read := func() (n int) {
			db, err := sqldb.Open(t.Context(), url, files)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			if err := db.Reader.QueryRowContext(t.Context(), "SELECT n FROM there").Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		read()
		for table, statement := range map[string]string{"there": "UPDATE there SET n = n + 1", "absent": "UPDATE absent SET n = 2"} {
			if err := sqldb.ExecWhereTable(t.Context(), url, table, statement); err != nil {
				t.Errorf("%s: %v", table, err)
			}
		}
		if got := read(); got != 2 {
			t.Errorf("it is %d", got)
		}
		if err := sqldb.ExecWhereTable(t.Context(), url, "there", "UPDATE there SET m = 1"); err == nil {
			t.Error("a statement that fails is none")
		}
	})
}
