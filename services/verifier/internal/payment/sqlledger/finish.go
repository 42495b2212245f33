package sqlledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"

	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// settleSQL ends the ordinary sale in one statement: settled, with the
// settlement that was reserved.
const settleSQL = `UPDATE payments SET state = 'settled', reason = '', tx = ?, changed = ?
	WHERE` + byKey + ` AND state IN ('settling', 'unknown') AND month <> ''`

// Finish implements payment.Ledger.
func (l *Ledger) Finish(ctx context.Context, key payment.Key, o payment.Outcome) (payment.Outcome, error) {
	var ended payment.Outcome
	var missing error
	err := l.writes.do(ctx, false, func(ctx context.Context, tx *sql.Tx) (err error) {
		ended, err = l.finish(ctx, tx, key, o)
		if missing = nil; errors.Is(err, payment.ErrNotFound) {
			missing, err = err, nil
		}
		return err
	})
	return ended, errors.Join(err, missing)
}

func (l *Ledger) finish(ctx context.Context, tx *sql.Tx, key payment.Key, o payment.Outcome) (payment.Outcome, error) {
	if o.State == payment.Settled && o.Transaction != "" && o.Reason == "" {
		args := append([]any{o.Transaction, l.stamp()}, keyArgs(key)...)
		if settled, err := changed(ctx, tx, l.prepared.settle, args...); err != nil || settled {
			return o, wrap("finish a settlement", err)
		}
	}
	r, err := l.lock(ctx, tx, key)
	if err != nil {
		return payment.Outcome{}, err
	}
	if r.State == payment.Working {
		return payment.Outcome{}, payment.ErrNotFound
	}
	if r.State == payment.Settled || (r.State == payment.Dead && o.State != payment.Settled) {
		return r.Outcome(), nil
	}
	month, err := l.recount(ctx, tx, r, o)
	if err != nil {
		return payment.Outcome{}, err
	}
	query := `UPDATE payments SET state = ?, month = ?, reason = ?, changed = ?, tx = ? WHERE` + byKey
	o.Transaction = cmp.Or(o.Transaction, r.Transaction)
	args := append([]any{o.State, month, o.Reason, l.stamp(), o.Transaction}, keyArgs(key)...)
	_, err = tx.ExecContext(ctx, l.db.Rebind(query), args...)
	return o, wrap("finish a settlement", err)
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
