package sqldb_test

import (
	"testing"
	"testing/fstest"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
)

// TestOpen_ByTheReleaseBeforeAfterAMigration is what a roll-back
// rests on: a migration only adds, and a release that does not know it leaves it alone.
func TestOpen_ByTheReleaseBeforeAfterAMigration(t *testing.T) {
	const first, second = "-- +goose Up\nCREATE TABLE a (x TEXT NOT NULL);\n", "-- +goose Up\nALTER TABLE a ADD COLUMN y TEXT NOT NULL DEFAULT '';\n"
	older, newer := fstest.MapFS{}, fstest.MapFS{}
	for _, dialect := range []string{"sqlite", "postgres"} {
		older["migrations/"+dialect+"/00001_a.sql"] = &fstest.MapFile{Data: []byte(first)}
		newer["migrations/"+dialect+"/00001_a.sql"] = &fstest.MapFile{Data: []byte(first)}
		newer["migrations/"+dialect+"/00002_y.sql"] = &fstest.MapFile{Data: []byte(second)}
	}
	sqldbtest.Each(t, func(t *testing.T, url string) {
		for _, release := range []fstest.MapFS{older, newer, older, newer} {
			db, err := sqldb.Open(t.Context(), url, release)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := db.Writer.ExecContext(t.Context(), "INSERT INTO a (x) VALUES ('row')"); err != nil {
				t.Error(err)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
