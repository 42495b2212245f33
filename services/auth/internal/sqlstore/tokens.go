package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/token"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// tokenColumns are of app_tokens beside its user's row.
//
//nolint:gosec // names
const tokenColumns = `app_tokens.id, app_tokens.user_id, users.username, app_tokens.name, app_tokens.prefix, app_tokens.read_only, app_tokens.created_by, app_tokens.created_at,
	coalesce(app_tokens.expires_at, 0), coalesce(app_tokens.revoked_at, 0), coalesce(app_tokens.last_used_at, 0),
	coalesce((SELECT string_agg(applications.slug, ' ') FROM app_token_scopes JOIN applications ON applications.id = app_token_scopes.application_id
	WHERE app_token_scopes.token_id = app_tokens.id), '')`

const tokenTables = ` FROM app_tokens JOIN users ON users.id = app_tokens.user_id` //nolint:gosec // names

func scanToken(row sqldb.Scanner) (token.Token, error) {
	var t token.Token
	var created, expires, revoked, used int64
	var apps string
	err := row.Scan(&t.ID, &t.UserID, &t.Username, &t.Name, &t.Shown, &t.ReadOnly, &t.CreatedBy, &created, &expires, &revoked, &used, &apps)
	if errors.Is(err, sql.ErrNoRows) {
		return token.Token{}, token.ErrNotFound
	}
	t.CreatedAt, t.ExpiresAt, t.RevokedAt, t.LastUsedAt = instant(created), instant(expires), instant(revoked), instant(used)
	t.Applications = slugs(apps)
	return t, err
}

// CreateToken implements policy.Tokens.
func (s *Store) CreateToken(ctx context.Context, t token.Token, hash string, by int64) (created token.Token, err error) {
	err = s.tx(ctx, timeout, "create app token", func(ctx context.Context, tx *sql.Tx) error {
		if by != t.UserID {
			if err := s.mayAct(ctx, tx, by); err != nil {
				return err
			}
		}
		// The user's row is locked, so that of many at once no more than permitted are created.
		if _, err := s.lockUser(ctx, tx, t.UserID); err != nil {
			return err
		}
		err := s.hasRoom(ctx, tx, `SELECT count(*) FROM app_tokens WHERE user_id = ?`, token.MaxPerUser, t.UserID)
		if errors.Is(err, application.ErrTooMany) {
			return token.ErrTooMany
		}
		if err != nil {
			return err
		}
		var id int64
		err = tx.QueryRowContext(ctx, s.db.Rebind(`INSERT INTO app_tokens (token_hash, prefix, name, user_id, created_by, read_only, created_at, expires_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`), hash, t.Shown, t.Name, t.UserID, by, t.ReadOnly, s.now().Unix(),
			sql.NullInt64{Int64: t.ExpiresAt.Unix(), Valid: !t.ExpiresAt.IsZero()}).Scan(&id)
		if err != nil {
			return err
		}
		for _, slug := range t.Applications {
			err := s.update(ctx, tx, `INSERT INTO app_token_scopes (token_id, application_id) SELECT CAST(? AS BIGINT), id FROM applications WHERE slug = ? AND tokens`, id, slug)
			if errors.Is(err, user.ErrNotFound) {
				return token.ErrScope
			}
			if err != nil {
				return err
			}
		}
		if created, err = s.token(ctx, tx, id); err != nil {
			return err
		}
		return s.recordAbout(ctx, tx, "token_made", t.UserID, detailOf(created))
	})
	if err != nil {
		return token.Token{}, err
	}
	return created, nil
}

// detailOf returns what the audit holds of a token.
func detailOf(t token.Token) map[string]any {
	return map[string]any{"token": t.ID, "name": t.Name, "apps": t.Applications, "read_only": t.ReadOnly}
}

func (s *Store) token(ctx context.Context, q querier, id int64) (token.Token, error) {
	return scanToken(q.QueryRowContext(ctx, s.db.Rebind(`SELECT `+tokenColumns+tokenTables+` WHERE app_tokens.id = ?`), id))
}

// Tokens implements policy.Tokens.
func (s *Store) Tokens(ctx context.Context, userID int64) ([]token.Token, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	rows, err := s.db.Reader.QueryContext(ctx, s.db.Rebind(`SELECT `+tokenColumns+tokenTables+` WHERE app_tokens.user_id = ? OR ? = 0 ORDER BY app_tokens.id DESC`), userID, userID)
	tokens, err := sqldb.All(rows, err, scanToken)
	if err != nil {
		return nil, fmt.Errorf("list app tokens: %w", err)
	}
	return tokens, nil
}

