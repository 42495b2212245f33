package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/token"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// tokenColumns are what scanToken reads of a row of tokenTables.
//
//nolint:gosec // names
const tokenColumns = `app_tokens.id, app_tokens.user_id, users.username, app_tokens.name, app_tokens.prefix,
	app_tokens.read_only, app_tokens.created_by, app_tokens.created_at,
	app_tokens.expires_at, app_tokens.revoked_at, app_tokens.last_used_at,
	coalesce((SELECT string_agg(applications.slug, ' ') FROM app_token_scopes
	JOIN applications ON applications.id = app_token_scopes.application_id
	WHERE app_token_scopes.token_id = app_tokens.id), '')`

const tokenTables = ` FROM app_tokens JOIN users ON users.id = app_tokens.user_id` //nolint:gosec // names

func scanToken(row sqldb.Scanner) (token.Token, error) {
	var t token.Token
	err := row.Scan(&t.ID, &t.UserID, &t.Username, &t.Name, &t.Shown, &t.ReadOnly, &t.CreatedBy,
		(*instant)(&t.CreatedAt), (*instant)(&t.ExpiresAt), (*instant)(&t.RevokedAt), (*instant)(&t.LastUsedAt),
		(*slugs)(&t.Applications))
	return t, orNone(err, token.ErrNotFound)
}

// Tokens keeps app tokens.
type Tokens struct {
	db      *database
	visitor *sqldb.Query // for TokenVisitor
}

