package sqlstore

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/pkg/tracing"

	"github.com/pforte/pforte/services/auth/internal/user"
)

//go:embed migrations
var migrations embed.FS

// Migrations returns the migrations for sqldb.Open.
func Migrations() (fs.FS, error) { return fs.Sub(migrations, "migrations") }

// timeout bounds one method, including the wait for a connection and for locks.
const timeout = 4 * time.Second

// Store is a user.Store in SQL.
type Store struct {
	db  *sqldb.DB
	now func() time.Time
}

var _ user.Store = (*Store)(nil)

// New returns a store in a database that was opened with Migrations. now is the clock
// for the times of creation.
func New(db *sqldb.DB, now func() time.Time) *Store { return &Store{db: db, now: now} }

// tx runs do in one write transaction within the timeout; what names the operation in
// errors.
func (s *Store) tx(ctx context.Context, what string, do func(context.Context, *sql.Tx) error) error {
	return s.txWithin(ctx, timeout, what, do)
}

func (s *Store) txWithin(ctx context.Context, limit time.Duration, what string, do func(context.Context, *sql.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ctx, span := tracing.Call(ctx, "sql", what)
	err := s.db.Tx(ctx, func(tx *sql.Tx) error { return do(ctx, tx) })
	span.End(tracing.Failed(err))
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// querier is a pool or a transaction.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

const columns = `id, username, display_name, password_hash, avatar_color, role, created_at, session_stamp, kept_session`

// row is one of sql.Rows, or a sql.Row.
type row interface{ Scan(dest ...any) error }

// all returns what scan reads of each row of a query.
func all[T any](rows *sql.Rows, err error, scan func(row) (T, error)) (list []T, _ error) {
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, errors.Join(err, rows.Close())
		}
		list = append(list, v)
	}
	return list, errors.Join(rows.Err(), rows.Close())
}

func scan(row row) (user.User, error) {
	var u user.User
	var created int64
	err := row.Scan(&u.ID, &u.Username, &u.DisplayName, &u.PasswordHash, &u.AvatarColor, &u.Role, &created, &u.SessionStamp, &u.KeptSession)
	if errors.Is(err, sql.ErrNoRows) {
		return user.User{}, user.ErrNotFound
	}
	if err != nil {
		return user.User{}, fmt.Errorf("read user: %w", err)
	}
	u.CreatedAt = time.Unix(created, 0).UTC()
	return u, nil
}

const byID = `id = ?`

// ByID implements user.Store.
func (s *Store) ByID(ctx context.Context, id int64) (user.User, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return s.one(ctx, s.db.Reader, byID, id)
}

// one returns the user that a condition selects.
func (s *Store) one(ctx context.Context, q querier, where string, args ...any) (user.User, error) {
	ctx, span := tracing.Call(ctx, "sql", "read user")
	defer span.End("")
	return scan(q.QueryRowContext(ctx, s.db.Rebind(`SELECT `+columns+` FROM users WHERE `+where), args...))
}
