package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/pforte/pforte/services/auth/internal/user"
)

// record inserts the revocation in the transaction of its cause, and sets its ID and time.
func (s *Store) record(ctx context.Context, tx *sql.Tx, r *user.Revocation) error {
	r.RecordedAt = s.now().UTC().Truncate(time.Second)
	return tx.QueryRowContext(ctx, s.db.Rebind(`INSERT INTO pending_revocations (user_id, kind, keep_session, recorded_at)
		VALUES (?, ?, ?, ?) RETURNING id`), r.UserID, string(r.Kind), r.KeepSession, r.RecordedAt.Unix()).Scan(&r.ID)
}

// PendingRevocations implements user.Store.
func (s *Store) PendingRevocations(ctx context.Context, before time.Time, after int64) (pending []user.Revocation, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	rows, err := s.db.Reader.QueryContext(ctx, s.db.Rebind(`SELECT id, user_id, kind, keep_session, recorded_at
		FROM pending_revocations WHERE recorded_at < ? AND id > ? ORDER BY id LIMIT ?`), ceilUnix(before), after, user.MaxPending)
	if err != nil {
		return nil, fmt.Errorf("read pending revocations: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var r user.Revocation
		var recorded int64
		if err := rows.Scan(&r.ID, &r.UserID, &r.Kind, &r.KeepSession, &recorded); err != nil {
			return nil, fmt.Errorf("read pending revocation: %w", err)
		}
		r.RecordedAt = time.Unix(recorded, 0).UTC()
		pending = append(pending, r)
	}
	return pending, rows.Err()
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
