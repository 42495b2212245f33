package sqlstore

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/pkg/tracing"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// Migrations holds the migrations of the database, which sqldb.Open applies.
//
//go:embed migrations
var Migrations embed.FS

// timeout bounds each read outside a transaction, and a transaction with all its waits, but for imports and sweeps.
// Only tests change it.
var timeout = 4 * time.Second

const (
	importTimeout = 2 * time.Minute // of an import, which no request waits for
	sweepTimeout  = time.Minute     // of a sweep, which no request waits for
)

// Stores are the stores of one database, so that an act, what follows from it and its audit row can be one transaction.
// They are safe for concurrent use.
type Stores struct {
	Users        *Users
	Links        *Links
	Factors      *Factors
	Browsers     *Browsers
	Passkeys     *Passkeys
	Applications *Applications
	Groups       *Groups
	Tokens       *Tokens
	Audit        *Audit
	Clients      *Clients
	Keys         *Keys
	Grants       *Grants
	Logouts      *Logouts
}

// New returns the stores of a database that was opened with Migrations. now returns the current time. observe, unless
// it is nil, is called for each event of the audit after its commit, and must not block; the entry has no ID.
func New(opened *sqldb.DB, now func() time.Time, observe func(context.Context, audit.Entry)) *Stores {
	db := &database{opened, now, observe}
	return &Stores{
		Users:        &Users{db, sqldb.Keep(opened, db.userReader())},
		Links:        &Links{db},
		Factors:      &Factors{db},
		Browsers:     &Browsers{db},
		Passkeys:     &Passkeys{db},
		Applications: &Applications{db},
		Groups:       &Groups{db, sqldb.Keep(opened, db.visitorReader())},
		Tokens: &Tokens{db, db.Query(`SELECT ` + tokenColumns + `, ` + groupsOf +
			`, users.display_name, users.role, users.disabled_at, users.ends_at` + tokenTables +
			` WHERE app_tokens.token_hash = ?`)},
		Audit: &Audit{db}, Clients: &Clients{db}, Keys: &Keys{db}, Grants: &Grants{db, db.Query(selectHeld)},
		Logouts: &Logouts{db},
	}
}

type database struct {
	*sqldb.DB
	now     func() time.Time
	observe func(context.Context, audit.Entry) // or nil
}

// querier is the database or a transaction.
type querier interface {
	row(ctx context.Context, query string, args ...any) *sql.Row
	query(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// row reads a row without a transaction.
func (d *database) row(ctx context.Context, query string, args ...any) *sql.Row {
	return d.Reader.QueryRowContext(ctx, d.Rebind(query), args...)
}

func (d *database) query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return d.Reader.QueryContext(ctx, d.Rebind(query), args...)
}

// all reads rows.
func all[T any](
	ctx context.Context, q querier, scan func(sqldb.Scanner) (T, error), query string, args ...any,
) ([]T, error) {
	rows, err := q.query(ctx, query, args...)
	return sqldb.All(rows, err, scan)
}

// list reads rows without a transaction; what names the operation in errors.
func list[T any](ctx context.Context, d *database, what string, scan func(sqldb.Scanner) (T, error), query string,
	args ...any,
) ([]T, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return sqldb.List(ctx, d.DB, what, scan, query, args...)
}

// read reads a row of one column without a transaction; what names the operation in errors.
func read[T any](ctx context.Context, d *database, what, query string, args ...any) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	v, err := scanOne[T](d.row(ctx, query, args...))
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return v, err
}

// scanOne reads a row of one column.
func scanOne[T any](row sqldb.Scanner) (v T, err error) {
	err = row.Scan(&v)
	return v, err
}

// instant is a time that is stored in Unix seconds; NULL and 0 are the zero time. One is scanned to (*instant)(&t).
type instant time.Time

// Scan implements sql.Scanner.
func (t *instant) Scan(stored any) error {
	var unix sql.NullInt64
	if err := unix.Scan(stored); err != nil {
		return err
	}
	*t = instant{}
	if unix.Int64 != 0 {
		*t = instant(time.Unix(unix.Int64, 0).UTC())
	}
	return nil
}

// slugs are sorted, and stored as a list that is separated by spaces.
type slugs []string

// Scan implements sql.Scanner.
func (s *slugs) Scan(stored any) error {
	var list sql.NullString
	err := list.Scan(stored)
	*s = slices.Sorted(strings.FieldsSeq(list.String))
	return err
}

