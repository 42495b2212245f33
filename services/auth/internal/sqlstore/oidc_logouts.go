package sqlstore

import (
	"context"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/oidc"
)

// Logouts keeps the logouts that are to be delivered to applications.
type Logouts struct{ db *database }

// ClaimLogouts implements oidc.Logouts.
func (s *Logouts) ClaimLogouts(ctx context.Context, most int, busy []int64) (claimed []oidc.Logout, err error) {
	now := s.db.now()
	due := `due_at <= ? AND lease_until <= ?`
	args := []any{now.Unix(), now.Unix()}
	if len(busy) > 0 {
		due += ` AND application_id NOT IN (?` + strings.Repeat(`, ?`, len(busy)-1) + `)`
		for _, id := range busy {
			args = append(args, id)
		}
	}
	due += ` ORDER BY due_at, id LIMIT ?`
	args = append(args, most)
	some, err := read[bool](ctx, s.db, "look for logouts", `SELECT EXISTS (SELECT 1 FROM oidc_logouts WHERE `+due+`)`,
		args...)
	if err != nil || !some { // without a transaction, which others would wait for
		return nil, err
	}
	if s.db.Dialect == sqldb.Postgres {
		due += ` FOR UPDATE SKIP LOCKED`
	}
	err = s.db.write(ctx, timeout, "claim logouts", func(ctx context.Context, tx *transaction) error {
		claimed, err = all(ctx, tx, func(row sqldb.Scanner) (l oidc.Logout, err error) {
			err = row.Scan(&l.ID, &l.ApplicationID, &l.ClientID, &l.Alg, &l.Subject, &l.SID, &l.URI, &l.Tries)
			return l, err
		}, `UPDATE oidc_logouts SET lease_until = ?, tries = tries + 1
			WHERE id IN (SELECT id FROM oidc_logouts WHERE `+due+`)
			RETURNING id, application_id, client_id, alg, sub, sid, uri, tries`,
			append([]any{ceilUnix(now.Add(oidc.LogoutLease))}, args...)...)
		return err
	})
	return claimed, err
}

// heldLogout is the condition that the claim of a logout still holds: nobody has claimed it since.
const heldLogout = `id = ? AND tries = ?`

// LogoutDone implements oidc.Logouts.
func (s *Logouts) LogoutDone(ctx context.Context, l oidc.Logout) error {
	return s.db.exec(ctx, "remove logout", `DELETE FROM oidc_logouts WHERE `+heldLogout, l.ID, l.Tries)
}

// LogoutLater implements oidc.Logouts.
func (s *Logouts) LogoutLater(ctx context.Context, l oidc.Logout, pause time.Duration) error {
	return s.db.exec(ctx, "put off logout", `UPDATE oidc_logouts SET due_at = ?, lease_until = 0 WHERE `+heldLogout,
		ceilUnix(s.db.now().Add(pause)), l.ID, l.Tries)
}

// LogoutFailed implements oidc.Logouts.
func (s *Logouts) LogoutFailed(ctx context.Context, l oidc.Logout) error {
	return s.db.write(ctx, timeout, "give up logout", func(ctx context.Context, tx *transaction) error {
		n, err := tx.changed(ctx, `DELETE FROM oidc_logouts WHERE `+heldLogout, l.ID, l.Tries)
		if err != nil || n == 0 {
			return err
		}
		app := l.ClientID // unless the application is there still
		err = tx.row(ctx, `SELECT slug FROM applications WHERE id = ?`, l.ApplicationID).Scan(&app)
		if err := orNone(err, nil); err != nil {
			return err
		}
		return tx.record(ctx, audit.Event{
			Name: "oidc_logout_failed", Detail: map[string]any{"app": app, "tries": l.Tries},
		})
	})
}

// LogoutsWaiting implements oidc.Logouts.
func (s *Logouts) LogoutsWaiting(ctx context.Context) (int, error) {
	return read[int](ctx, s.db, "count logouts", `SELECT count(*) FROM oidc_logouts`)
}

// EndClosed implements oidc.Logouts.
func (s *Logouts) EndClosed(ctx context.Context) error {
	const closed = `user_id IN (SELECT id FROM users WHERE ends_at <= ?)`
	now := s.db.now().Unix()
	some, err := read[bool](ctx, s.db, "look for logins of guests",
		`SELECT EXISTS (SELECT 1 FROM oidc_grants WHERE ended_at IS NULL AND `+closed+`)`, now)
	if err != nil || !some {
		return err
	}
	return s.db.write(ctx, timeout, "end logins of guests", func(ctx context.Context, tx *transaction) error {
		_, err := tx.endGrants(ctx, oidc.EndedByRule, closed, now)
		return err
	})
}
