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
		if _, err := l.exec(ctx, "cut leases back", "UPDATE owners SET alive_until = ? WHERE alive_until > ?", until,
			until); err != nil {
			return err
		}
	}
	return l.Heartbeat(ctx, owner, until)
}

// Heartbeat implements payment.Ledger.
func (l *Ledger) Heartbeat(ctx context.Context, owner string, until time.Time) error {
	if until.IsZero() {
		_, err := l.exec(ctx, "end a lease", "DELETE FROM owners WHERE id = ?", owner)
		return err
	}
	_, err := l.exec(ctx, "extend a lease", `INSERT INTO owners (id, alive_until) VALUES (?, ?)
		ON CONFLICT (id) DO UPDATE SET alive_until = excluded.alive_until`, owner, until)
	return err
}

const dueSQL = selectBrief + " WHERE " + unknown + " AND check_at <= ? ORDER BY check_at LIMIT 1"

// Due implements payment.Upkeep.
func (l *Ledger) Due(ctx context.Context, next time.Time) (due payment.Record, err error) {
	query := dueSQL
	if l.db.Dialect == sqldb.Postgres {
		query += " FOR UPDATE SKIP LOCKED" // two processes must not be given the same
	}
	err = l.write(ctx, "take a payment to look up", false, func(ctx context.Context, u *unit) (err error) {
		if due, err = scan(u.row(ctx, query, l.view(), l.view(), l.now())); err != nil {
			return err
		}
		_, err = u.exec(ctx, "UPDATE payments SET check_at = ? WHERE"+byKey, next, due.Key)
		return err
	})
	return due, err
}

// endedSQL lists what Ended returns, by the index of claims: up to the limit-th of
// them, and those of the same moment.
const endedSQL = selectBrief + ` WHERE claimed > ? AND claimed <= COALESCE((SELECT claimed FROM payments
	WHERE claimed > ? AND claimed < ?
		AND (state = 'settled' OR state = 'dead') ORDER BY claimed LIMIT 1 OFFSET ?), ?)
	AND (state = 'settled' OR state = 'dead') ORDER BY claimed`

// Ended implements payment.Upkeep.
func (l *Ledger) Ended(
	ctx context.Context, before time.Time, limit int, taken time.Time,
) (ended []payment.Record, err error) {
	err = l.write(ctx, "take the payments that have ended", false, func(ctx context.Context, u *unit) error {
		ended = nil
		var after int64
		err := u.row(ctx, "UPDATE checks SET taken_for = ? WHERE id = 1 AND taken_for <= ? RETURNING up_to", taken,
			l.now()).Scan(&after)
		if errors.Is(err, sql.ErrNoRows) {
			return nil // another process has taken them
		}
		if err != nil {
			return err
		}
		ended, err = l.list(ctx, u.Tx, endedSQL, l.view(), after, after, before, limit-1, before.UnixMilli()-1)
		return err
	})
	return ended, err
}

// Checked implements payment.Upkeep.
func (l *Ledger) Checked(ctx context.Context, upTo time.Time) error {
	_, err := l.exec(ctx, "remember what was checked",
		"UPDATE checks SET taken_for = 0, up_to = CASE WHEN up_to < ? THEN ? ELSE up_to END WHERE id = 1", upTo, upTo)
	return err
}

// pruneSQL deletes some answers of records that have ended and were claimed before a moment.
// Answers have the numbers of their payments, and older payments have smaller numbers, so no index
// by age is needed, only the greatest number of a payment claimed before the moment. It is sought
// among several, because a payment that is claimed anew keeps its number. If no payment was
// claimed later, there is no bound.
const pruneSQL = `DELETE FROM answers WHERE payment IN (SELECT payment FROM answers WHERE claimed < ?
	AND payment <= CASE WHEN EXISTS (SELECT 1 FROM payments WHERE claimed >= ?)
		THEN (SELECT max(id) FROM (SELECT id FROM payments WHERE claimed < ? ORDER BY claimed DESC LIMIT 100) AS latest)
		ELSE 9223372036854775807 END
	AND EXISTS (SELECT 1 FROM payments WHERE payments.id = answers.payment AND payments.state IN ('settled', 'dead'))
	ORDER BY payment LIMIT 1000)`

const (
	vanishSQL = "DELETE FROM payments WHERE " + undecided + " AND state = 'working' AND " + abandoned
	// vanishOneSQL is vanishSQL of one record, whose key another gets.
	vanishOneSQL = "DELETE FROM payments WHERE" + byKey + " AND state = 'working' AND " + abandoned
	// dueSoonSQL and untakenSQL end what Due and Ended have put off for longer than they do: the clock was ahead.
	dueSoonSQL = "UPDATE payments SET check_at = ? WHERE " + undecided + " AND check_at > ?"
	untakenSQL = "UPDATE checks SET taken_for = 0 WHERE taken_for > ?"
	// tidySQL takes records that have ended out of the index of undecided, where an earlier release
	// of this program has left them.
	tidySQL = "UPDATE payments SET check_at = NULL WHERE id IN (SELECT id FROM payments WHERE " + undecided +
		" AND state IN ('settled', 'dead') LIMIT 1000)"
)

// Prune implements payment.Upkeep. Answers go in portions, between which others write.
func (l *Ledger) Prune(ctx context.Context, before time.Time) error {
	now := l.now()
	ahead := now.Add(time.Hour)
	for _, step := range []struct {
		query string
		args  []any
	}{
		{pruneSQL, []any{before, before, before}},
		{vanishSQL, []any{l.view()}},
		{dueSoonSQL, []any{now, ahead}},
		{untakenSQL, []any{ahead}},
		{"DELETE FROM owners WHERE alive_until < ?", []any{before}},
		{"DELETE FROM asked_again WHERE day < ?", []any{before}},
		{tidySQL, nil},
	} {
		for more := true; more; {
			var err error
			if more, err = l.exec(ctx, "prune the ledger", step.query, step.args...); err != nil {
				return err
			}
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("prune the ledger: %w", err)
			}
		}
	}
	for more := true; more; {
		var err error
		if more, err = l.hashAnswers(ctx); err != nil {
			return err
		}
	}
	return nil
}
