package backup_test

import (
	"bytes"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/pforte/pforte/pkg/sqldb"
)

// logged is a ledger with two generations of a log.
const logged = "-- +goose Up\nCREATE TABLE log_head (log BIGINT, frozen TEXT NOT NULL DEFAULT '', closed BIGINT NOT NULL DEFAULT 0);\n" +
	"INSERT INTO log_head (log, closed) VALUES (1, 7), (2, 0);\n"

// frozen returns why the generations of a ledger's log are frozen.
func frozen(t *testing.T, url string) string {
	t.Helper()
	db, err := sqldb.Open(t.Context(), url, fstest.MapFS{
		"migrations/sqlite/00001_x.sql": {Data: []byte(logged)}, "migrations/postgres/00001_x.sql": {Data: []byte(logged)},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var all string
	if err := db.Reader.QueryRowContext(t.Context(), "SELECT string_agg(log || frozen, ' ' ORDER BY log) FROM log_head").Scan(&all); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestRestore_FreezesTheLog(t *testing.T) {
	onBoth(t, func(t *testing.T, fresh func(testing.TB) string) {
		from, to := newSettings(t, fresh), newSettings(t, fresh)
		note(t, from.Users, "anna")
		if got := frozen(t, from.Ledger); got != "1 2" {
			t.Fatalf("saved is %q", got)
		}
		from.LogKey, to.LogKey = filepath.Join(t.TempDir(), "log.pem"), filepath.Join(t.TempDir(), "log.pem")
		writeKey(t, from.SigningKey)
		writeKey(t, from.LogKey)
		if _, err := to.Restore(t.Context(), bytes.NewReader(save(t, from))); err != nil {
			t.Fatal(err)
		}
		if got := frozen(t, to.Ledger); got != "1 2restored" {
			t.Errorf("restored is %q", got)
		}
		if got := frozen(t, from.Ledger); got != "1 2" {
			t.Errorf("what was saved is %q", got)
		}
		if read(t, to.LogKey) != read(t, from.LogKey) {
			t.Error("another key of the log was restored")
		}
	})
}
