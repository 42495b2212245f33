package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// maxTries bounds how often Tx runs a transaction that lost against another.
const maxTries = 8

// Tx runs do in one write transaction: committed when do returns nil, else
// rolled back. A transaction that lost against another one (serialization
// failure, deadlock, busy) is run again a bounded number of times, so do must
// have no effect but through tx. On SQLite writers queue before they begin.
func (db *DB) Tx(ctx context.Context, do func(tx *sql.Tx) error) error {
	var err error
	for try := range maxTries {
		if err = db.once(ctx, do); !lost(err) {
			return err
		}
		pause := time.Duration(rand.Int64N(int64(time.Millisecond) << try)) //nolint:gosec // spreads retries, guards nothing
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
	return err
}

func (db *DB) once(ctx context.Context, do func(tx *sql.Tx) error) error {
	tx, err := db.Writer.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing; a panic in do must not hold the writer
	if err := do(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// Postgres error codes (PostgreSQL documentation, appendix A).
const (
	pgUniqueViolation      = "23505"
	pgSerializationFailure = "40001"
	pgDeadlock             = "40P01"
)

func lost(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code == pgSerializationFailure || pg.Code == pgDeadlock
	}
	return isBusy(err)
}

// isBusy reports whether err is SQLite's SQLITE_BUSY: another connection holds a
// lock that this one needs.
func isBusy(err error) bool {
	var lite *sqlite.Error
	return errors.As(err, &lite) && lite.Code()&0xff == sqlite3.SQLITE_BUSY
}

// IsUnique tells whether err is the violation of a unique index or primary key.
func IsUnique(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code == pgUniqueViolation
	}
	var lite *sqlite.Error
	return errors.As(err, &lite) &&
		(lite.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || lite.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY)
}
