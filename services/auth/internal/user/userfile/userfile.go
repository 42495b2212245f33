package userfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/pforte/pforte/pkg/sqldb"

	"github.com/pforte/pforte/services/auth/internal/user"
)

// MaxBytes is how large a file may be.
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

// columns is the index of each field in a row, -1 for none.
type columns []int

// find returns the places of the fields among the columns' names, and the other names.
func find(names []string) (places columns, ignored []string, err error) {
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

// record returns the record of a row.
func (c columns) record(where string, row []string) user.Record {
	r := user.Record{Where: where}
	for i, place := range c {
		if place >= 0 {
			*fields[i].of(&r) = row[place]
		}
	}
	return r
}
