// Package userfile reads the users of another application from its SQLite file or from
// CSV. It checks the form of the file only, not the users.
//
// The file has a table "users", or a first line, with the columns username,
// display_name and password_hash, and optionally id, avatar_color, role and
// created_at, in any order and letter case. Other columns are ignored and reported.
package userfile

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/pforte/pforte/pkg/sqldb"

	"github.com/pforte/pforte/services/auth/internal/user"
)

// MaxBytes is how large a file may be, in bytes.
const MaxBytes = 64 << 20

const maxUsers = 100_000

// Errors of Read.
var (
	ErrTooLarge = errors.New("the file has more than 64 MB or 100000 users")
	ErrColumns  = errors.New("column is missing or occurs twice")
)

// File is the content of a file.
type File struct {
	Records []user.Record
	Ignored []string // names of the other columns
}

// Read reads the file at path, a SQLite database (by its first bytes) or else CSV
// (RFC 4180) in UTF-8. ErrColumns, ErrTooLarge; an error never quotes a field.
func Read(ctx context.Context, path string) (File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return File{}, err
	}
	if info.Size() > MaxBytes {
		return File{}, ErrTooLarge
	}
	file, err := readSQLite(ctx, path)
	if errors.Is(err, sqldb.ErrNotSQLite) {
		return readCSV(path)
	}
	return file, err
}

// readSQLite reads the table users, in the order of its ids where it has them.
// sqldb.ErrNotSQLite, ErrColumns, ErrTooLarge.
func readSQLite(ctx context.Context, path string) (file File, err error) {
	db, err := sqldb.OpenFile(path)
	if err != nil {
		return File{}, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var names []string
	err = query(ctx, db, `SELECT name FROM pragma_table_info('users') ORDER BY cid`, 1, func(row []string) error {
		names = append(names, row[0])
		return nil
	})
	if err != nil {
		return File{}, fmt.Errorf("read columns of table users: %w", err)
	}
	if len(names) == 0 {
		return File{}, errors.New("the file has no table users")
	}
	var selected []string // as text: the driver would convert columns declared as times
	for _, name := range names {
		selected = append(selected, `coalesce(CAST("`+strings.ReplaceAll(name, `"`, `""`)+`" AS TEXT), '')`)
	}
	places, ignored, err := find(names)
	if err != nil {
		return File{}, fmt.Errorf("table users: %w", err)
	}
	file.Ignored = ignored
	text := `SELECT ` + strings.Join(selected, ", ") + ` FROM users`
	if slices.Contains(names, "id") {
		text += ` ORDER BY id`
	}
	err = query(ctx, db, text, len(names), func(row []string) error {
		return file.add(places, fmt.Sprintf("row %d", len(file.Records)+1), row)
	})
	switch {
	case errors.Is(err, ErrTooLarge):
		return File{}, err
	case err != nil:
		return File{}, fmt.Errorf("read table users: %w", err)
	}
	return file, nil
}

// query calls do with each row of a query that returns so many columns of text.
func query(ctx context.Context, db *sql.DB, text string, columns int, do func(row []string) error) (err error) {
	rows, err := db.QueryContext(ctx, text)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	row, into := make([]string, columns), make([]any, columns)
	for i := range row {
		into[i] = &row[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if err := do(row); err != nil {
			return err
		}
	}
	return rows.Err()
}

// byteOrderMark is written by spreadsheets before UTF-8.
const byteOrderMark = "\ufeff"

func readCSV(path string) (File, error) {
	f, err := os.Open(path) //nolint:gosec // the operator names it
	if err != nil {
		return File{}, err
	}
	defer func() { _ = f.Close() }()
	content := bufio.NewReader(io.LimitReader(f, MaxBytes))
	if begin, _ := content.Peek(len(byteOrderMark)); string(begin) == byteOrderMark {
		_, _ = content.Discard(len(byteOrderMark))
	}
	rows := csv.NewReader(content)
	names, err := rows.Read()
	if errors.Is(err, io.EOF) {
		return File{}, errors.New("the file is empty")
	} else if err != nil {
		return File{}, err
	}
	places, ignored, err := find(names)
	if err != nil {
		return File{}, fmt.Errorf("line 1: %w", err)
	}
	file := File{Ignored: ignored}
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return file, nil
		} else if err != nil {
			return File{}, err // it names the line and quotes nothing
		}
		line, _ := rows.FieldPos(0)
		if err := file.add(places, fmt.Sprintf("line %d", line), row); err != nil {
			return File{}, err
		}
	}
}

type field struct {
	name     string
	required bool
	of       func(*user.Record) *string
}

// fields are the columns that are read, required ones first, and where their text is
// stored.
var fields = []field{
	{"username", true, func(r *user.Record) *string { return &r.Username }},
	{"display_name", true, func(r *user.Record) *string { return &r.DisplayName }},
	{"password_hash", true, func(r *user.Record) *string { return &r.PasswordHash }},
	{"id", false, func(r *user.Record) *string { return &r.ID }},
	{"avatar_color", false, func(r *user.Record) *string { return &r.AvatarColor }},
	{"role", false, func(r *user.Record) *string { return &r.Role }},
	{"created_at", false, func(r *user.Record) *string { return &r.CreatedAt }},
}

// find sets the columns' names in lower case, without surrounding white space. It returns the index of each field
// among them, -1 for a missing one, and the names that are no field's. ErrColumns where a required one is missing, or
// one comes twice.
func find(names []string) (places []int, ignored []string, err error) {
	for i, name := range names {
		names[i] = strings.ToLower(strings.TrimSpace(name))
	}
	for _, field := range fields {
		place := slices.Index(names, field.name)
		if place < 0 && field.required {
			return nil, nil, fmt.Errorf("%s: %w", field.name, ErrColumns)
		}
		if place >= 0 && slices.Contains(names[place+1:], field.name) {
			return nil, nil, fmt.Errorf("%s: %w", field.name, ErrColumns)
		}
		places = append(places, place)
	}
	for i, name := range names {
		if !slices.Contains(places, i) {
			ignored = append(ignored, name)
		}
	}
	return places, ignored, nil
}

// add adds the record of a row. ErrTooLarge.
func (f *File) add(places []int, where string, row []string) error {
	if len(f.Records) == maxUsers {
		return ErrTooLarge
	}
	r := user.Record{Where: where}
	for i, place := range places {
		if place >= 0 {
			*fields[i].of(&r) = row[place]
		}
	}
	f.Records = append(f.Records, r)
	return nil
}
