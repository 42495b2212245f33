package sqlledger

import (
	"context"
	"database/sql"
	"errors"

	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// settleSQL ends the ordinary sale in one statement: settled, with the
// settlement that was reserved.
const settleSQL = `UPDATE payments SET state = 'settled', reason = '', tx = ?, changed = ?
	WHERE` + byKey + ` AND state IN ('settling', 'unknown') AND month <> ''
	RETURNING network, asset, payer, nonce, state, owner, deadline, payment, request, identifier, resource, amount, pay_to,
	valid_before, month, tx, reason, claimed, changed, NULL`

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
	if o.State == payment.Settled && o.Transaction != "" && o.Reason == "" {
		args := append([]any{o.Transaction, l.stamp()}, keyArgs(key)...)
		r, err := l.scan(in(ctx, tx, l.prepared.settle, args...))
		if !errors.Is(err, payment.ErrNotFound) {
			return r, err
		}
	}
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
	month, err := l.recount(ctx, tx, r, o)
	if err != nil {
		return r, err
	}
	query := `UPDATE payments SET state = ?, month = ?, reason = ?, changed = ?, tx = CASE WHEN ? = '' THEN tx ELSE ? END
		WHERE` + byKey
	args := append([]any{o.State, month, o.Reason, l.stamp(), o.Transaction, o.Transaction}, keyArgs(key)...)
	if _, err := tx.ExecContext(ctx, l.db.Rebind(query), args...); err != nil {
		return r, wrap("finish a settlement", err)
	}
	return l.scan(tx.QueryRowContext(ctx, l.db.Rebind(selectBrief+" WHERE"+byKey), append(l.viewArgs(), keyArgs(key)...)...))
}

// recount gives a settlement back that was not made, and counts one that was
// made though it had been given back. It gives the month of the reservation.
func (l *Ledger) recount(ctx context.Context, tx *sql.Tx, r payment.Record, o payment.Outcome) (month string, err error) {
	switch {
	case o.GivesBack(r):
		_, err = l.count(ctx, tx, r.Month, -1)
		return "", err
	case o.State == payment.Settled && r.Month == "":
		month = payment.Month(l.now())
		_, err = l.count(ctx, tx, month, 1)
		return month, err
	}
	return r.Month, nil
}
