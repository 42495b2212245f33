package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// Register implements payment.Ledger. Processes that share a SQLite file share a machine and
// its clock. Replicas on Postgres do not: one whose clock is behind would cut the
// others' heartbeats so that they look dead.
func (l *Ledger) Register(ctx context.Context, owner string, until time.Time) error {
	if l.db.Dialect == sqldb.SQLite {
		if err := l.exec(ctx, "UPDATE owners SET alive_until = ? WHERE alive_until > ?", until.UnixMilli(), until.UnixMilli()); err != nil {
			return err
		}
	}
	return l.Heartbeat(ctx, owner, until)
}

// Heartbeat implements payment.Ledger.
func (l *Ledger) Heartbeat(ctx context.Context, owner string, until time.Time) error {
	return l.exec(ctx, `INSERT INTO owners (id, alive_until) VALUES (?, ?)
		ON CONFLICT (id) DO UPDATE SET alive_until = excluded.alive_until`, owner, until.UnixMilli())
}

// Deregister implements payment.Ledger.
func (l *Ledger) Deregister(ctx context.Context, owner string) error {
	return l.exec(ctx, "DELETE FROM owners WHERE id = ?", owner)
}

// Due implements payment.Ledger.
func (l *Ledger) Due(ctx context.Context, limit int, next time.Time) ([]payment.Record, error) {
	var due []payment.Record
	err := l.writes.do(ctx, false, func(ctx context.Context, u *unit) (err error) {
		query := selectBrief + " WHERE " + undecided + " AND check_at <= ? AND (state = 'unknown' OR (state = 'settling' AND " + abandoned + ")) ORDER BY check_at LIMIT ?"
		if l.db.Dialect == sqldb.Postgres {
			query += " FOR UPDATE SKIP LOCKED" // two processes must not be given the same
		}
		args := append(append(append(l.viewArgs(), l.stamp()), l.viewArgs()...), limit)
		if due, err = l.query(ctx, u.Tx, query, args...); err != nil {
			return err
		}
		for i := range due {
			query := "UPDATE payments SET check_at = ? WHERE" + byKey
			if _, err := u.ExecContext(ctx, l.db.Rebind(query), append([]any{next.UnixMilli()}, keyArgs(due[i].Key)...)...); err != nil {
				return fmt.Errorf("put off a look: %w", err)
			}
		}
		return nil
	})
	return due, err
}

// endedSQL lists what Ended returns, by the index of claims: up to the limit-th of
// them, and those of the same moment.
const endedSQL = selectBrief + ` WHERE claimed > ? AND claimed < ? AND (state = 'settled' OR state = 'dead')
	AND claimed <= COALESCE((SELECT claimed FROM payments WHERE claimed > ? AND claimed < ?
		AND (state = 'settled' OR state = 'dead') ORDER BY claimed LIMIT 1 OFFSET ?), 9223372036854775807) ORDER BY claimed`

// Ended implements payment.Ledger.
func (l *Ledger) Ended(ctx context.Context, before time.Time, limit int, taken time.Time) ([]payment.Record, error) {
	var ended []payment.Record
	err := l.writes.do(ctx, false, func(ctx context.Context, u *unit) error {
		ended = nil
		var after int64
		query := "UPDATE checks SET taken_for = ? WHERE id = 1 AND taken_for <= ? RETURNING up_to"
		switch err := u.QueryRowContext(ctx, l.db.Rebind(query), taken.UnixMilli(), l.stamp()).Scan(&after); {
		case errors.Is(err, sql.ErrNoRows):
			return nil // another process has taken them
		case err != nil:
			return fmt.Errorf("take the payments that have ended: %w", err)
		}
		until := before.UnixMilli()
		var err error
		ended, err = l.query(ctx, u.Tx, endedSQL, append(l.viewArgs(), after, until, after, until, limit-1)...)
		return err
	})
	return ended, err
}

// Checked implements payment.Ledger.
func (l *Ledger) Checked(ctx context.Context, upTo time.Time) error {
	return l.exec(ctx, "UPDATE checks SET taken_for = 0, up_to = CASE WHEN up_to < ? THEN ? ELSE up_to END WHERE id = 1", upTo.UnixMilli(), upTo.UnixMilli())
}

// Answers have the numbers of their payments, and those made before a moment come
// first: so no index by their age is needed, only the greatest such number. It is
// sought among several, because a payment that is claimed anew keeps its own; and
// if none is younger, there is no bound.
const pruneSQL = `DELETE FROM answers WHERE claimed < ?
	AND payment <= CASE WHEN EXISTS (SELECT 1 FROM payments WHERE claimed >= ?)
		THEN (SELECT max(id) FROM (SELECT id FROM payments WHERE claimed < ? ORDER BY claimed DESC LIMIT 100) AS latest)
		ELSE 9223372036854775807 END
	AND EXISTS (SELECT 1 FROM payments WHERE payments.id = answers.payment AND payments.state IN ('settled', 'dead'))`

// tidySQL is for what a release before undecided has settled, a portion of it.
const tidySQL = "UPDATE payments SET check_at = NULL WHERE id IN (SELECT id FROM payments WHERE " + undecided + " AND state IN ('settled', 'dead') LIMIT 2000)"

// Prune implements payment.Ledger.
func (l *Ledger) Prune(ctx context.Context, before time.Time) error {
	moment := before.UnixMilli()
	if err := l.exec(ctx, pruneSQL, moment, moment, moment); err != nil {
		return err
	}
	if err := l.exec(ctx, "DELETE FROM payments WHERE "+undecided+" AND state = 'working' AND "+abandoned, l.viewArgs()...); err != nil {
		return err
	}
	if err := l.exec(ctx, "DELETE FROM owners WHERE alive_until < ?", moment); err != nil {
		return err
	}
	return l.tidy(ctx)
}

// tidy allows payments to be written between its portions.
func (l *Ledger) tidy(ctx context.Context) error {
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("tidy the ledger: %w", err)
		}
		err := l.writes.do(ctx, false, func(ctx context.Context, u *unit) error {
			result, err := u.ExecContext(ctx, tidySQL)
			if err != nil {
				return fmt.Errorf("tidy the ledger: %w", err)
			}
			n, err := result.RowsAffected()
			more = n > 0
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *Ledger) exec(ctx context.Context, query string, args ...any) error {
	return l.writes.do(ctx, false, func(ctx context.Context, u *unit) error {
		if _, err := u.ExecContext(ctx, l.db.Rebind(query), args...); err != nil {
			return fmt.Errorf("change the ledger: %w", err)
		}
		return nil
	})
}