// CreateToken implements policy.Tokens.
func (s *Tokens) CreateToken(
	ctx context.Context, t token.Token, hash string, by session.Session,
) (created token.Token, err error) {
	err = s.db.write(ctx, timeout, "create app token", func(ctx context.Context, tx *transaction) error {
		// The user's row is locked, so that of many at once no more than permitted are created.
		var err error
		if by.UserID == t.UserID {
			_, err = tx.lockUserOf(ctx, by)
		} else if err = tx.sessionMayAct(ctx, by); err == nil {
			_, err = tx.lockUser(ctx, t.UserID)
		}
		if err != nil {
			return err
		}
		err = refuse(ctx, tx, token.ErrTooMany, `SELECT count(*) >= ? FROM app_tokens WHERE user_id = ?`,
			token.MaxPerUser, t.UserID)
		if err != nil {
			return err
		}
		var id int64
		err = tx.row(ctx, `INSERT INTO app_tokens (token_hash, prefix, name, user_id, created_by, read_only,
			created_at, expires_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
			hash, t.Shown, t.Name, t.UserID, by.UserID, t.ReadOnly, s.db.now().Unix(), orNull(t.ExpiresAt)).Scan(&id)
		if err != nil {
			return err
		}
		for _, slug := range t.Applications {
			err := tx.updateOr(ctx, token.ErrScope, `INSERT INTO app_token_scopes (token_id, application_id)
				SELECT CAST(? AS BIGINT), id FROM applications WHERE slug = ? AND tokens`, id, slug)
			if err != nil {
				return err
			}
		}
		if created, err = readToken(ctx, tx, id); err != nil {
			return err
		}
		return tx.recordAbout(ctx, "token_made", t.UserID, detailOf(created))
	})
	return created, err
}

// detailOf returns the detail of an event about a token.
func detailOf(t token.Token) map[string]any {
	return map[string]any{"token": t.ID, "name": t.Name, "apps": t.Applications, "read_only": t.ReadOnly}
}

func readToken(ctx context.Context, q querier, id int64) (token.Token, error) {
	return scanToken(q.row(ctx, `SELECT `+tokenColumns+tokenTables+` WHERE app_tokens.id = ?`, id))
}

// Tokens implements policy.Tokens.
func (s *Tokens) Tokens(ctx context.Context, userID int64) ([]token.Token, error) {
	return list(ctx, s.db, "list app tokens", scanToken, `SELECT `+tokenColumns+tokenTables+
		` WHERE app_tokens.user_id = ? OR ? = 0 ORDER BY app_tokens.id DESC`, userID, userID)
}

// changeToken runs do on a token on behalf of its user, an admin or user.Operator.
// token.ErrNotFound, also on behalf of others.
func (s *Tokens) changeToken(
	ctx context.Context, what string, id, by int64, do func(context.Context, *transaction, token.Token) error,
) error {
	return s.db.write(ctx, timeout, what, func(ctx context.Context, tx *transaction) error {
		err := tx.updateOr(ctx, token.ErrNotFound, `UPDATE app_tokens SET name = name WHERE id = ?`, id)
		if err != nil {
			return err
		}
		t, err := readToken(ctx, tx, id)
		if err != nil {
			return err
		}
		if by != t.UserID {
			err := tx.mayAct(ctx, by)
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
func (s *Tokens) RevokeToken(ctx context.Context, id, by int64) error {
	return s.changeToken(ctx, "revoke app token", id, by,
		func(ctx context.Context, tx *transaction, t token.Token) error {
			if !t.RevokedAt.IsZero() {
				return nil
			}
			if err := tx.update(ctx, `UPDATE app_tokens SET revoked_at = ? WHERE id = ?`, s.db.now().Unix(),
				id); err != nil {
				return err
			}
			return tx.recordAbout(ctx, "token_revoked", t.UserID, detailOf(t))
		})
}

// RevokeTokens implements policy.Tokens.
func (s *Tokens) RevokeTokens(ctx context.Context, userID int64) (n int64, err error) {
	err = s.db.write(ctx, timeout, "revoke app tokens", func(ctx context.Context, tx *transaction) error {
		n, err = tx.changed(ctx, `UPDATE app_tokens SET revoked_at = ? WHERE user_id = ? AND revoked_at IS NULL`,
			s.db.now().Unix(), userID)
		if err != nil || n == 0 {
			return err
		}
		return tx.recordAbout(ctx, "token_revoked", userID, map[string]any{"tokens": n})
	})
	return n, err
}

// RemoveToken implements policy.Tokens.
func (s *Tokens) RemoveToken(ctx context.Context, id, by int64) error {
	return s.changeToken(ctx, "remove app token", id, by,
		func(ctx context.Context, tx *transaction, t token.Token) error {
			if t.Valid(s.db.now()) {
				return token.ErrActive
			}
			return tx.update(ctx, `DELETE FROM app_tokens WHERE id = ?`, id)
		})
}

// TokenVisitor implements policy.Tokens.
func (s *Tokens) TokenVisitor(ctx context.Context, hash string) (token.Token, user.User, []string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var groups slugs
	var u user.User
	t, err := scanToken(withMore{s.visitor.Row(ctx, hash), []any{
		&groups, &u.DisplayName, &u.Role, (*instant)(&u.DisabledAt), (*instant)(&u.EndsAt),
	}})
	now := s.db.now()
	if errors.Is(err, token.ErrNotFound) || err == nil && (!t.Valid(now) || u.Closed(now)) {
		return token.Token{}, user.User{}, nil, token.ErrInvalid
	}
	if err != nil {
		return token.Token{}, user.User{}, nil, fmt.Errorf("read app token: %w", err)
	}
	u.ID, u.Username = t.UserID, t.Username
	return t, u, groups, nil
}

// TokenUsed implements policy.Tokens.
func (s *Tokens) TokenUsed(ctx context.Context, id int64) error {
	now := s.db.now()
	return s.db.exec(ctx, "record use of an app token",
		`UPDATE app_tokens SET last_used_at = ? WHERE id = ? AND coalesce(last_used_at, 0) <= ?`,
		now.Unix(), id, now.Add(-time.Hour).Unix())
}

// SweepTokens implements policy.Tokens.
func (s *Tokens) SweepTokens(ctx context.Context, before time.Time) (swept int64, err error) {
	err = s.db.write(ctx, sweepTimeout, "sweep app tokens", func(ctx context.Context, tx *transaction) error {
		swept, err = tx.changed(ctx, `DELETE FROM app_tokens WHERE revoked_at < ? OR expires_at < ?`, before.Unix(),
			before.Unix())
		return err
	})
	return swept, err
}
