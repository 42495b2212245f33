package userfile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pforte/pforte/pkg/sqldb"
)

// readSQLite reads the table users, in the order of its ids where it has them.
// sqldb.ErrNotSQLite.
func readSQLite(ctx context.Context, path string) (file File, err error) {
	db, err := sqldb.OpenFile(path)
	if err != nil {
		return File{}, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	names, err := columnsOf(ctx, db)
	if err != nil {
		return File{}, err
	}
	places, ignored, err := find(names)
	if err != nil {
		return File{}, fmt.Errorf("table users: %w", err)
	}
	rows, err := db.QueryContext(ctx, query(places))
	if err != nil {
		return File{}, fmt.Errorf("read table users: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	file.Ignored = ignored
	row := make([]string, len(fields))
	into := make([]any, len(fields))
	for i := range row {
		into[i] = &row[i]
	}
	all := make(columns, len(fields))
	for i := range all {
		all[i] = i
	}
	for rows.Next() {
		if len(file.Records) == maxUsers {
			return File{}, ErrTooLarge
		}
		if err := rows.Scan(into...); err != nil {
			return File{}, fmt.Errorf("read table users: %w", err)
		}
		file.Records = append(file.Records, all.record(fmt.Sprintf("row %d", len(file.Records)+1), row))
	}
	return file, rows.Err()
}

// columnsOf returns the names of the columns of the table users.
func columnsOf(ctx context.Context, db *sql.DB) (names []string, err error) {
	rows, err := db.QueryContext(ctx, `SELECT name FROM pragma_table_info('users') ORDER BY cid`)
	if err != nil {
		return nil, fmt.Errorf("read columns of table users: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, fmt.Errorf("read columns of table users: %w", err)
		}
		names = append(names, name)
	}
	if len(names) == 0 && rows.Err() == nil {
		return nil, errors.New("the file has no table users")
	}
	return names, rows.Err()
}

// query selects all fields as text, as the driver would convert columns declared as
// times.
func query(places columns) string {
	var selected []string
	for i, field := range fields {
		column := `''`
		if places[i] >= 0 {
			column = `coalesce(CAST(` + field.name + ` AS TEXT), '')`
		}
		selected = append(selected, column)
	}
	text := `SELECT ` + strings.Join(selected, ", ") + ` FROM users`
	if places[slices.IndexFunc(fields, func(f field) bool { return f.name == "id" })] >= 0 {
		text += ` ORDER BY id`
	}
	return text
}
