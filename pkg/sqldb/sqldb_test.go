package sqldb_test

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
)

func migrations() fs.FS { return os.DirFS("testdata") }

func open(t *testing.T, url string) *sqldb.DB {
	t.Helper()
	db, err := sqldb.Open(context.Background(), url, migrations())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func onEveryBackend(t *testing.T, test func(t *testing.T, url string)) {
	t.Helper()
	sqldbtest.Each(t, func(t *testing.T, url string) { test(t, url) })
	t.Run("memory", func(t *testing.T) { test(t, "sqlite::memory:") })
}

func TestTransaction_RacesLoseNothing(t *testing.T) {
	onEveryBackend(t, func(t *testing.T, url string) {
		db := open(t, url)
		ctx := context.Background()
		exec(t, db, "INSERT INTO things (name) VALUES (?)", "a")
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				err := db.Tx(ctx, func(tx *sql.Tx) error {
					_, err := tx.ExecContext(ctx, db.Rebind("UPDATE things SET count = count + 1 WHERE name = ?"), "a")
					return err
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if got := count(t, db); got != 100 {
			t.Errorf("100 increments made %d", got)
		}
	})
}

func TestTransaction_ThatFailsLeavesNothing(t *testing.T) {
	onEveryBackend(t, func(t *testing.T, url string) {
		db := open(t, url)
		exec(t, db, "INSERT INTO things (name) VALUES (?)", "a")
		failure := errors.New("no")
		err := db.Tx(context.Background(), func(tx *sql.Tx) error {
			_, err := tx.ExecContext(context.Background(), "UPDATE things SET count = 7")
			return errors.Join(err, failure)
		})
		if !errors.Is(err, failure) {
			t.Errorf("got %v", err)
		}
		if got := count(t, db); got != 0 {
			t.Errorf("count is %d", got)
		}
	})
}

func TestError_UniqueViolationIsDistinguished(t *testing.T) {
	onEveryBackend(t, func(t *testing.T, url string) {
		db := open(t, url)
		exec(t, db, "INSERT INTO things (name) VALUES (?)", "a")
		_, err := db.Writer.ExecContext(context.Background(), db.Rebind("INSERT INTO things (name) VALUES (?)"), "a")
		if !sqldb.IsUnique(err) {
			t.Errorf("%v is not seen as a unique violation", err)
		}
		if _, err = db.Writer.ExecContext(context.Background(), "INSERT INTO things (name) VALUES (NULL)"); err == nil || sqldb.IsUnique(err) {
			t.Errorf("%v is seen as a unique violation", err)
		}
	})
}

func TestOpen_ReadersOfSQLiteCannotWrite(t *testing.T) {
	db := open(t, sqldbtest.SQLite(t))
	if _, err := db.Reader.ExecContext(context.Background(), "INSERT INTO things (name) VALUES ('a')"); err == nil {
		t.Error("the reader wrote")
	}
}

func TestMigrate_ProcessesThatStartTogetherDoItOnce(t *testing.T) {
	sqldbtest.Each(t, func(t *testing.T, url string) {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				db, err := sqldb.Open(context.Background(), url, migrations())
				if err != nil {
					t.Error(err)
					return
				}
				_ = db.Close()
			})
		}
		all.Wait()
	})
}

