package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Scanner is one row: a Row, a sql.Row, or the current one of sql.Rows.
type Scanner interface{ Scan(dest ...any) error }

// All returns what scan reads of each row of a query, which returned rows and err, and
// closes the rows.
func All[T any](rows *sql.Rows, err error, scan func(Scanner) (T, error)) (list []T, _ error) {
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, errors.Join(err, rows.Close())
		}
		list = append(list, v)
	}
	return list, errors.Join(rows.Err(), rows.Close())
}

// List returns what scan reads of each row of a query outside of a transaction. The placeholders of the query are ?;
// what names the operation in errors.
func List[T any](
	ctx context.Context, db *DB, what string, scan func(Scanner) (T, error), query string, args ...any,
) ([]T, error) {
	rows, err := db.Reader.QueryContext(ctx, db.Rebind(query), args...)
	all, err := All(rows, err, scan)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return all, nil
}

// Moment returns a moment that a table has as Unix milliseconds, in UTC.
func Moment(milliseconds int64) time.Time { return time.UnixMilli(milliseconds).UTC() }

// Flag returns 1 for what holds, and else 0, as a table has it.
func Flag(holds bool) int {
	if holds {
		return 1
	}
	return 0
}
