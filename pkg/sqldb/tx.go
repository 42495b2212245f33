package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// maxTries bounds how often a transaction is run that lost against another.
const maxTries = 8

// Tx runs do in one write transaction: committed, and on the disk, when Tx returns
// nil; rolled back when do returns an error. Postgres waits for the disk unless its
// synchronous_commit is set otherwise. A transaction that lost against another one (serialization
// failure, deadlock, busy) is run again a bounded number of times, so do must have no
// effect but through tx. On SQLite writers queue before they begin.
func (db *DB) Tx(ctx context.Context, do func(tx *sql.Tx) error) error {
	return db.retry(ctx, func() error { return once(ctx, db.Writer, do) })
}

// TxRelaxed is Tx, but its commit does not wait for the disk: it may be lost with the
// power or with Postgres, though not with this process, until a later commit of Tx.
func (db *DB) TxRelaxed(ctx context.Context, do func(tx *sql.Tx) error) error {
	if db.Dialect == Postgres {
		return db.Tx(ctx, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, "SET LOCAL synchronous_commit = off"); err != nil {
				return fmt.Errorf("relax the commit: %w", err)
			}
			return do(tx)
		})
	}
	return db.retry(ctx, func() error { return db.onceRelaxed(ctx, do) })
}

// onceRelaxed is once on SQLite without waiting for the disk: it lowers PRAGMA
// synchronous on the connection that it uses, and sets it back before another
// transaction can use it. A connection where that fails is closed.
func (db *DB) onceRelaxed(ctx context.Context, do func(tx *sql.Tx) error) (err error) {
	conn, err := db.Writer.Conn(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = conn.Close() }()
	defer func() {
		if _, fault := conn.ExecContext(context.WithoutCancel(ctx), "PRAGMA synchronous=FULL"); fault != nil {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		}
	}()
	if _, err := conn.ExecContext(ctx, "PRAGMA synchronous=NORMAL"); err != nil {
		return fmt.Errorf("relax the commit: %w", err)
	}
	return once(ctx, conn, do)
}

func (db *DB) retry(ctx context.Context, once func() error) error {
	var err error
	for try := range maxTries {
		if err = once(); !lost(err) {
			return err
		}
		pause := time.Duration(rand.Int64N(int64(time.Millisecond) << try)) //nolint:gosec // spreads retries only
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
	return err
}

// beginner is a pool or a connection.
type beginner interface {
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
}

func once(ctx context.Context, on beginner, do func(tx *sql.Tx) error) error {
	tx, err := on.BeginTx(ctx, nil)
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

// Exec carries out a statement, whose placeholders are ?, and reports whether it changed a row.
func (db *DB) Exec(ctx context.Context, tx *sql.Tx, statement string, args ...any) (changed bool, err error) {
	result, err := tx.ExecContext(ctx, db.Rebind(statement), args...)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
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

// IsUnique reports whether err is the violation of a unique index or primary key.
func IsUnique(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code == pgUniqueViolation
	}
	var lite *sqlite.Error
	return errors.As(err, &lite) &&
		(lite.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || lite.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY)
}
