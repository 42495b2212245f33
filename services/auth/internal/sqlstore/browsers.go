package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// Browsers keeps the browsers that users have logged in with.
type Browsers struct{ db *database }

// SeeBrowser implements account.Browsers.
func (s *Browsers) SeeBrowser(ctx context.Context, id int64, hash, label string, second bool) error {
	return s.db.write(ctx, timeout, "remember browser", func(ctx context.Context, tx *transaction) error {
		u, err := tx.lockUser(ctx, id)
		if err != nil {
			return err
		}
		now := s.db.now().Unix()
		proved := sql.NullInt64{Int64: now, Valid: second}
		err = tx.update(ctx, `UPDATE known_browsers SET last_seen_at = ?, label = ?, proved_at = coalesce(?, `+
			`proved_at) WHERE user_id = ? AND hash = ?`, now, label, proved, id, hash)
		if !errors.Is(err, user.ErrNotFound) {
			return err
		}
		var others int
		if err := tx.row(ctx, `SELECT count(*) FROM known_browsers WHERE user_id = ?`, id).Scan(&others); err != nil {
			return err
		}
		err = tx.exec(ctx, `INSERT INTO known_browsers (user_id, hash, label, first_seen_at, last_seen_at, `+
			`proved_at) VALUES (?, ?, ?, ?, ?, ?)`, id, hash, label, now, now, proved)
		if err != nil {
			return err
		}
		if others == 0 {
			return nil
		}
		err = tx.exec(ctx, `DELETE FROM known_browsers WHERE user_id = ? AND hash IN
			(SELECT hash FROM known_browsers WHERE user_id = ? AND hash <> ?
			ORDER BY last_seen_at DESC, hash LIMIT 1000 OFFSET ?)`, id, id, hash, factor.MaxBrowsers-1)
		if err != nil {
			return err
		}
		return tx.record(ctx, about("device_new", u, map[string]any{"browser": label}))
	})
}

// Browsers implements account.Browsers.
func (s *Browsers) Browsers(ctx context.Context, id int64) ([]factor.Browser, error) {
	return list(ctx, s.db, "list browsers", func(row sqldb.Scanner) (b factor.Browser, err error) {
		err = row.Scan(&b.Hash, &b.Label, (*instant)(&b.FirstSeenAt), (*instant)(&b.LastSeenAt))
		return b, err
	}, `SELECT hash, label, first_seen_at, last_seen_at FROM known_browsers
		WHERE user_id = ? ORDER BY last_seen_at DESC, hash`, id)
}

// KnowsBrowser implements account.Browsers.
func (s *Browsers) KnowsBrowser(ctx context.Context, id int64, hash string) (bool, error) {
	return read[bool](ctx, s.db, "look up browser", `SELECT EXISTS (SELECT 1 FROM known_browsers
		WHERE user_id = ? AND hash = ? AND proved_at IS NOT NULL)`, id, hash)
}

// ForgetBrowser implements account.Browsers.
func (s *Browsers) ForgetBrowser(ctx context.Context, id int64, hash string) error {
	if !isText(hash) { // so it is no browser's
		return nil
	}
	return s.db.exec(ctx, "forget browser", `DELETE FROM known_browsers WHERE user_id = ? AND hash = ?`, id, hash)
}
