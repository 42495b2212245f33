package sqldb_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
)

// inTx runs do in a write transaction.
func inTx(t *testing.T, url string, do func(context.Context, *sql.Tx) error) {
	t.Helper()
	if err := open(t, url).Tx(t.Context(), func(tx *sql.Tx) error { return do(t.Context(), tx) }); err != nil {
		t.Error(err)
	}
}

func TestStatement_IsCarriedOutWhileItsRowsAreRead(t *testing.T) {
	inTx(t, sqldbtest.SQLite(t), func(ctx context.Context, tx *sql.Tx) error {
		for i := range 3 {
			if _, err := tx.ExecContext(ctx, "INSERT INTO things (name, count) VALUES (?, ?)", fmt.Sprint(i), i); err != nil {
				return err
			}
		}
		const query = "SELECT count FROM things WHERE count >= ? ORDER BY count"
		for range 2 { // the second time it is prepared already
			rows, err := tx.QueryContext(ctx, query, 0)
			read, err := sqldb.All(rows, err, func(row sqldb.Scanner) (of int, err error) {
				var inner int
				err = errors.Join(row.Scan(&of), tx.QueryRowContext(ctx, query, 2).Scan(&inner))
				if inner != 2 {
					t.Errorf("row %d: within it %d", of, inner)
				}
				return of, err
			})
			if err != nil || !slices.Equal(read, []int{0, 1, 2}) {
				t.Errorf("rows %v, %v", read, err)
			}
		}
		return firstRows(ctx, tx, query)
	})
}

// firstRows reads only the first row of some, twice.
func firstRows(ctx context.Context, tx *sql.Tx, query string) error {
	var first int
	if err := tx.QueryRowContext(ctx, query, 0).Scan(&first); err != nil || first != 0 {
		return fmt.Errorf("first row %d: %w", first, err)
	}
	if err := tx.QueryRowContext(ctx, query, 1).Scan(&first); err != nil || first != 1 {
		return fmt.Errorf("another row %d: %w", first, err)
	}
	return nil
}

// columnsOf returns the names of a query's columns.
func columnsOf(ctx context.Context, tx *sql.Tx, query string) ([]string, error) {
	rows, err := tx.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	names, err := rows.Columns()
	return names, errors.Join(err, rows.Err())
}

func TestStatement_FollowsTheSchema(t *testing.T) {
	inTx(t, sqldbtest.SQLite(t), func(ctx context.Context, tx *sql.Tx) error {
		const insert, columns = "INSERT INTO things (name, count) VALUES ('x', 1)", "SELECT * FROM things"
		for i, change := range []string{"", "ALTER TABLE things ADD COLUMN more TEXT", "ALTER TABLE things DROP COLUMN more"} {
			if change != "" {
				if _, err := tx.ExecContext(ctx, change); err != nil {
					return err
				}
			}
			names, err := columnsOf(ctx, tx, columns)
			if err != nil || len(names) != 3+i%2 {
				t.Errorf("after %q: %v, %v", change, names, err)
			}
			if i == 0 {
				if _, err := tx.ExecContext(ctx, insert); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func TestStatement_ThatFailsMayBeCarriedOutAgain(t *testing.T) {
	inTx(t, sqldbtest.SQLite(t), func(ctx context.Context, tx *sql.Tx) error {
		const insert = "INSERT INTO things (name, count) VALUES (?, 1)"
		for i, name := range []string{"x", "x", "y"} {
			_, err := tx.ExecContext(ctx, insert, name)
			if fails := i == 1; fails != (err != nil) {
				t.Errorf("%d: %v", i, err)
			}
		}
		return nil
	})
}

func TestStatement_IsOneOfAsManyAsThereMayBe(t *testing.T) {
	inTx(t, sqldbtest.SQLite(t), func(ctx context.Context, tx *sql.Tx) error {
		for i := range 1_000 {
			var n int
			if err := tx.QueryRowContext(ctx, fmt.Sprintf("SELECT %d + ?", i), 1).Scan(&n); err != nil || n != i+1 {
				return fmt.Errorf("%d, %w", n, err)
			}
		}
		return nil
	})
}

// The level is set as often as it is asked for: SQLite sets it where the PRAGMA is prepared.
func TestStatement_IsNoPragma(t *testing.T) {
	db := open(t, sqldbtest.SQLite(t))
	for range 3 {
		for text, want := range map[string]int{"NORMAL": 1, "FULL": 2} {
			if _, err := db.Writer.ExecContext(t.Context(), "PRAGMA synchronous="+text); err != nil {
				t.Fatal(err)
			}
			var level int
			if err := db.Writer.QueryRowContext(t.Context(), "PRAGMA synchronous").Scan(&level); err != nil || level != want {
				t.Errorf("%s: %d, %v", text, level, err)
			}
		}
	}
}