// orNone returns none where err says that a query found no row, and else err.
func orNone(err, none error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return none
	}
	return err
}

// found is orNone, but any other error says what failed.
func found(err error, what string, none error) error {
	if err == nil || errors.Is(err, sql.ErrNoRows) {
		return orNone(err, none)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// refuse returns wrong where a query, of one row with one boolean, finds that it is so.
func refuse(ctx context.Context, q querier, wrong error, query string, args ...any) error {
	var so bool
	if err := q.row(ctx, query, args...).Scan(&so); err != nil {
		return fmt.Errorf("find out whether %s: %w", wrong.Error(), err)
	}
	if so {
		return wrong
	}
	return nil
}

// transaction is one write transaction.
type transaction struct {
	*sql.Tx
	db       *database
	recorded []audit.Entry // for database.observe, after the commit
}

// write runs do in one write transaction within the limit; what names the operation in errors. It runs do again after
// the transaction lost against another one.
func (d *database) write(
	ctx context.Context, limit time.Duration, what string, do func(context.Context, *transaction) error,
) error {
	return d.writeBy(ctx, limit, what, d.Tx, do)
}

// writeRelaxed is write without the wait for the disk: the machine may lose what was written when it loses power.
func (d *database) writeRelaxed(
	ctx context.Context, what string, do func(context.Context, *transaction) error,
) error {
	return d.writeBy(ctx, timeout, what, d.TxRelaxed, do)
}

// exec is write for a single statement.
func (d *database) exec(ctx context.Context, what, query string, args ...any) error {
	return d.write(ctx, timeout, what, func(ctx context.Context, tx *transaction) error {
		return tx.exec(ctx, query, args...)
	})
}

func (d *database) writeBy(
	ctx context.Context, limit time.Duration, what string, run func(context.Context, func(*sql.Tx) error) error,
	do func(context.Context, *transaction) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ctx, span := tracing.Call(ctx, "sql", what)
	var last *transaction
	err := run(ctx, func(tx *sql.Tx) error {
		last = &transaction{Tx: tx, db: d}
		return do(ctx, last)
	})
	span.End(tracing.Failed(err))
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if d.observe != nil {
		for _, e := range last.recorded {
			d.observe(ctx, e)
		}
	}
	return nil
}

// change is write for what ends a user's sessions: it records the revocation in the same transaction, and returns it.
func (d *database) change(
	ctx context.Context, what string, r user.Revocation, do func(context.Context, *transaction) error,
) (user.Revocation, error) {
	err := d.write(ctx, timeout, what, func(ctx context.Context, tx *transaction) error {
		if err := do(ctx, tx); err != nil {
			return err
		}
		return tx.recordRevocation(ctx, &r)
	})
	return r, err
}

func (tx *transaction) row(ctx context.Context, query string, args ...any) *sql.Row {
	return tx.QueryRowContext(ctx, tx.db.Rebind(query), args...)
}

func (tx *transaction) query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return tx.QueryContext(ctx, tx.db.Rebind(query), args...)
}

// changed returns how many rows a statement has changed.
func (tx *transaction) changed(ctx context.Context, query string, args ...any) (int64, error) {
	result, err := tx.ExecContext(ctx, tx.db.Rebind(query), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (tx *transaction) exec(ctx context.Context, query string, args ...any) error {
	_, err := tx.changed(ctx, query, args...)
	return err
}

// update runs a statement, and returns user.ErrNotFound when that changes no row.
func (tx *transaction) update(ctx context.Context, query string, args ...any) error {
	return tx.updateOr(ctx, user.ErrNotFound, query, args...)
}

// updateOr runs a statement, and returns none when that changes no row.
func (tx *transaction) updateOr(ctx context.Context, none error, query string, args ...any) error {
	n, err := tx.changed(ctx, query, args...)
	if err == nil && n == 0 {
		return none
	}
	return err
}

// lock keeps other transactions from changing a table until this one ends; SQLite, with its one writer, needs none.
func (tx *transaction) lock(ctx context.Context, table string) error {
	if tx.db.Dialect != sqldb.Postgres {
		return nil
	}
	return tx.exec(ctx, `LOCK TABLE `+table+` IN SHARE ROW EXCLUSIVE MODE`)
}
