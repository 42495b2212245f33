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
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"github.com/pressly/goose/v3/lock"
	"modernc.org/sqlite"
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

// memory is the path of a SQLite database that is no file.
const memory = ":memory:"

// Why a database cannot be opened.
var (
	// ErrURL is returned for a database URL of no known form, and for one of Postgres that the driver cannot read.
	ErrURL = errors.New("database URL is neither sqlite:PATH nor a postgres://… that can be read")
	// ErrUnreachable is returned for a database that does not answer, or refuses
	// this client, and may answer later.
	ErrUnreachable = errors.New("database does not answer")
)

// DB is an open database. Writer is the pool for statements that change
// something, Reader for those that do not; on Postgres and in memory both are the same pool.
type DB struct {
	Dialect        Dialect
	Writer, Reader *sql.DB
	// reading has an element for each Query under way, on SQLite.
	reading chan struct{}
	// versions is nil where nothing is kept: on Postgres, and in memory.
	versions *versions
}

// Open opens the database of the URL ("sqlite:data/auth.db", "sqlite::memory:"
// or "postgres://…"), makes the folder of a new SQLite file, and applies the
// migrations that are missing: goose files in the folders "migrations/sqlite" and
// "migrations/postgres" of files. Several processes may do so at once. The error
// never holds the password of the URL; it is ErrURL or ErrUnreachable where
// that is what is wrong. Each connection to Postgres begins with the settings, such as
// "plan_cache_mode = force_generic_plan".
func Open(ctx context.Context, databaseURL string, files fs.FS, settings ...string) (*DB, error) {
	db, err := connect(databaseURL, settings)
	if err != nil {
		return nil, err
	}
	if err := db.reach(ctx); err != nil {
		if db.Dialect == Postgres || isBusy(err) {
			err = fmt.Errorf("%w: %w", ErrUnreachable, err)
		}
		return nil, errors.Join(err, db.Close())
	}
	if err := db.migrate(ctx, files); err != nil {
		return nil, errors.Join(fmt.Errorf("migrate database: %w", err), db.Close())
	}
	return db, nil
}

// reachTimeout bounds how long reach waits for the database to answer at all.
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

// CheckURL returns ErrURL, which does not quote the URL, unless Open takes a database URL. It opens
// no database.
func CheckURL(databaseURL string) error {
	dialect, _, err := dialectOf(databaseURL)
	if err == nil && dialect == Postgres {
		_, err = parsePostgres(databaseURL)
	}
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

func connect(databaseURL string, settings []string) (*DB, error) {
	dialect, path, err := dialectOf(databaseURL)
	switch {
	case err != nil:
		return nil, err
	case dialect == SQLite:
		return openSQLite(path)
	default:
		return openPostgres(databaseURL, settings)
	}
}

func parsePostgres(databaseURL string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		return nil, ErrURL // the driver's error quotes the URL
	}
	return config, nil
}

func openPostgres(databaseURL string, settings []string) (*DB, error) {
	config, err := parsePostgres(databaseURL)
	if err != nil {
		return nil, err
	}
	// Set by SET: PgBouncer refuses settings among the parameters with which a connection starts.
	pool := stdlib.OpenDB(*config, stdlib.OptionAfterConnect(func(ctx context.Context, conn *pgx.Conn) error {
		for _, setting := range settings {
			if _, err := conn.Exec(ctx, "SET "+setting); err != nil {
				return fmt.Errorf("set %s: %w", setting, err)
			}
		}
		return nil
	}))
	pool.SetMaxOpenConns(postgresMaxConns)
	pool.SetMaxIdleConns(postgresMaxConns)
	pool.SetConnMaxIdleTime(5 * time.Minute)
	return &DB{Dialect: Postgres, Writer: pool, Reader: pool}, nil
}

// pragmas are set on each connection of Writer and Reader to SQLite. synchronous(FULL) makes a commit
// durable against loss of power, not only of the process; TxRelaxed does without.
// The log is copied into the file after 8000 pages of 4 kB: with SQLite's own 1000
// a writer of many commits a second does so several times a second.
var pragmas = []string{
	"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)", "wal_autocheckpoint(8000)",
}

func openSQLite(path string) (*DB, error) {
	if path != memory {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, fmt.Errorf("create the folder of the database: %w", err)
		}
		// For its owner only. SQLite creates the files beside it with the same permissions.
		file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // named by the operator
		if err != nil {
			return nil, fmt.Errorf("open the database: %w", err)
		}
		if err := file.Close(); err != nil {
			return nil, err
		}
	}
	writer, err := openPool(path, 1, url.Values{"_txlock": {"immediate"}, "_pragma": pragmas})
	if err != nil || path == memory { // in memory every connection would be a database of its own
		return &DB{Dialect: SQLite, Writer: writer, Reader: writer, reading: make(chan struct{}, 1)}, err
	}
	reader, err := openPool(path, sqliteReaders,
		url.Values{"_pragma": slices.Concat(pragmas, []string{"query_only(1)"})})
	if err != nil {
		return nil, errors.Join(err, writer.Close())
	}
	return &DB{
		Dialect: SQLite, Writer: writer, Reader: reader, reading: make(chan struct{}, sqliteReaders),
		versions: &versions{open: func() (*sql.DB, error) {
			return openPool(path, 1, url.Values{"mode": {"rw"}, "_pragma": {"busy_timeout(5000)", "query_only(1)"}})
		}},
	}, nil
}

