package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// bought is the condition for a record that an identifier has bought with.
const bought = "identifier <> '' AND state <> 'working' AND state <> 'dead'"

const (
	beginSQL = `UPDATE payments SET state = 'settling', month = ?, deadline = ?, changed = ?
		WHERE` + byKey + ` AND owner = ? AND request = ? AND state = 'working' AND NOT EXISTS
		(SELECT 1 FROM payments AS duplicate WHERE duplicate.payer = payments.payer AND duplicate.identifier = payments.identifier AND duplicate.` + bought + `)`
	boughtSQL = selectRecord + " WHERE payer = ? AND identifier = ? AND " + bought + " LIMIT 1"
	keepSQL   = "INSERT INTO answers (payment, claimed, answer) SELECT id, claimed, ? FROM payments WHERE" + byKey
)

// Begin implements payment.Ledger. It waits for the disk when it began.
func (l *Ledger) Begin(ctx context.Context, key payment.Key, owner string, s payment.Settlement) (*payment.Record, error) {
	var duplicate *payment.Record
	var refused error
	err := l.writes.do(ctx, true, func(ctx context.Context, u *unit) (err error) {
		duplicate, refused, err = l.begin(ctx, u, key, owner, s)
		return err
	})
	return duplicate, errors.Join(err, refused)
}

// begin separates what the ledger refuses, which leaves the batch's transaction
// sound, from what failed.
func (l *Ledger) begin(ctx context.Context, u *unit, key payment.Key, owner string, s payment.Settlement) (duplicate *payment.Record, refused, err error) {
	month, err := u.month(ctx, s.Month)
	if err != nil {
		return nil, nil, err
	}
	refused, err = l.refuse(ctx, u.Tx, key, owner, s, month.reserved)
	if err != nil {
		return nil, nil, err
	}
	if refused == nil {
		began, err := l.markSettling(ctx, u.Tx, key, owner, s)
		if began && err == nil {
			err = u.add(ctx, s.Month, 1)
		}
		if err != nil || began {
			return nil, nil, err
		}
	}
	return l.explainRejection(ctx, u.Tx, key, owner, s.Request, refused)
}

// markSettling makes a working record settling and keeps its answer, or does nothing.
func (l *Ledger) markSettling(ctx context.Context, tx *sql.Tx, key payment.Key, owner string, s payment.Settlement) (began bool, err error) {
	args := append([]any{s.Month, s.Deadline.UnixMilli(), l.stamp()}, keyArgs(key)...)
	began, err = changed(ctx, tx, l.prepared.begin, append(args, owner, s.Request[:])...)
	if began && err == nil {
		_, err = changed(ctx, tx, l.prepared.keep, append([]any{s.Answer}, keyArgs(key)...)...)
	}
	return began, wrap("begin a settlement", err)
}

// explainRejection returns why a settlement did not begin: refused, unless the record
// shows more.
func (l *Ledger) explainRejection(ctx context.Context, tx *sql.Tx, key payment.Key, owner string, request payment.Digest, why error) (duplicate *payment.Record, refused, err error) {
	r, err := l.find(ctx, tx, key)
	switch {
	case errors.Is(err, payment.ErrNotFound), err == nil && (r.Owner != owner || r.State != payment.Working || r.Request != request):
		return nil, payment.ErrLost, nil
	case err != nil:
		return nil, nil, err
	}
	found, err := l.scan(tx.QueryRowContext(ctx, l.db.Rebind(boughtSQL), append(l.viewArgs(), key.Payer, r.Identifier)...))
	switch {
	case errors.Is(err, payment.ErrNotFound):
		return nil, cmp.Or(why, payment.ErrLost), nil
	case err != nil:
		return nil, nil, err
	}
	return &found, nil, nil
}

// wrap adds the operation to an error, if there is one.
func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