func TestFile_AndItsFolderAreForTheOwnerOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data", "deep ?#%")
	open(t, "sqlite:"+dir+"/x.db")
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	for _, name := range []string{"x.db", "x.db-wal"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

func TestError_NeverQuotesThePassword(t *testing.T) {
	for _, url := range []string{"mysql://u:hunter2@h/d", "postgres://u:hunter2@127.0.0.1:1/d", "postgres://u:hunter2@h:port/d", ""} {
		_, err := sqldb.Open(context.Background(), url, migrations())
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func exec(t *testing.T, db *sqldb.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.Writer.ExecContext(context.Background(), db.Rebind(query), args...); err != nil {
		t.Fatal(err)
	}
}

func count(t *testing.T, db *sqldb.DB) (n int) {
	t.Helper()
	if err := db.Reader.QueryRowContext(context.Background(), "SELECT count FROM things").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestError_NoAnswerIsDistinguished(t *testing.T) {
	if _, err := sqldb.Open(context.Background(), "postgres://u:p@127.0.0.1:1/d", migrations()); !errors.Is(err, sqldb.ErrUnreachable) {
		t.Errorf("got %v", err)
	}
	if _, err := sqldb.Open(context.Background(), "sqlite:"+filepath.Join(t.TempDir(), "x.db"), os.DirFS(t.TempDir())); err == nil || errors.Is(err, sqldb.ErrUnreachable) {
		t.Errorf("without migrations: got %v", err)
	}
}

func TestURL_IsCheckedWithoutOpeningAnything(t *testing.T) {
	for _, url := range []string{"sqlite:data/auth.db", "sqlite::memory:", "sqlite:///data/x.db", "postgres://u:p@h/d", "postgresql://h/d"} {
		if err := sqldb.CheckURL(url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, url := range []string{
		"", "sqlite:", "sqlite://", "mysql://hunter2@h/d", "auth.db", "postgres://u:hunter2%zz@h/d", "postgres://u:p@h:port/d",
	} {
		if err := sqldb.CheckURL(url); !errors.Is(err, sqldb.ErrURL) {
			t.Errorf("%q: got %v", url, err)
		}
	}
}

// level returns how a transaction's commit waits for the disk.
func level(t *testing.T, db *sqldb.DB, tx *sql.Tx) (level string) {
	t.Helper()
	query := map[sqldb.Dialect]string{sqldb.SQLite: "PRAGMA synchronous", sqldb.Postgres: "SHOW synchronous_commit"}[db.Dialect]
	if err := tx.QueryRow(query).Scan(&level); err != nil {
		t.Fatal(err)
	}
	return level
}

func TestTransaction_OnlyARelaxedOneSkipsTheDisk(t *testing.T) {
	waits := map[sqldb.Dialect]string{sqldb.SQLite: "2", sqldb.Postgres: "on"}
	relaxed := map[sqldb.Dialect]string{sqldb.SQLite: "1", sqldb.Postgres: "off"}
	refused := errors.New("refused")
	sqldbtest.Each(t, func(t *testing.T, url string) {
		db := open(t, url)
		for _, failure := range []error{nil, refused} {
			for name, run := range map[string]func(context.Context, func(*sql.Tx) error) error{waits[db.Dialect]: db.Tx, relaxed[db.Dialect]: db.TxRelaxed} {
				got := ""
				if err := run(t.Context(), func(tx *sql.Tx) error { got = level(t, db, tx); return failure }); !errors.Is(err, failure) {
					t.Error(err)
				}
				if got != name {
					t.Errorf("level %s, want %s", got, name)
				}
			}
		}
	})
}

// A relaxed transaction that ends with its context leaves no connection behind on
// which later commits would not wait.
func TestTransaction_ACancelledRelaxedOneRelaxesNoOther(t *testing.T) {
	db := open(t, "sqlite:"+filepath.Join(t.TempDir(), "a.db"))
	for range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		if err := db.TxRelaxed(ctx, func(*sql.Tx) error { cancel(); return nil }); err == nil {
			t.Error("it was committed after its context had ended")
		}
		if err := db.Tx(t.Context(), func(tx *sql.Tx) error {
			if got := level(t, db, tx); got != "2" {
				t.Errorf("the next commit waits for level %s", got)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestExec_ReportsWhetherARowChanged(t *testing.T) {
	onEveryBackend(t, func(t *testing.T, url string) {
		db := open(t, url)
		exec(t, db, "INSERT INTO things (name) VALUES (?)", "a")
		for name, want := range map[string]bool{"a": true, "b": false} {
			if err := db.Tx(t.Context(), func(tx *sql.Tx) error {
				changed, err := db.Exec(t.Context(), tx, "UPDATE things SET count = 1 WHERE name = ?", name)
				if changed != want {
					t.Errorf("%s: changed is %v", name, changed)
				}
				return err
			}); err != nil {
				t.Error(err)
			}
		}
	})
}
