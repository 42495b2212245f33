package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/pforte/pforte/pkg/sqldb"
)

// statements are the queries of a sale, prepared once: parsing them anew would
// cost more than carrying them out. Those that change something are prepared
// for the writer's connections, get is for the readers'.
type statements struct {
	claim, release, count, begin, keep, settle, find, tally *sql.Stmt // writer
	get, failed, bought                                     *sql.Stmt // reader
}

// in runs a prepared query in a transaction, whose end closes the statement.
func in(ctx context.Context, tx *sql.Tx, stmt *sql.Stmt, args ...any) *sql.Row {
	return tx.StmtContext(ctx, stmt).QueryRowContext(ctx, args...) //nolint:sqlclosecheck // closed with the transaction
}

// changed carries out a prepared statement in a transaction and reports whether it
// changed a row.
func changed(ctx context.Context, tx *sql.Tx, stmt *sql.Stmt, args ...any) (bool, error) {
	result, err := tx.StmtContext(ctx, stmt).ExecContext(ctx, args...) //nolint:sqlclosecheck // closed with the transaction
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

func prepare(ctx context.Context, db *sqldb.DB) (s statements, err error) {
	for _, p := range []struct {
		into  **sql.Stmt
		pool  *sql.DB
		query string
	}{
		{&s.claim, db.Writer, claimSQL},
		{&s.release, db.Writer, releaseSQL},
		{&s.count, db.Writer, countSQL},
		{&s.begin, db.Writer, beginSQL},
		{&s.keep, db.Writer, keepSQL},
		{&s.settle, db.Writer, settleSQL},
		{&s.find, db.Writer, findSQL},
		{&s.tally, db.Writer, tallySQL},
		{&s.get, db.Reader, getSQL},
		{&s.failed, db.Reader, failedSQL},
		{&s.bought, db.Reader, boughtSQL},
	} {
		*p.into, err = p.pool.PrepareContext(ctx, db.Rebind(p.query)) //nolint:sqlclosecheck // closed with the ledger
		if err != nil {
			return s, errors.Join(fmt.Errorf("prepare the ledger: %w", err), s.close())
		}
	}
	return s, nil
}

func (s statements) close() error {
	var faults []error
	for _, stmt := range []*sql.Stmt{s.claim, s.release, s.count, s.begin, s.keep, s.settle, s.find, s.tally, s.get, s.failed, s.bought} {
		if stmt != nil {
			faults = append(faults, stmt.Close())
		}
	}
	return errors.Join(faults...)
}
