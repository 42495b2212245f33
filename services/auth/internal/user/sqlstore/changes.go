package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/pforte/pforte/pkg/sqldb"

	"github.com/pforte/pforte/services/auth/internal/user"
)

// SetPasswordHash implements user.Store.
func (s *Store) SetPasswordHash(ctx context.Context, id int64, oldHash, newHash, keepSession string) (user.Revocation, error) {
	revocation := user.Revocation{UserID: id, Kind: user.RevokeSessions, KeepSession: keepSession}
	err := s.tx(ctx, "set password", func(ctx context.Context, tx *sql.Tx) error {
		if err := s.swapHash(ctx, tx, id, oldHash, newHash); err != nil {
			return err
		}
		return s.endSessions(ctx, tx, &revocation)
	})
	return revocation, err
}

// Rehash implements user.Store.
func (s *Store) Rehash(ctx context.Context, id int64, oldHash, newHash string) error {
	return s.tx(ctx, "rehash password", func(ctx context.Context, tx *sql.Tx) error {
		return s.swapHash(ctx, tx, id, oldHash, newHash)
	})
}

// swapHash compares and sets in one statement: a second writer waits for the first
// one's commit and then finds another hash.
func (s *Store) swapHash(ctx context.Context, tx *sql.Tx, id int64, oldHash, newHash string) error {
	changed, err := s.update(ctx, tx, `UPDATE users SET password_hash = ? WHERE id = ? AND password_hash = ?`, newHash, id, oldHash)
	if err != nil || changed {
		return err
	}
	if _, err := s.one(ctx, tx, byID, id); err != nil {
		return err
	}
	return user.ErrChanged
}

// ResetPassword implements user.Store.
func (s *Store) ResetPassword(ctx context.Context, id int64, newHash string) (user.Revocation, error) {
	revocation := user.Revocation{UserID: id, Kind: user.RevokeSessions}
	err := s.tx(ctx, "reset password", func(ctx context.Context, tx *sql.Tx) error {
		if _, err := s.update(ctx, tx, `UPDATE users SET password_hash = ? WHERE id = ?`, newHash, id); err != nil {
			return err
		}
		return s.endSessions(ctx, tx, &revocation)
	})
	return revocation, err
}

// EndSessions implements user.Store.
func (s *Store) EndSessions(ctx context.Context, id int64) (user.Revocation, error) {
	revocation := user.Revocation{UserID: id, Kind: user.RevokeSessions}
	err := s.tx(ctx, "end sessions", func(ctx context.Context, tx *sql.Tx) error { return s.endSessions(ctx, tx, &revocation) })
	return revocation, err
}

// endSessions sets a new session stamp and records the revocation.
func (s *Store) endSessions(ctx context.Context, tx *sql.Tx, revocation *user.Revocation) error {
	return s.changeAndRecord(ctx, tx, revocation, `UPDATE users SET session_stamp = ?, kept_session = ? WHERE id = ?`,
		user.NewSessionStamp(), revocation.KeepSession, revocation.UserID)
}

// SetRole implements user.Store.
func (s *Store) SetRole(ctx context.Context, id int64, role user.Role) (user.Revocation, error) {
	revocation := user.Revocation{UserID: id, Kind: user.RefreshRole}
	err := s.tx(ctx, "set role", func(ctx context.Context, tx *sql.Tx) error {
		if role != user.Admin {
			if err := s.keepAnAdmin(ctx, tx, id, user.Operator); err != nil {
				return err
			}
		}
		return s.changeAndRecord(ctx, tx, &revocation, `UPDATE users SET role = ? WHERE id = ?`, string(role), id)
	})
	return revocation, err
}

// Delete implements user.Store.
func (s *Store) Delete(ctx context.Context, id, by int64) (user.Revocation, error) {
	revocation := user.Revocation{UserID: id, Kind: user.RevokeSessions}
	err := s.tx(ctx, "delete user", func(ctx context.Context, tx *sql.Tx) error {
		if err := s.keepAnAdmin(ctx, tx, id, by); err != nil {
			return err
		}
		return s.changeAndRecord(ctx, tx, &revocation, `DELETE FROM users WHERE id = ?`, id)
	})
	return revocation, err
}

// changeAndRecord changes one user and records the revocation.
func (s *Store) changeAndRecord(ctx context.Context, tx *sql.Tx, revocation *user.Revocation, query string, args ...any) error {
	changed, err := s.update(ctx, tx, query, args...)
	if err != nil {
		return err
	}
	if !changed {
		return user.ErrNotFound
	}
	return s.record(ctx, tx, revocation)
}

// keepAnAdmin returns ErrLastAdmin when id is the only admin, and ErrNotAdmin unless by is
// the Operator or an admin. It locks all admins until the transaction ends, so that two
// who act on each other do so one after the other.
func (s *Store) keepAnAdmin(ctx context.Context, tx *sql.Tx, id, by int64) error {
	query := `SELECT id FROM users WHERE role = 'admin' ORDER BY id`
	if s.db.Dialect == sqldb.Postgres {
		query += ` FOR UPDATE`
	}
	rows, err := tx.QueryContext(ctx, query)
	admins, err := all(rows, err, func(row row) (admin int64, err error) {
		err = row.Scan(&admin)
		return admin, err
	})
	switch {
	case err != nil:
		return err
	case by != user.Operator && !slices.Contains(admins, by):
		return user.ErrNotAdmin
	case len(admins) == 1 && admins[0] == id:
		return user.ErrLastAdmin
	default:
		return nil
	}
}

// update reports whether the statement changed a row.
func (s *Store) update(ctx context.Context, tx *sql.Tx, query string, args ...any) (bool, error) {
	result, err := tx.ExecContext(ctx, s.db.Rebind(query), args...)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// record inserts the revocation in the transaction of its cause, and sets its ID and time.
func (s *Store) record(ctx context.Context, tx *sql.Tx, r *user.Revocation) error {
	r.RecordedAt = s.now().UTC().Truncate(time.Second)
	return tx.QueryRowContext(ctx, s.db.Rebind(`INSERT INTO pending_revocations (user_id, kind, keep_session, recorded_at)
		VALUES (?, ?, ?, ?) RETURNING id`), r.UserID, string(r.Kind), r.KeepSession, r.RecordedAt.Unix()).Scan(&r.ID)
}

// PendingRevocations implements user.Store.
func (s *Store) PendingRevocations(ctx context.Context, before time.Time, after int64) ([]user.Revocation, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	rows, err := s.db.Reader.QueryContext(ctx, s.db.Rebind(`SELECT id, user_id, kind, keep_session, recorded_at
		FROM pending_revocations WHERE recorded_at < ? AND id > ? ORDER BY id LIMIT ?`), ceilUnix(before), after, user.MaxPending)
	pending, err := all(rows, err, func(row row) (user.Revocation, error) {
		var r user.Revocation
		var recorded int64
		err := row.Scan(&r.ID, &r.UserID, &r.Kind, &r.KeepSession, &recorded)
		r.RecordedAt = time.Unix(recorded, 0).UTC()
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("read pending revocations: %w", err)
	}
	return pending, nil
}

// ceilUnix rounds up, so that "<" in whole seconds is "before" exactly.
func ceilUnix(t time.Time) int64 {
	if t.Nanosecond() > 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}

// RevocationDone implements user.Store.
func (s *Store) RevocationDone(ctx context.Context, id int64) error {
	return s.tx(ctx, "delete revocation", func(ctx context.Context, tx *sql.Tx) error {
		_, err := s.update(ctx, tx, `DELETE FROM pending_revocations WHERE id = ?`, id)
		return err
	})
}