// changeToken runs do on a token on behalf of its user, an admin or the Operator. To
// others there is no such token.
func (s *Store) changeToken(ctx context.Context, what string, id, by int64, do func(context.Context, *sql.Tx, token.Token) error) error {
	return s.tx(ctx, timeout, what, func(ctx context.Context, tx *sql.Tx) error {
		err := s.update(ctx, tx, `UPDATE app_tokens SET name = name WHERE id = ?`, id)
		if errors.Is(err, user.ErrNotFound) {
			return token.ErrNotFound
		}
		if err != nil {
			return err
		}
		t, err := s.token(ctx, tx, id)
		if err != nil {
			return err
		}
		if by != t.UserID {
			err := s.mayAct(ctx, tx, by)
			if errors.Is(err, user.ErrNotAdmin) {
				return token.ErrNotFound
			}
			if err != nil {
				return err
			}
		}
		return do(ctx, tx, t)
	})
}

// RevokeToken implements policy.Tokens.
func (s *Store) RevokeToken(ctx context.Context, id, by int64) error {
	return s.changeToken(ctx, "revoke app token", id, by, func(ctx context.Context, tx *sql.Tx, t token.Token) error {
		if !t.RevokedAt.IsZero() {
			return nil
		}
		if err := s.update(ctx, tx, `UPDATE app_tokens SET revoked_at = ? WHERE id = ?`, s.now().Unix(), id); err != nil {
			return err
		}
		return s.recordAbout(ctx, tx, "token_revoked", t.UserID, detailOf(t))
	})
}

// RevokeTokens implements policy.Tokens.
func (s *Store) RevokeTokens(ctx context.Context, userID int64) (n int64, err error) {
	err = s.tx(ctx, timeout, "revoke app tokens", func(ctx context.Context, tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, s.db.Rebind(`UPDATE app_tokens SET revoked_at = ? WHERE user_id = ? AND revoked_at IS NULL`), s.now().Unix(), userID)
		if err != nil {
			return err
		}
		if n, err = result.RowsAffected(); err != nil || n == 0 {
			return err
		}
		return s.recordAbout(ctx, tx, "token_revoked", userID, map[string]any{"tokens": n})
	})
	return n, err
}

// RemoveToken implements policy.Tokens.
func (s *Store) RemoveToken(ctx context.Context, id, by int64) error {
	return s.changeToken(ctx, "remove app token", id, by, func(ctx context.Context, tx *sql.Tx, t token.Token) error {
		if t.Valid(s.now()) {
			return token.ErrActive
		}
		return s.update(ctx, tx, `DELETE FROM app_tokens WHERE id = ?`, id)
	})
}

// TokenVisitor implements policy.Tokens.
func (s *Store) TokenVisitor(ctx context.Context, hash string) (token.Token, user.User, []string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var groups string
	var u user.User
	t, err := scanToken(withMore{s.tokenVisitor.Row(ctx, hash), []any{&groups, &u.DisplayName, &u.Role}})
	if errors.Is(err, token.ErrNotFound) || err == nil && !t.Valid(s.now()) {
		return token.Token{}, user.User{}, nil, token.ErrInvalid
	}
	if err != nil {
		return token.Token{}, user.User{}, nil, fmt.Errorf("read app token: %w", err)
	}
	u.ID, u.Username = t.UserID, t.Username
	return t, u, slugs(groups), nil
}

// TokenUsed implements policy.Tokens.
func (s *Store) TokenUsed(ctx context.Context, id int64) error {
	return s.tx(ctx, timeout, "record use of an app token", func(ctx context.Context, tx *sql.Tx) error {
		now := s.now()
		_, err := tx.ExecContext(ctx, s.db.Rebind(`UPDATE app_tokens SET last_used_at = ? WHERE id = ? AND coalesce(last_used_at, 0) <= ?`), now.Unix(), id, now.Add(-time.Hour).Unix())
		return err
	})
}

// SweepTokens implements policy.Tokens.
func (s *Store) SweepTokens(ctx context.Context, before time.Time) (swept int64, err error) {
	err = s.tx(ctx, sweepTimeout, "sweep app tokens", func(ctx context.Context, tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, s.db.Rebind(`DELETE FROM app_tokens WHERE revoked_at < ? OR expires_at < ?`), before.Unix(), before.Unix())
		if err != nil {
			return err
		}
		swept, err = result.RowsAffected()
		return err
	})
	return swept, err
}
