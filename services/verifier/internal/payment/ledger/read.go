package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/pkg/tracing"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// The columns of a record. The state is the one that payment.Ledger promises: a
// settling record that no process works on reads as unknown. It takes viewArgs first.
const columns = `network, asset, payer, nonce,
	CASE WHEN state = 'settling' AND ` + abandoned + ` THEN 'unknown' ELSE state END,
	owner, deadline, payment, request, identifier, resource, amount, pay_to, valid_before, client,
	month, tx, reason, claimed, changed, repeats, again`

// undecided is the condition of the index payments_open, word for word: SQLite
// uses a partial index only for a query that repeats its condition. It holds for
// all that are neither settled nor dead; and, until Prune, for some that a
// release before this condition has settled.
const undecided = "check_at IS NOT NULL"

const (
	selectRecord = "SELECT " + columns + ", (SELECT answer FROM answers WHERE answers.payment = payments.id) FROM payments"
	selectBrief  = "SELECT " + columns + ", NULL FROM payments"
)

func (l *Ledger) viewArgs() []any { return []any{l.stamp(), l.stamp()} }

const (
	getSQL  = selectRecord + " WHERE" + byKey + " AND NOT (state = 'working' AND " + abandoned + ")"
	findSQL = selectRecord + " WHERE" + byKey
)

// Get implements payment.Ledger.
func (l *Ledger) Get(ctx context.Context, key payment.Key) (payment.Record, error) {
	ctx, span := tracing.Call(ctx, "sql", "read payment")
	defer span.End("")
	args := append(append(l.viewArgs(), keyArgs(key)...), l.viewArgs()...)
	return l.scan(l.prepared.get.QueryRowContext(ctx, args...))
}

// find reads a record as it is, an abandoned claim too.
func (l *Ledger) find(ctx context.Context, tx *sql.Tx, key payment.Key) (payment.Record, error) {
	return l.scan(in(ctx, tx, l.prepared.find, append(l.viewArgs(), keyArgs(key)...)...))
}

// lock reads a record that is about to change, so that two replicas do not
// judge the same state. SQLite's write transactions are alone anyway.
func (l *Ledger) lock(ctx context.Context, tx *sql.Tx, key payment.Key) (payment.Record, error) {
	query := selectBrief + " WHERE" + byKey
	if l.db.Dialect == sqldb.Postgres {
		query += " FOR UPDATE"
	}
	return l.scan(tx.QueryRowContext(ctx, l.db.Rebind(query), append(l.viewArgs(), keyArgs(key)...)...))
}

// scan reads one record; ErrNotFound when there is none.
func (l *Ledger) scan(row interface{ Scan(dest ...any) error }) (payment.Record, error) {
	var r payment.Record
	var paid, request []byte
	var again string
	var deadline, validBefore, claimed, changed int64
	err := row.Scan(&r.Key.Network, &r.Key.Asset, &r.Key.Payer, &r.Key.Nonce, &r.State, &r.Owner, &deadline,
		&paid, &request, &r.Identifier, &r.Resource, &r.Amount, &r.PayTo, &validBefore, &r.Client,
		&r.Month, &r.Transaction, &r.Reason, &claimed, &changed, &r.Repeats, &again, &r.Answer)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return payment.Record{}, payment.ErrNotFound
	case err != nil:
		return payment.Record{}, fmt.Errorf("read a payment: %w", err)
	}
	if again != "" {
		r.Again = strings.Fields(again)
	}
	copy(r.Payment[:], paid)
	copy(r.Request[:], request)
	r.Deadline, r.ValidBefore, r.Claimed, r.Changed = moment(deadline), moment(validBefore), moment(claimed), moment(changed)
	return r, nil
}

// moment reads the tables' unit.
func moment(milliseconds int64) time.Time { return time.UnixMilli(milliseconds).UTC() }

// QuotaStatus implements payment.Ledger.
func (l *Ledger) QuotaStatus(ctx context.Context, month string) (payment.QuotaStatus, error) {
	query := `SELECT COALESCE((SELECT reserved FROM settlements WHERE month = ?), 0), count(*), COALESCE(min(claimed), 0),
		(SELECT count(*) FROM payments WHERE ` + failed + ` AND month = ?)
		FROM payments WHERE ` + undecided + ` AND (state = 'unknown' OR (state = 'settling' AND ` + abandoned + `))`
	var s payment.QuotaStatus
	var oldest int64
	args := append([]any{month, month}, l.viewArgs()...)
	if err := l.db.Reader.QueryRowContext(ctx, l.db.Rebind(query), args...).Scan(&s.Reserved, &s.Unknown, &oldest, &s.Failed); err != nil {
		return s, fmt.Errorf("read the status: %w", err)
	}
	if s.Unknown > 0 {
		s.Oldest = moment(oldest)
	}
	return s, nil
}