// openPool returns a pool of so many connections to a SQLite database.
func openPool(path string, conns int, options url.Values) (*sql.DB, error) {
	name := path
	if path != memory {
		name = "file:" + (&url.URL{Path: path}).EscapedPath()
	}
	connector, err := sqlite.NewConnector(name + "?" + options.Encode())
	if err != nil {
		return nil, fmt.Errorf("open SQLite: %w", err)
	}
	pool := sql.OpenDB(preparing{connector})
	pool.SetMaxOpenConns(conns)
	pool.SetMaxIdleConns(conns)
	return pool, nil
}

// Close closes all connections.
func (db *DB) Close() error {
	if db.Reader == db.Writer {
		return db.Writer.Close()
	}
	return errors.Join(db.versions.shut(), db.Reader.Close(), db.Writer.Close())
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
	var bound strings.Builder
	bound.Grow(len(query) + 2*strings.Count(query, "?"))
	for n := 1; ; n++ {
		before, after, found := strings.Cut(query, "?")
		bound.WriteString(before)
		if !found {
			return bound.String()
		}
		bound.WriteString("$" + strconv.Itoa(n))
		query = after
	}
}

// migrate applies what is missing. On Postgres a session lock makes replicas
// that start together wait for one another; SQLite has a file lock already.
func (db *DB) migrate(ctx context.Context, files fs.FS) error {
	steps, err := db.migrations(files)
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	dialect := database.DialectSQLite3
	options := []goose.ProviderOption{goose.WithDisableGlobalRegistry(true), goose.WithGoMigrations(steps...)}
	if db.Dialect == Postgres {
		dialect = database.DialectPostgres
		locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 60))
		if err != nil {
			return fmt.Errorf("create the migration lock: %w", err)
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	provider, err := goose.NewProvider(dialect, db.Writer, nil, options...)
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	return db.up(ctx, provider)
}

// noTransaction marks a file of goose that is not to be one transaction. migrations refuses such files.
const noTransaction = "+goose NO TRANSACTION"

// migrations returns the files of the dialect as steps of one script and one transaction each.
// All but the first are refused where the table that the first one creates is missing.
// goose's own reader splits the script, which neither database needs, with a buffer of 4 MB for
// each line: under the race detector that was most of what many tests did.
func (db *DB) migrations(files fs.FS) ([]*goose.Migration, error) {
	paths, err := fs.Glob(files, "migrations/"+string(db.Dialect)+"/*.sql")
	if err != nil {
		return nil, err
	}
	steps := make([]*goose.Migration, 0, len(paths))
	table := ""
	for _, path := range paths {
		version, err := goose.NumericComponent(path)
		if err != nil {
			return nil, err
		}
		text, err := fs.ReadFile(files, path)
		if err != nil {
			return nil, err
		}
		_, up, found := strings.Cut(string(text), "-- +goose Up\n")
		if !found || strings.Contains(string(text), noTransaction) {
			return nil, fmt.Errorf("%s: it is not one script after the line -- +goose Up, for one transaction", path)
		}
		up, _, _ = strings.Cut(up, "-- +goose Down\n")
		steps = append(steps, goose.NewGoMigration(version, &goose.GoFunc{RunTx: db.script(table, up)}, nil))
		if table == "" {
			_, rest, _ := strings.Cut(up, "CREATE TABLE ")
			table, _, _ = strings.Cut(rest, " ")
		}
	}
	return steps, nil
}

// script returns a function that carries out statements that ; separates, where the table is, if one
// is named. Another program's migrations have the same numbers: those that its database seems to
// lack would be written into it, and its own later ones left out.
func (db *DB) script(table, statements string) func(context.Context, *sql.Tx) error {
	var args []any
	if db.Dialect == Postgres {
		args = []any{pgx.QueryExecModeSimpleProtocol} // the others take one statement
	}
	return func(ctx context.Context, tx *sql.Tx) error {
		if table != "" {
			ours := "SELECT 1 FROM " + table + " LIMIT 0" //nolint:gosec // a name of our own files
			if _, err := tx.ExecContext(ctx, ours); err != nil {
				return fmt.Errorf("is it the database of another program? %w", err)
			}
		}
		_, err := tx.ExecContext(ctx, statements, args...)
		return err
	}
}

// retryPause is between two tries of a SQLite file that another process changes.
const retryPause = 50 * time.Millisecond

// up runs the provider. On SQLite, where processes that open one new file at the
// same moment fail in each other's migrations, it tries again until several tries
// in a row leave the schema's version as it was, or ctx ends.
func (db *DB) up(ctx context.Context, provider *goose.Provider) error {
	const tries = 10
	last := int64(-1)
	for left := tries; ; left-- {
		_, err := provider.Up(ctx)
		if err == nil || db.Dialect == Postgres {
			return err
		}
		if version, versionErr := provider.GetDBVersion(ctx); versionErr == nil && version != last {
			last, left = version, tries
		}
		if left == 1 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryPause):
		}
	}
}
