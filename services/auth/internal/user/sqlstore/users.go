package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pforte/pforte/pkg/sqldb"

	"github.com/pforte/pforte/services/auth/internal/user"
)

// Create implements user.Store.
func (s *Store) Create(ctx context.Context, n user.New, by int64) (user.User, error) {
	var created user.User
	err := s.tx(ctx, "create user", func(ctx context.Context, tx *sql.Tx) (err error) {
		if err := s.mayAct(ctx, tx, by); err != nil {
			return err
		}
		created, err = s.insert(ctx, tx, user.User{New: n})
		return err
	})
	return created, err
}

// mayAct returns ErrNotAdmin unless by is the Operator or an admin. It locks the
// admin's row, so that a concurrent deletion or demotion waits for the transaction.
func (s *Store) mayAct(ctx context.Context, tx *sql.Tx, by int64) error {
	if by == user.Operator {
		return nil
	}
	query := `SELECT role FROM users WHERE id = ?`
	if s.db.Dialect == sqldb.Postgres {
		query += ` FOR SHARE`
	}
	var role string
	err := tx.QueryRowContext(ctx, s.db.Rebind(query), by).Scan(&role)
	if errors.Is(err, sql.ErrNoRows) || err == nil && role != string(user.Admin) {
		return user.ErrNotAdmin
	}
	return err
}

// CreateFirst implements user.Store.
func (s *Store) CreateFirst(ctx context.Context, n user.New) (user.User, error) {
	var created user.User
	err := s.tx(ctx, "create first user", func(ctx context.Context, tx *sql.Tx) error {
		if err := s.alone(ctx, tx); err != nil {
			return err
		}
		var some bool
		if err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM users)`).Scan(&some); err != nil {
			return err
		}
		if some {
			return user.ErrNotEmpty
		}
		var err error
		created, err = s.insert(ctx, tx, user.User{New: n})
		return err
	})
	return created, err
}

// alone blocks every other insert until the transaction ends. SQLite has one writer.
func (s *Store) alone(ctx context.Context, tx *sql.Tx) error {
	if s.db.Dialect != sqldb.Postgres {
		return nil
	}
	_, err := tx.ExecContext(ctx, `LOCK TABLE users IN SHARE ROW EXCLUSIVE MODE`)
	return err
}

// insert adds u, under its ID unless that is 0, and returns it as stored.
func (s *Store) insert(ctx context.Context, tx *sql.Tx, u user.User) (user.User, error) {
	if u.CreatedAt.IsZero() {
		u.CreatedAt = s.now()
	}
	u.CreatedAt, u.SessionStamp = u.CreatedAt.UTC().Truncate(time.Second), user.NewSessionStamp()
	names := `username, display_name, password_hash, avatar_color, role, created_at, session_stamp`
	args := []any{u.Username, u.DisplayName, u.PasswordHash, u.AvatarColor, string(u.Role), u.CreatedAt.Unix(), u.SessionStamp}
	if u.ID != 0 {
		names, args = names+`, id`, append(args, u.ID)
	}
	query := `INSERT INTO users (` + names + `) VALUES (?` + strings.Repeat(`, ?`, len(args)-1) + `) RETURNING id`
	err := tx.QueryRowContext(ctx, s.db.Rebind(query), args...).Scan(&u.ID)
	if sqldb.IsUnique(err) {
		return user.User{}, user.ErrUsernameTaken
	}
	if err != nil {
		return user.User{}, err
	}
	return u, nil
}

// ByUsername implements user.Store.
func (s *Store) ByUsername(ctx context.Context, username string) (user.User, error) {
	if !utf8.ValidString(username) || strings.ContainsRune(username, 0) {
		return user.User{}, user.ErrNotFound // Postgres refuses such text, even to compare
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	// lower() uses the index, the second condition compares the case
	return s.one(ctx, s.db.Reader, `lower(username) = ? AND username = ?`, asciiLower(username), username)
}

// asciiLower is lower() of both indexes; stored names are ASCII.
func asciiLower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, s)
}

// List implements user.Store.
func (s *Store) List(ctx context.Context) ([]user.User, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	rows, err := s.db.Reader.QueryContext(ctx, `SELECT `+columns+` FROM users ORDER BY id`)
	users, err := all(rows, err, scan)
	if err != nil {
		return nil, fmt.Errorf("list users: %w", err)
	}
	return users, nil
}
