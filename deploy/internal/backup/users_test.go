package backup_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/pforte/pforte/deploy/internal/backup"
	"github.com/pforte/pforte/deploy/internal/secrets"
	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
)

// people is what a restore reads of auth's schema: a link that is open, one that was used, and
// a user with an authenticator app.
const people = "-- +goose Up\nCREATE TABLE links (id BIGINT, created_at BIGINT, used_at BIGINT, void_at BIGINT);\n" +
	"INSERT INTO links VALUES (1, 1600000000, NULL, NULL), (2, 1600000000, 1700000000, NULL);\n" +
	"CREATE TABLE user_factors (user_id BIGINT, totp_sealed TEXT, totp_confirmed_at BIGINT);\n" +
	"CREATE TABLE oidc_keys (kid TEXT, sealed TEXT);\n" +
	"CREATE TABLE oidc_clients (client_id TEXT);\nINSERT INTO oidc_clients VALUES ('photos');\n" +
	"CREATE TABLE oidc_grants (id TEXT);\nINSERT INTO oidc_grants VALUES ('the grant of a login');\n" +
	"CREATE TABLE oidc_logouts (id BIGINT);\nINSERT INTO oidc_logouts VALUES (1);\n"

// ask opens auth's database, carries a statement out, and returns what a query for a number
// does.
func ask(t *testing.T, url, statement, query string) (number int) {
	t.Helper()
	db, err := sqldb.Open(t.Context(), url, fstest.MapFS{
		"migrations/sqlite/00001_x.sql": {Data: []byte(people)}, "migrations/postgres/00001_x.sql": {Data: []byte(people)},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if statement != "" {
		if _, err := db.Writer.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Reader.QueryRowContext(t.Context(), query).Scan(&number); err != nil {
		t.Fatal(err)
	}
	return number
}

const openLinks = "SELECT count(*) FROM links WHERE used_at IS NULL AND void_at IS NULL"

// saved returns settings with auth's schema and the archive of it.
func savedPeople(t *testing.T, fresh func(testing.TB) string, statement string) []byte {
	t.Helper()
	s := newSettings(t, fresh)
	ask(t, s.Users, statement, openLinks)
	note(t, s.Ledger, "a payment")
	writeKey(t, s.SigningKey)
	return save(t, s)
}

// An invite or a reset link that was used or withdrawn since the backup would be usable again.
func TestRestore_VoidsOpenLinks(t *testing.T) {
	onBoth(t, func(t *testing.T, fresh func(testing.TB) string) {
		archive := savedPeople(t, fresh, "")
		to := newSettings(t, fresh)
		if _, err := to.Restore(t.Context(), bytes.NewReader(archive)); err != nil {
			t.Fatal(err)
		}
		if left := ask(t, to.Users, "", openLinks); left != 0 {
			t.Errorf("%d links can be used", left)
		}
		if used := ask(t, to.Users, "", "SELECT count(*) FROM links WHERE used_at IS NOT NULL AND void_at IS NULL"); used != 1 {
			t.Errorf("%d links were used", used)
		}
	})
}

// A restore that ends between the data and the change leaves neither: what is there has no open links.
func TestRestore_PutsDataAndItsChangeIntoAPostgresTogether(t *testing.T) {
	whole, err := exec.LookPath("pg_restore")
	if err != nil && os.Getenv("CI") == "" {
		t.Skip("pg_restore is not installed")
	}
	restore := func(t *testing.T, archive []byte, want string) {
		t.Helper()
		to := newSettings(t, sqldbtest.Postgres)
		if _, err := to.Restore(t.Context(), bytes.NewReader(archive)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("it says %v", err)
		}
		if empty, err := sqldb.Empty(t.Context(), to.Users); err != nil || !empty {
			t.Errorf("the data is there without the change: %v", err)
		}
		if slices.Contains(names(t, filepath.Dir(to.SigningKey)), secrets.Sealed) {
			t.Error("setup asks for the data key of an empty database")
		}
	}
	t.Run("the change fails", func(t *testing.T) {
		restore(t, savedPeople(t, sqldbtest.Postgres, "ALTER TABLE links ADD CHECK (void_at IS NULL)"), "links_void_at_check")
	})
	t.Run("the data is cut off", func(t *testing.T) {
		archive, folder := savedPeople(t, sqldbtest.Postgres, ""), t.TempDir()
		script := "#!/bin/sh\n" + whole + " \"$@\" || exit\n[ \"$1\" = --list ]\n"
		if err := os.WriteFile(filepath.Join(folder, "pg_restore"), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
		restore(t, archive, "pg_restore: exit status 1")
	})
	t.Run("in a schema of its own", func(t *testing.T) {
		archive, to := savedPeople(t, sqldbtest.Postgres, ""), newSettings(t, sqldbtest.Postgres)
		if _, err := to.Restore(t.Context(), bytes.NewReader(archive)); err != nil {
			t.Fatal(err)
		}
		ask(t, to.Users, "UPDATE links SET void_at = NULL; CREATE SCHEMA own; ALTER TABLE links SET SCHEMA own; "+
			"ALTER TABLE goose_db_version SET SCHEMA own", "SELECT 1")
		from, last := to, newSettings(t, sqldbtest.Postgres)
		from.Users += "&search_path=own"
		last.Users += "&search_path=own"
		if _, err := last.Restore(t.Context(), bytes.NewReader(save(t, from))); err != nil {
			t.Fatal(err)
		}
		query := "SELECT count(*) FROM own.links WHERE used_at IS NULL AND void_at IS NULL"
		if left := ask(t, last.Users, "", query); left != 0 {
			t.Errorf("%d links can be used", left)
		}
	})
}

// What ended since the backup would live again.
func TestSave_LeavesOutLoginsAtApplications(t *testing.T) {
	onBoth(t, func(t *testing.T, fresh func(testing.TB) string) {
		archive := savedPeople(t, fresh, "")
		to := newSettings(t, fresh)
		if _, err := to.Restore(t.Context(), bytes.NewReader(archive)); err != nil {
			t.Fatal(err)
		}
		for table, want := range map[string]int{"oidc_clients": 1, "oidc_grants": 0, "oidc_logouts": 0} {
			if n := ask(t, to.Users, "", "SELECT count(*) FROM "+table); n != want {
				t.Errorf("%s has %d rows, want %d", table, n, want)
			}
		}
		if file, ok := sqldb.Path(to.Users); ok && strings.Contains(read(t, file), "the grant of a login") {
			t.Error("the file has a deleted row")
		}
	})
}

// Who set an app up has its secret there. What signs logins at applications is made anew, and the logins themselves are
// in no archive.
func TestRestore_AsksForTheDataKeyOfSealedSecrets(t *testing.T) {
	onBoth(t, func(t *testing.T, fresh func(testing.TB) string) {
		for statement, wanted := range map[string]bool{
			"INSERT INTO user_factors (user_id) VALUES (1)":                                  false,
			"INSERT INTO user_factors (user_id, totp_sealed) VALUES (1, 'of an unfinished')": false,
			"INSERT INTO user_factors VALUES (1, 'sealed', 1700000000)":                      true,
			"INSERT INTO oidc_keys VALUES ('a', 'sealed')":                                   false,
		} {
			archive := savedPeople(t, fresh, statement)
			to := newSettings(t, fresh)
			if _, err := to.Restore(t.Context(), bytes.NewReader(archive)); err != nil {
				t.Fatal(err)
			}
			if err := secrets.Make(filepath.Dir(to.SigningKey)); errors.Is(err, secrets.ErrSealed) != wanted {
				t.Errorf("%s: %v", statement, err)
			}
		}
	})
}

// withoutPlace has a restore fail at the key, after the databases. The return value removes the cause.
func withoutPlace(t *testing.T, to *backup.Settings) (mend func() error) {
	t.Helper()
	to.Marks = t.TempDir()
	keys := filepath.Join(to.Marks, "keys")
	to.SigningKey = filepath.Join(keys, secrets.ReceiptKey)
	if err := os.Symlink("nowhere", keys); err != nil {
		t.Fatal(err)
	}
	return func() error { return os.Remove(keys) }
}

func TestRestore_ThatFailsSaysThatAPostgresStaysFilled(t *testing.T) {
	onBoth(t, func(t *testing.T, fresh func(testing.TB) string) {
		archive, to := savedPeople(t, fresh, ""), newSettings(t, fresh)
		withoutPlace(t, &to)
		_, err := to.Restore(t.Context(), bytes.NewReader(archive))
		if _, isFile := sqldb.Path(to.Users); err == nil || isFile == strings.Contains(err.Error(), "users.dump: the database stays filled") {
			t.Errorf("it says %v", err)
		}
		if err != nil && !strings.Contains(err.Error(), "\nNo file was restored. Until") {
			t.Errorf("it says %v", err)
		}
	})
}

// A restore that fails after the mark was made leaves it.
func TestRestore_AsksForNoDataKeyOfUsersWhoWereNotRestored(t *testing.T) {
	with := savedPeople(t, sqldbtest.SQLite, "INSERT INTO user_factors VALUES (1, 'sealed', 1700000000)")
	without := savedPeople(t, sqldbtest.SQLite, "")
	to := newSettings(t, sqldbtest.SQLite)
	mend := withoutPlace(t, &to)
	if _, err := to.Restore(t.Context(), bytes.NewReader(with)); err == nil {
		t.Fatal("it has restored the key into nothing")
	}
	if err := mend(); err != nil {
		t.Fatal(err)
	}
	if _, err := to.Restore(t.Context(), bytes.NewReader(without)); err != nil {
		t.Fatal(err)
	}
	if err := secrets.Make(to.Marks); err != nil {
		t.Error(err)
	}
}

func TestSave_TakesTheAnnouncedKey(t *testing.T) {
	from, to := t.TempDir(), newSettings(t, sqldbtest.SQLite)
	to.SigningKey, to.RetiredKeys = filepath.Join(t.TempDir(), secrets.ReceiptKey), filepath.Join(t.TempDir(), secrets.RetiredKeys)
	if err := errors.Join(secrets.Make(from), secrets.AnnounceReceiptKey(from)); err != nil {
		t.Fatal(err)
	}
	s := newSettings(t, sqldbtest.SQLite)
	note(t, s.Users, "anna")
	note(t, s.Ledger, "a payment")
	s.SigningKey, s.RetiredKeys = filepath.Join(from, secrets.ReceiptKey), filepath.Join(from, secrets.RetiredKeys)
	if _, err := to.Restore(t.Context(), bytes.NewReader(save(t, s))); err != nil {
		t.Fatal(err)
	}
	if err := secrets.RotateReceiptKey(filepath.Dir(to.SigningKey)); err != nil {
		t.Error(err)
	}
	// Where one is, nothing is put back.
	other := newSettings(t, sqldbtest.SQLite)
	write(t, filepath.Join(filepath.Dir(other.SigningKey), secrets.NextReceiptKey), "another key")
	if _, err := other.Restore(t.Context(), bytes.NewReader(save(t, s))); !errors.Is(err, backup.ErrTaken) {
		t.Errorf("over an announced key: %v", err)
	}
	if _, err := os.Stat(other.SigningKey); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a part was restored: %v", err)
	}
}
