package sqldb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
)

// ErrMissing is returned for a database that is not there: see Existing.
var ErrMissing = errors.New("is no database of this program")

// Existing returns an error unless the database of the URL is there. ErrMissing: there is no file or
// an empty one, a Postgres has no migrations, or the database is in memory. Any SQLite file passes.
// It creates nothing. ErrURL, ErrUnreachable, ErrNotSQLite.
func Existing(ctx context.Context, databaseURL string) error {
	if path, isFile := Path(databaseURL); isFile {
		if at, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || err == nil && at.Size() == 0 {
			return ErrMissing
		}
		_, err := head(path)
		return err
	}
	db, err := connect(databaseURL, nil)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	if err := db.reach(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if db.Dialect == SQLite {
		return ErrMissing // in memory
	}
	var found bool
	row := db.Reader.QueryRowContext(ctx, "SELECT to_regclass('goose_db_version') IS NOT NULL")
	if err := row.Scan(&found); err != nil {
		return fmt.Errorf("find the migrations: %w", err)
	}
	if !found {
		return ErrMissing
	}
	return nil
}

// Place returns the database of a URL for people, without a password: the whole path of a file, or
// host and name; for any other URL a text that names none.
func Place(databaseURL string) string {
	if path, isFile := Path(databaseURL); isFile {
		if whole, err := filepath.Abs(path); err == nil {
			path = whole
		}
		return "sqlite:" + path
	}
	if u, err := url.Parse(databaseURL); err == nil && u.Host != "" {
		return u.Scheme + "://" + u.Host + u.Path
	}
	return "the database of DATABASE_URL"
}
