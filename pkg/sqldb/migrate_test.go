package sqldb_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
)

// inBoth returns two migrations of each dialect, of which the second one is the text.
func inBoth(second string) fstest.MapFS {
	const first = "-- +goose Up\nCREATE TABLE one (id BIGINT);\n"
	files := fstest.MapFS{}
	for _, dialect := range []string{"sqlite", "postgres"} {
		files["migrations/"+dialect+"/00001_one.sql"] = &fstest.MapFile{Data: []byte(first)}
		files["migrations/"+dialect+"/00002_two.sql"] = &fstest.MapFile{Data: []byte(second)}
	}
	return files
}

func TestMigrate_AppliesAWholeScriptOrNothingOfIt(t *testing.T) {
	onEveryBackend(t, func(t *testing.T, url string) {
		if url == "sqlite::memory:" {
			t.Skip("each that opens it has another one")
		}
		const begun = "-- Why, first.\n-- +goose Up\n-- ; is not an end here.\nCREATE TABLE two (name TEXT DEFAULT ';');\n"
		if db, err := sqldb.Open(t.Context(), url, inBoth(begun+"INSERT INTO nowhere VALUES (1);\n")); err == nil {
			t.Fatal("opened", db.Close())
		}
		db, err := sqldb.Open(t.Context(), url, inBoth(begun+"INSERT INTO two VALUES ('a');\n-- +goose Down\nno SQL"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		var name string
		if err := db.Reader.QueryRowContext(t.Context(), "SELECT name FROM two, (SELECT count(*) FROM one) c").Scan(&name); err != nil || name != "a" {
			t.Errorf("%q, %v", name, err)
		}
	})
}

func TestMigrate_RefusesWhatIsNotOneTransaction(t *testing.T) {
	onEveryBackend(t, func(t *testing.T, url string) {
		for _, file := range []string{"", "CREATE TABLE two (id BIGINT);\n", "-- +goose NO TRANSACTION\n-- +goose Up\nSELECT 1;\n"} {
			if db, err := sqldb.Open(t.Context(), url, inBoth(file)); err == nil {
				t.Errorf("%q: opened", file)
				_ = db.Close()
			}
		}
	})
}

// Versions are numbers, and each program has the first ones.
func TestMigrate_LeavesTheDatabaseOfAnotherProgram(t *testing.T) {
	sqldbtest.Each(t, func(t *testing.T, url string) {
		third := func(files fstest.MapFS, script string) fstest.MapFS {
			for _, dialect := range []string{"sqlite", "postgres"} {
				file := &fstest.MapFile{Data: []byte("-- +goose Up\n" + script)}
				files["migrations/"+dialect+"/00003_three.sql"] = file
			}
			return files
		}
		const second = "-- +goose Up\nCREATE TABLE two (id BIGINT);\n"
		if db, err := sqldb.Open(t.Context(), url, inBoth(second)); err != nil || db.Close() != nil {
			t.Fatal(err)
		}
		other := third(inBoth(second), "CREATE TABLE foreign_one (id BIGINT);\n")
		for _, dialect := range []string{"sqlite", "postgres"} {
			first := &fstest.MapFile{Data: []byte("-- +goose Up\nCREATE TABLE another (id BIGINT);\n")}
			other["migrations/"+dialect+"/00001_one.sql"] = first
		}
		if db, err := sqldb.Open(t.Context(), url, other); err == nil {
			t.Error("another program has migrated it", db.Close())
		} else if !strings.Contains(err.Error(), "another program") {
			t.Errorf("it does not say why: %v", err)
		}
		db, err := sqldb.Open(t.Context(), url, third(inBoth(second), "CREATE TABLE three (id BIGINT);\n"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		if _, err := db.Reader.ExecContext(t.Context(), "SELECT id FROM three"); err != nil {
			t.Errorf("its own next migration is left out: %v", err)
		}
	})
}
