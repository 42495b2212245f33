package sqldb_test

import (
	"context"
	"database/sql"
	"strconv"
	"sync"
	"testing"

	"github.com/pforte/pforte/pkg/sqldb"
)

func TestStatements_AreCarriedOutInTransactions(t *testing.T) {
	onEveryBackend(t, func(t *testing.T, url string) {
		db := open(t, url)
		const insert, unknown = `INSERT INTO things (name) VALUES (?)`, `SELECT 1`
		often := sqldb.NewStatements(insert)
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				often.Prepare(t.Context(), db)
				err := db.Tx(t.Context(), func(tx *sql.Tx) error {
					if often.In(t.Context(), tx, unknown) != nil {
						t.Error("another statement is prepared")
					}
					stmt := often.In(t.Context(), tx, insert)
					if prepared := stmt != nil; prepared != (db.Dialect == sqldb.SQLite) {
						t.Errorf("prepared: %v", prepared)
					}
					if stmt == nil {
						_, err := tx.ExecContext(t.Context(), db.Rebind(insert), strconv.Itoa(i))
						return err
					}
					_, err := stmt.ExecContext(t.Context(), strconv.Itoa(i))
					return err
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		var n int
		if err := db.Reader.QueryRowContext(t.Context(), `SELECT count(*) FROM things`).Scan(&n); err != nil || n != 100 {
			t.Errorf("%d rows, %v", n, err)
		}
	})
}

func TestStatements_ThatCannotBeParsedAreNotPrepared(t *testing.T) {
	onEveryBackend(t, func(t *testing.T, url string) {
		db := open(t, url)
		wrong := sqldb.NewStatements(`SELECT 1`, `no statement`)
		wrong.Prepare(t.Context(), db)
		cut, cancel := context.WithCancel(t.Context())
		cancel()
		wrong.Prepare(cut, db)
		_ = db.Tx(t.Context(), func(tx *sql.Tx) error {
			if wrong.In(t.Context(), tx, `SELECT 1`) != nil {
				t.Error("a part of them is prepared")
			}
			return nil
		})
	})
}
