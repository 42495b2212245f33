package sqldb

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
)

// ErrNotSQLite is returned for a file that is not a SQLite database.
var ErrNotSQLite = errors.New("the file is not a SQLite database")

// The header of a SQLite file (SQLite file format, section 1.3).
const (
	magic        = "SQLite format 3\x00"
	headerLength = 100
	writeVersion = 18 // the offset of the file format write version
	inLogMode    = 2
)

// head returns the header of a SQLite file. ErrNotSQLite.
func head(path string) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // chosen by the caller
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	header := make([]byte, headerLength)
	_, err = io.ReadFull(f, header)
	isShort := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	if isShort || err == nil && !bytes.HasPrefix(header, []byte(magic)) {
		return nil, ErrNotSQLite
	}
	return header, err
}

// OpenFile opens the SQLite file of another program, only to read it; its views
// and triggers are not trusted. The program may be running: what it wrote to its
// log (WAL) is read too. ErrNotSQLite.
func OpenFile(path string) (*sql.DB, error) {
	header, err := head(path)
	if err != nil {
		return nil, err
	}
	q := url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(5000)", "query_only(1)", "trusted_schema(0)"}}
	if _, err := os.Stat(path + "-wal"); header[writeVersion] == inLogMode && errors.Is(err, fs.ErrNotExist) {
		// No process has it open and everything is in the file. Without this it could
		// not be read in a folder that is read-only, where SQLite would create its log.
		q.Set("immutable", "1")
	}
	return openPool(path, 1, q)
}

// Path returns the path of the file in a database URL for SQLite; false for every
// other URL, and for a database in memory.
func Path(databaseURL string) (string, bool) {
	dialect, path, err := dialectOf(databaseURL)
	return path, err == nil && dialect == SQLite && path != memory
}

// Copy writes a copy of the SQLite file at path to a new file, as it was at one moment; the program
// that uses it may go on writing. The copy is on the disk when Copy returns. ErrNotSQLite;
// fs.ErrExist.
func Copy(ctx context.Context, path, to string) (err error) {
	if _, err := head(path); err != nil {
		return err
	}
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("%s: %w", to, os.ErrExist)
	}
	db, err := openPool(path, 1, url.Values{"mode": {"rw"}, "_pragma": {"busy_timeout(5000)"}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	// It reads in one transaction, which in WAL mode no writer waits for.
	if _, err := db.ExecContext(ctx, "VACUUM INTO ?", to); err != nil {
		return fmt.Errorf("copy database: %w", err)
	}
	return flush(to)
}

func flush(path string) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0) //nolint:gosec // the caller's
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return errors.Join(f.Chmod(0o600), f.Sync())
}

// ErrDamaged is returned for a database file that is damaged.
var ErrDamaged = errors.New("the database file is damaged")

// CheckFile reads and checks a whole SQLite file. ErrNotSQLite; ErrDamaged: also where the check cannot be finished.
func CheckFile(ctx context.Context, path string) (err error) {
	db, err := OpenFile(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var verdict string
	if err := db.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&verdict); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if verdict != "ok" {
		return fmt.Errorf("%w: %s", ErrDamaged, verdict)
	}
	return nil
}

// Empty reports whether a Postgres has no table in its schema, or a SQLite file is not there, by
// the URL of the database. The error never holds the password of the URL; ErrURL, ErrUnreachable.
func Empty(ctx context.Context, databaseURL string) (empty bool, err error) {
	if path, ok := Path(databaseURL); ok {
		_, err := os.Lstat(path)
		if errors.Is(err, os.ErrNotExist) {
			return true, nil
		}
		return false, err
	}
	db, err := connect(databaseURL, nil)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.reach(ctx); err != nil {
		return false, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	var tables int
	err = db.Reader.QueryRowContext(ctx, `SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()`).Scan(
		&tables)
	return tables == 0, err
}

// ExecWhereTable carries out a statement, without placeholders, if the database of a URL has the
// table; it is then as durable as after Tx. Rows that it deletes leave no bytes in a SQLite file.
// A program that writes into such a file meanwhile waits, as this does. The error never holds the
// password of the URL; ErrURL, ErrUnreachable.
func ExecWhereTable(ctx context.Context, databaseURL, table, statement string) error {
	return whereTable(ctx, databaseURL, table, func(db *DB) error {
		_, err := db.Writer.ExecContext(ctx, statement)
		return err
	})
}

// CountWhereTable returns the number that a query, without placeholders, returns if the database of a
// URL has the table, and else 0. The error never holds the password of the URL; ErrURL, ErrUnreachable.
func CountWhereTable(ctx context.Context, databaseURL, table, query string) (number int, err error) {
	err = whereTable(ctx, databaseURL, table, func(db *DB) error {
		return db.Reader.QueryRowContext(ctx, query).Scan(&number)
	})
	return number, err
}

// whereTable calls do with the database of a URL if it has the table.
func whereTable(ctx context.Context, databaseURL, table string, do func(*DB) error) (err error) {
	var db *DB
	query := "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema() AND tablename = $1"
	if path, ok := Path(databaseURL); ok {
		pool, err := openPool(path, 1, url.Values{
			"mode": {"rw"}, "_pragma": {"busy_timeout(5000)", "synchronous(FULL)", "secure_delete(ON)"},
		})
		if err != nil {
			return err
		}
		db, query = &DB{Dialect: SQLite, Writer: pool, Reader: pool},
			"SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?"
	} else if db, err = connect(databaseURL, nil); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.reach(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	var tables int
	if err := db.Reader.QueryRowContext(ctx, query, table).Scan(&tables); err != nil || tables == 0 {
		return err
	}
	return do(db)
}
