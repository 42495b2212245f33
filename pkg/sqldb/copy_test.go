package sqldb_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
)

// TestCopy_IsOneMomentOfALiveDatabase copies while two rows are always
// written together.
func TestCopy_IsOneMomentOfALiveDatabase(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x ?#.db")
	db := open(t, "sqlite:"+path)
	ctx, stop := context.WithCancel(t.Context())
	written := make(chan struct{})
	go func() {
		defer close(written)
		for ctx.Err() == nil {
			_ = db.Tx(context.WithoutCancel(ctx), func(tx *sql.Tx) error {
				for range 2 {
					if _, err := tx.Exec("INSERT INTO things (name) VALUES (hex(randomblob(16)))"); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}()
	before := 0
	for i := range 5 {
		to := filepath.Join(dir, "copy"+string(rune('0'+i)))
		if err := sqldb.Copy(t.Context(), path, to); err != nil {
			t.Fatal(err)
		}
		if err := sqldb.CheckFile(t.Context(), to); err != nil {
			t.Fatal(err)
		}
		if n := names(t, to); n%2 != 0 || n < before {
			t.Errorf("the copy has %d rows after %d", n, before)
		} else {
			before = n
		}
		if info, err := os.Stat(to); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
	}
	stop()
	<-written
	if err := sqldb.Copy(t.Context(), path, filepath.Join(dir, "copy0")); !errors.Is(err, os.ErrExist) {
		t.Errorf("over a file: %v", err)
	}
}

func TestCopy_ReportsADamagedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	writer := other(t, path, "delete")
	if _, err := writer.ExecContext(t.Context(), "INSERT INTO things SELECT hex(randomblob(100)) FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION SELECT i+1 FROM n WHERE i < 200) SELECT i FROM n)"); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if err := sqldb.CheckFile(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copy(content[4096:], strings.Repeat("x", 4096))
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := sqldb.CheckFile(t.Context(), path); !errors.Is(err, sqldb.ErrDamaged) {
		t.Errorf("got %v", err)
	}
	if err := sqldb.Copy(t.Context(), filepath.Join(t.TempDir(), "none"), path+"2"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestCopy_ReportsAnEmptyDatabaseAndCreatesNone(t *testing.T) {
	for name, url := range sqldbtest.URLs(t) {
		t.Run(name, func(t *testing.T) {
			for _, want := range []bool{true, false} {
				if empty, err := sqldb.Empty(t.Context(), url); err != nil || empty != want {
					t.Errorf("empty is %v, %v", empty, err)
				}
				if path, ok := sqldb.Path(url); ok != (name == "sqlite") {
					t.Errorf("a path %q", path)
				} else if _, err := os.Stat(path); ok && want && err == nil {
					t.Error("it was made")
				}
				open(t, url)
			}
		})
	}
	if _, err := sqldb.Empty(t.Context(), "postgres://u:hunter2@127.0.0.1:1/d"); !errors.Is(err, sqldb.ErrUnreachable) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
}
