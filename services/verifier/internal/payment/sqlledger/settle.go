package sqlledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// Begin implements payment.Ledger. It is the one write that waits for the disk.
func (l *Ledger) Begin(ctx context.Context, key payment.Key, owner string, s payment.Settlement) (*payment.Record, error) {
	var twin *payment.Record
	var refused error
	err := l.writes.do(ctx, true, func(ctx context.Context, tx *sql.Tx) (err error) {
		twin, refused, err = l.begin(ctx, tx, key, owner, s)
		return err
	})
	return twin, errors.Join(err, refused)
}

// begin separates what the ledger refuses, which leaves the batch's transaction
// sound, from what failed. The row of the month is touched first and so is the
// lock under which replicas look at limit and identifiers.
func (l *Ledger) begin(ctx context.Context, tx *sql.Tx, key payment.Key, owner string, s payment.Settlement) (twin *payment.Record, refused, err error) {
	if err := l.count(ctx, tx, s.Month, 1); err != nil {
		return nil, nil, err
	}
	twin, refused, err = l.mayBegin(ctx, tx, key, owner, s)
	if err != nil {
		return nil, nil, err
	}
	if twin != nil || refused != nil {
		return twin, refused, l.count(ctx, tx, s.Month, -1)
	}
	query := `UPDATE payments SET state = 'settling', call = ?, answer = ?, month = ?, deadline = ?, changed = ?, check_at = ?
		WHERE` + byKey
	args := append([]any{s.Call, s.Answer, s.Month, s.Deadline.UnixMilli(), l.stamp(), l.stamp()}, keyArgs(key)...)
	if _, err := tx.ExecContext(ctx, l.db.Rebind(query), args...); err != nil {
		return nil, nil, fmt.Errorf("begin a settlement: %w", err)
	}
	return nil, nil, nil
}

// mayBegin judges under the lock of the month's row, whose count includes the
// settlement that wants to begin.
func (l *Ledger) mayBegin(ctx context.Context, tx *sql.Tx, key payment.Key, owner string, s payment.Settlement) (twin *payment.Record, refused, err error) {
	var identifier string
	query := "SELECT identifier FROM payments WHERE" + byKey + " AND owner = ? AND state = 'working'"
	err = tx.QueryRowContext(ctx, l.db.Rebind(query), append(keyArgs(key), owner)...).Scan(&identifier)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, payment.ErrLost, nil
	case err != nil:
		return nil, nil, fmt.Errorf("read a claim: %w", err)
	}
	if twin, err = l.twin(ctx, tx, key, identifier); err != nil || twin != nil {
		return twin, nil, err
	}
	var reserved int
	query = "SELECT reserved FROM settlements WHERE month = ?"
	if err := tx.QueryRowContext(ctx, l.db.Rebind(query), s.Month).Scan(&reserved); err != nil {
		return nil, nil, fmt.Errorf("read the month: %w", err)
	}
	if reserved > s.Limit {
		return nil, payment.ErrLimit, nil
	}
	return nil, nil, nil
}

// twin finds another record that the payer's identifier has bought already.
func (l *Ledger) twin(ctx context.Context, tx *sql.Tx, key payment.Key, identifier string) (*payment.Record, error) {
	if identifier == "" {
		return nil, nil
	}
	query := selectRecord + ` WHERE payer = ? AND identifier = ? AND identifier <> '' AND state IN ('settling', 'unknown', 'settled')
		AND NOT (` + byKey + `) LIMIT 1`
	args := append([]any{key.Payer, identifier}, keyArgs(key)...)
	r, err := l.scan(tx.QueryRowContext(ctx, l.db.Rebind(query), append(l.viewArgs(), args...)...))
	if errors.Is(err, payment.ErrNotFound) {
		return nil, nil
	}
	return &r, err
}

// Finish implements payment.Ledger.
func (l *Ledger) Finish(ctx context.Context, key payment.Key, o payment.Outcome) (payment.Record, error) {
	var r payment.Record
	var missing error
	err := l.writes.do(ctx, false, func(ctx context.Context, tx *sql.Tx) (err error) {
		r, err = l.finish(ctx, tx, key, o)
		if missing = nil; errors.Is(err, payment.ErrNotFound) {
			missing, err = err, nil
		}
		return err
	})
	return r, errors.Join(err, missing)
}

func (l *Ledger) finish(ctx context.Context, tx *sql.Tx, key payment.Key, o payment.Outcome) (payment.Record, error) {
	r, err := l.lock(ctx, tx, key)
	if err != nil {
		return r, err
	}
	if r.State == payment.Working {
		return payment.Record{}, payment.ErrNotFound
	}
	if r.State == payment.Settled || (r.State == payment.Dead && o.State != payment.Settled) {
		return r, nil
	}
	month := r.Month
	switch {
	case o.State == payment.Dead && month != "":
		err, month = l.count(ctx, tx, month, -1), ""
	case o.State == payment.Settled && month == "":
		month = payment.Month(l.now())
		err = l.count(ctx, tx, month, 1)
	}
	if err != nil {
		return r, err
	}
	query := `UPDATE payments SET state = ?, month = ?, reason = ?, changed = ?, tx = CASE WHEN ? = '' THEN tx ELSE ? END,
		call = CASE WHEN ? = 'unknown' THEN call ELSE NULL END WHERE` + byKey
	args := append([]any{o.State, month, o.Reason, l.stamp(), o.Transaction, o.Transaction, o.State}, keyArgs(key)...)
	if _, err := tx.ExecContext(ctx, l.db.Rebind(query), args...); err != nil {
		return r, fmt.Errorf("finish a settlement: %w", err)
	}
	return l.get(ctx, tx, key)
}

// count adds to the reserved settlements of a month.
func (l *Ledger) count(ctx context.Context, tx *sql.Tx, month string, n int) error {
	query := `INSERT INTO settlements (month, reserved) VALUES (?, ?)
		ON CONFLICT (month) DO UPDATE SET reserved = settlements.reserved + excluded.reserved`
	if _, err := tx.ExecContext(ctx, l.db.Rebind(query), month, n); err != nil {
		return fmt.Errorf("count a settlement: %w", err)
	}
	return nil
}
