package sqlledger

import (
	"cmp"
	"context"
	"errors"

	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// settleSQL ends the ordinary sale in one statement: settled, with the
// settlement that was reserved.
const settleSQL = `UPDATE payments SET state = 'settled', reason = '', tx = ?, changed = ?, check_at = NULL
	WHERE` + byKey + ` AND (state = 'settling' OR state = 'unknown') AND month <> ''`

// Finish implements payment.Ledger.
func (l *Ledger) Finish(ctx context.Context, key payment.Key, o payment.Outcome) (payment.Outcome, error) {
	var ended payment.Outcome
	var missing error
	err := l.writes.do(ctx, false, func(ctx context.Context, u *unit) (err error) {
		ended, err = l.finish(ctx, u, key, o)
		if missing = nil; errors.Is(err, payment.ErrNotFound) {
			missing, err = err, nil
		}
		return err
	})
	return ended, errors.Join(err, missing)
}

func (l *Ledger) finish(ctx context.Context, u *unit, key payment.Key, o payment.Outcome) (payment.Outcome, error) {
	if o.State == payment.Settled && o.Transaction != "" && o.Reason == "" {
		args := append([]any{o.Transaction, l.stamp()}, keyArgs(key)...)
		if settled, err := changed(ctx, u.Tx, l.prepared.settle, args...); err != nil || settled {
			return o, wrap("finish a settlement", err)
		}
	}
	r, err := l.lock(ctx, u.Tx, key)
	if err != nil {
		return payment.Outcome{}, err
	}
	if r.State == payment.Working {
		return payment.Outcome{}, payment.ErrNotFound
	}
	if r.State == payment.Settled || (r.State == payment.Dead && o.State != payment.Settled) {
		return r.Outcome(), nil
	}
	month, err := l.recount(ctx, u, r, o)
	if err != nil {
		return payment.Outcome{}, err
	}
	ends := ""
	if o.State == payment.Settled || o.State == payment.Dead {
		ends = ", check_at = NULL"
	}
	query := "UPDATE payments SET state = ?, month = ?, reason = ?, changed = ?, tx = ?" + ends + " WHERE" + byKey
	o.Transaction = cmp.Or(o.Transaction, r.Transaction)
	args := append([]any{o.State, month, o.Reason, l.stamp(), o.Transaction}, keyArgs(key)...)
	_, err = u.ExecContext(ctx, l.db.Rebind(query), args...)
	return o, wrap("finish a settlement", err)
}

// recount gives a settlement back that was not made, and counts one that was
// made though it had been given back. It gives the month of the reservation.
func (l *Ledger) recount(ctx context.Context, u *unit, r payment.Record, o payment.Outcome) (month string, err error) {
	switch {
	case o.GivesBack(r):
		return "", u.add(ctx, r.Month, -1)
	case o.State == payment.Settled && r.Month == "":
		month = payment.Month(l.now())
		return month, u.add(ctx, month, 1)
	}
	return r.Month, nil
}
