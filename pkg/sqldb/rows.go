package sqldb

import (
	"database/sql"
	"errors"
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

// Moment returns a moment that a table has as Unix milliseconds, in UTC.
func Moment(milliseconds int64) time.Time { return time.UnixMilli(milliseconds).UTC() }

// Flag returns 1 for what holds, and else 0, as a table has it.
func Flag(holds bool) int {
	if holds {
		return 1
	}
	return 0
}
