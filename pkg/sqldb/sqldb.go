package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "modernc.org/sqlite"             // the driver "sqlite"
)

// Dialect is the kind of SQL a database speaks.
type Dialect string

// The dialects.
const (
	SQLite   Dialect = "sqlite"
	Postgres Dialect = "postgres"
)

// Pool sizes of a process. SQLite has one writer by nature; its readers work
// beside it in WAL mode.
const (
	sqliteReaders    = 4
	postgresMaxConns = 16
)

// What Open may find.
var (
	// ErrURL is returned for a database URL of no known form.
	ErrURL = errors.New("database URL is neither sqlite:PATH nor postgres://…")
	// ErrUnreachable is returned for a database that does not answer, or refuses
	// this client, and may answer later.
	ErrUnreachable = errors.New("database does not answer")
)

// DB is an open database. Writer is the pool for statements that change
// something, Reader for those that do not; on Postgres both are the same pool.
type DB struct {
	Dialect        Dialect
	Writer, Reader *sql.DB
}

// Open opens the database of the URL ("sqlite:data/auth.db", "sqlite::memory:"
// or "postgres://…"), makes the folder of a new SQLite file, and applies the
// migrations that are missing: goose files in the folders "sqlite" and
// "postgres" of migrations. Several processes may do so at once. The error
// never holds the password of the URL; it is ErrURL or ErrUnreachable where
// that is what is wrong.
func Open(ctx context.Context, databaseURL string, migrations fs.FS) (*DB, error) {
	db, err := connect(databaseURL)
	if err != nil {
		return nil, err
	}
	if err := db.reach(ctx); err != nil {
		if db.Dialect == Postgres || isBusy(err) {
			err = fmt.Errorf("%w: %w", ErrUnreachable, err)
		}
		return nil, errors.Join(err, db.Close())
	}
	if err := db.migrate(ctx, migrations); err != nil {
		return nil, errors.Join(fmt.Errorf("migrate database: %w", err), db.Close())
	}
	return db, nil
}

// reachTimeout bounds how long Open waits for the database to answer at all.
const reachTimeout = 5 * time.Second

// reach opens the first connection. SQLite does not wait for its busy timeout
// when a connection switches a file to WAL while another process does the same
// (sqlite.org/rescode.html#busy), so reach tries again until reachTimeout.
func (db *DB) reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	for {
		err := db.Ping(ctx)
		if !isBusy(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(retryPause):
		}
	}
}

// CheckURL reports, without opening anything, whether a database URL has one of
// the forms that Open takes. Its error, ErrURL, does not quote the URL.
func CheckURL(databaseURL string) error {
	_, _, err := dialectOf(databaseURL)
	return err
}

// dialectOf returns the dialect of a URL and, for SQLite, the path in it.
func dialectOf(databaseURL string) (dialect Dialect, path string, err error) {
	if path, ok := strings.CutPrefix(databaseURL, "sqlite:"); ok && strings.TrimPrefix(path, "//") != "" {
		return SQLite, strings.TrimPrefix(path, "//"), nil
	}
	if strings.HasPrefix(databaseURL, "postgres://") || strings.HasPrefix(databaseURL, "postgresql://") {
		return Postgres, "", nil
	}
	return "", "", ErrURL
}

func connect(databaseURL string) (*DB, error) {
	dialect, path, err := dialectOf(databaseURL)
	switch {
	case err != nil:
		return nil, err
	case dialect == SQLite:
		return openSQLite(path)
	default:
		return openPostgres(databaseURL)
	}
}

func openPostgres(databaseURL string) (*DB, error) {
	pool, err := sql.Open("pgx", databaseURL)
	if err != nil {
		return nil, ErrURL // the driver's error quotes the URL
	}
	pool.SetMaxOpenConns(postgresMaxConns)
	pool.SetMaxIdleConns(postgresMaxConns)
	pool.SetConnMaxIdleTime(5 * time.Minute)
	return &DB{Dialect: Postgres, Writer: pool, Reader: pool}, nil
}

func openSQLite(path string) (*DB, error) {
	if path == ":memory:" {
		writer, err := sql.Open("sqlite", ":memory:?"+sqlitePragmas(false))
		if err != nil {
			return nil, fmt.Errorf("open SQLite: %w", err)
		}
		keepOne(writer) // every connection would be a database of its own
		return &DB{Dialect: SQLite, Writer: writer, Reader: writer}, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("create the folder of the database: %w", err)
	}
	if err := makePrivate(path); err != nil {
		return nil, err
	}
	name := "file:" + (&url.URL{Path: path}).EscapedPath() + "?"
	writer, err := sql.Open("sqlite", name+sqlitePragmas(false))
	if err != nil {
		return nil, fmt.Errorf("open SQLite: %w", err)
	}
	keepOne(writer)
	reader, err := sql.Open("sqlite", name+sqlitePragmas(true))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open SQLite: %w", err), writer.Close())
	}
	reader.SetMaxOpenConns(sqliteReaders)
	reader.SetMaxIdleConns(sqliteReaders)
	return &DB{Dialect: SQLite, Writer: writer, Reader: reader}, nil
}

// makePrivate creates the file if it does not exist, for its owner only. SQLite
// creates the files beside it with the same permissions.
func makePrivate(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // named by the operator
	if err != nil {
		return fmt.Errorf("open the database: %w", err)
	}
	return file.Close()
}

// sqlitePragmas are set on each connection. synchronous(FULL) makes a commit
// durable against loss of power, not only of the process; TxRelaxed does without.
// The log is copied into the file after 8000 pages of 4 kB: with SQLite's own 1000
// a writer of many commits a second does so several times a second.
func sqlitePragmas(readOnly bool) string {
	q := url.Values{"_pragma": {"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)", "wal_autocheckpoint(8000)"}}
	if readOnly {
		q.Add("_pragma", "query_only(1)")
	} else {
		q.Set("_txlock", "immediate")
	}
	return q.Encode()
}

func keepOne(pool *sql.DB) {
	pool.SetMaxOpenConns(1)
	pool.SetMaxIdleConns(1)
}

// Close closes all connections.
func (db *DB) Close() error {
	if db.Reader == db.Writer {
		return db.Writer.Close()
	}
	return errors.Join(db.Reader.Close(), db.Writer.Close())
}

// Ping returns an error unless the database answers.
func (db *DB) Ping(ctx context.Context) error {
	return db.Writer.PingContext(ctx)
}

// Rebind turns the placeholders ? of a query into those of the dialect. The
// query must hold no question mark in a literal.
func (db *DB) Rebind(query string) string {
	if db.Dialect != Postgres {
		return query
	}
	var b strings.Builder
	n := 0
	for _, r := range query {
		if r != '?' {
			b.WriteRune(r)
			continue
		}
		n++
		b.WriteString("$" + strconv.Itoa(n))
	}
	return b.String()
}
