package ledger

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

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
	err := l.writes.do(ctx, o.Durable, func(ctx context.Context, u *unit) (err error) {
		ended, err = l.finish(ctx, u, key, o)
		if missing = nil; errors.Is(err, payment.ErrNotFound) {
			missing, err = err, nil
		}
		return err
	})
	return ended, errors.Join(err, missing)
}

func (l *Ledger) finish(ctx context.Context, u *unit, key payment.Key, o payment.Outcome) (payment.Outcome, error) {
	if o.State == payment.Settled && o.Transaction != "" && o.Reason == "" && !o.Echo {
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
	month, again, err := l.recount(ctx, u, r, o)
	if err != nil {
		return payment.Outcome{}, err
	}
	if o.State == payment.Dead { // no buyer gets it, and it may be large
		query := "DELETE FROM answers WHERE payment = (SELECT id FROM payments WHERE" + byKey + ")"
		if _, err := u.ExecContext(ctx, l.db.Rebind(query), keyArgs(key)...); err != nil {
			return payment.Outcome{}, wrap("forget an answer", err)
		}
	}
	ends := ""
	if o.State == payment.Settled || o.State == payment.Dead {
		ends = ", check_at = NULL"
	}
	query := "UPDATE payments SET state = ?, month = ?, again = ?, reason = ?, changed = ?, tx = ?" + ends + " WHERE" + byKey
	o.Transaction = cmp.Or(o.Transaction, r.Transaction)
	args := append([]any{o.State, month, again, o.Reason, l.stamp(), o.Transaction}, keyArgs(key)...)
	_, err = u.ExecContext(ctx, l.db.Rebind(query), args...)
	r.State, r.Transaction, r.Reason = o.State, o.Transaction, o.Reason
	return r.Outcome(), wrap("finish a settlement", err)
}

// recount returns settlements back that were not made, and counts one that was made
// though it had been given back. It returns the months of those that stay.
func (l *Ledger) recount(ctx context.Context, u *unit, r payment.Record, o payment.Outcome) (month, again string, err error) {
	month, more, back, reserved := o.Recount(r, payment.Month(l.now()))
	for _, name := range back {
		if err := u.add(ctx, name, -1); err != nil {
			return "", "", err
		}
	}
	for _, name := range reserved {
		if err := u.add(ctx, name, 1); err != nil {
			return "", "", err
		}
	}
	return month, strings.Join(more, " "), nil
}

// Repeat implements payment.Ledger. It waits for the disk, as Begin does.
func (l *Ledger) Repeat(ctx context.Context, key payment.Key, again payment.Repeat) error {
	var refused error
	err := l.writes.do(ctx, true, func(ctx context.Context, u *unit) (err error) {
		refused, err = l.repeat(ctx, u, key, again)
		return err
	})
	return errors.Join(err, refused)
}

func (l *Ledger) repeat(ctx context.Context, u *unit, key payment.Key, again payment.Repeat) (refused, err error) {
	month, err := u.month(ctx, again.Month)
	if err != nil {
		return nil, err
	}
	r, err := l.lock(ctx, u.Tx, key)
	switch {
	case errors.Is(err, payment.ErrNotFound), err == nil && r.State != payment.Settling && r.State != payment.Unknown, err == nil && r.Repeats != again.Repeats:
		return payment.ErrLost, nil
	case err != nil:
		return nil, err
	}
	if refused, err := l.spent(ctx, u.Tx, key.Payer, month.reserved, again.Limit, again.Kept); err != nil || refused != nil {
		return refused, err
	}
	query := "UPDATE payments SET again = ?, repeats = ?, changed = ? WHERE" + byKey
	args := append([]any{strings.Join(append(r.Again, again.Month), " "), r.Repeats + 1, l.stamp()}, keyArgs(key)...)
	if _, err := u.ExecContext(ctx, l.db.Rebind(query), args...); err != nil {
		return nil, wrap("repeat a settling", err)
	}
	return nil, u.add(ctx, again.Month, 1)
}

// Resolve implements payment.Ledger.
func (l *Ledger) Resolve(ctx context.Context, key payment.Key, how payment.Resolution) error {
	var lost error
	err := l.writes.do(ctx, true, func(ctx context.Context, u *unit) error {
		r, err := l.lock(ctx, u.Tx, key)
		if lost = nil; errors.Is(err, payment.ErrNotFound) || err == nil && r.State != payment.Unknown {
			lost = payment.ErrLost
			return nil
		}
		if err != nil {
			return err
		}
		query := `INSERT INTO resolutions (payment, at, by_whom, from_state, to_state, tx, why)
			SELECT id, ?, ?, ?, ?, ?, ? FROM payments WHERE` + byKey
		args := append([]any{l.stamp(), how.By, r.State, how.State, how.Transaction, how.Why}, keyArgs(key)...)
		if _, err := u.ExecContext(ctx, l.db.Rebind(query), args...); err != nil {
			return wrap("keep a resolution", err)
		}
		_, err = l.finish(ctx, u, key, how.Outcome())
		return err
	})
	return errors.Join(err, lost)
}

// Reopen implements payment.Ledger.
func (l *Ledger) Reopen(ctx context.Context, key payment.Key, reason string) error {
	var reopened bool
	err := l.writes.do(ctx, false, func(ctx context.Context, u *unit) error {
		query := "UPDATE payments SET state = 'unknown', reason = ?, changed = ?, check_at = ? WHERE" + byKey + " AND state = 'settled'"
		result, err := u.ExecContext(ctx, l.db.Rebind(query), append([]any{reason, l.stamp(), l.stamp()}, keyArgs(key)...)...)
		if err != nil {
			return wrap("open a payment again", err)
		}
		n, err := result.RowsAffected()
		reopened = n > 0
		return err
	})
	if err == nil && !reopened {
		err = payment.ErrLost
	}
	return err
}

// Look implements payment.Ledger.
func (l *Ledger) Look(ctx context.Context, key payment.Key, since time.Time) (look bool, err error) {
	err = l.writes.do(ctx, false, func(ctx context.Context, u *unit) error {
		query := "UPDATE payments SET looked = ? WHERE" + byKey + " AND state = 'dead' AND (looked <= ? OR looked > ?)"
		now := l.stamp()
		args := append(append([]any{now}, keyArgs(key)...), since.UnixMilli(), now)
		result, err := u.ExecContext(ctx, l.db.Rebind(query), args...)
		if err != nil {
			return wrap("remember a look", err)
		}
		n, err := result.RowsAffected()
		look = n > 0
		return err
	})
	return look, err
}
