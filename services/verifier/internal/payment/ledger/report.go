package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// QuotaStatus implements payment.Ledger.
func (l *Ledger) QuotaStatus(ctx context.Context, month string) (s payment.QuotaStatus, err error) {
	query := `SELECT COALESCE((SELECT reserved FROM settlements
		WHERE month = ?), 0), count(*), COALESCE(min(claimed), 0),
		(SELECT count(*) FROM payments WHERE ` + failed + ` AND month = ?) FROM payments WHERE ` + unknown
	var oldest int64
	if err := l.row(ctx, query, month, month, l.view()).Scan(&s.Reserved, &s.Unknown, &oldest, &s.Failed); err != nil {
		return s, fmt.Errorf("read the status: %w", err)
	}
	if s.Unknown > 0 {
		s.Oldest = sqldb.Moment(oldest)
	}
	return s, nil
}

// List returns the records of a filter, without Answer.
func (l *Ledger) List(ctx context.Context, f payment.Filter) ([]payment.Record, error) {
	where, args := l.where(f)
	order := " ORDER BY claimed"
	if strings.Contains(where, undecided) {
		order = " ORDER BY +claimed" // sorts these few; by the index SQLite would go through all claims
	}
	if !f.Oldest {
		order += " DESC"
	}
	query := selectBrief + where + order
	if f.Limit > 0 {
		query, args = query+" LIMIT ?", append(args, f.Limit)
	}
	return l.list(ctx, l.db.Reader, query, append([]any{l.view()}, args...)...)
}

// where returns the conditions of a filter and their arguments. SQLite uses a partial
// index only for a state that is in the query's text.
func (l *Ledger) where(f payment.Filter) (where string, args []any) {
	where = " WHERE 1 = 1"
	switch f.State {
	case "":
	case payment.Unknown:
		where, args = where+" AND "+unknown, append(args, l.view())
	case payment.Settling:
		where, args = where+" AND "+undecided+" AND state = 'settling' AND NOT "+abandoned, append(args, l.view())
	case payment.Working:
		where += " AND " + undecided + " AND state = 'working'"
	case payment.Dead:
		where += " AND state = 'dead'"
	default:
		where, args = where+" AND state = ?", append(args, f.State)
	}
	if !f.From.IsZero() {
		where, args = where+" AND claimed >= ?", append(args, f.From)
	}
	if !f.Before.IsZero() {
		where, args = where+" AND claimed < ?", append(args, f.Before)
	}
	if f.Operation != "" {
		where, args = where+" AND (operation = ? OR operation = '' AND resource LIKE '%/' || ?)",
			append(args, f.Operation, f.Operation)
	}
	if f.Transport != "" {
		where, args = where+" AND transport = ?", append(args, f.Transport)
	}
	if f.Payer != "" {
		where, args = where+" AND payer = ?", append(args, f.Payer)
	}
	return where, args
}

// nextSQL finds, of the payments that have ended, the one that comes next after a place in the
// index of totals. endedInSQL counts, by that index, payments that differ in their claims only.
const (
	nextSQL = `SELECT network, asset, state, amount, claimed FROM payments WHERE check_at IS NULL
		AND (network, asset, state, amount, claimed) > (?, ?, ?, ?, ?)
		ORDER BY network, asset, state, amount, claimed LIMIT 1`
	endedInSQL = `SELECT count(*) FROM payments WHERE check_at IS NULL
		AND network = ? AND asset = ? AND state = ? AND amount = ? AND claimed >= ? AND claimed < ?`
)

// Totals sums the payments by month of their claim (UTC), network, asset and state, all of one
// moment. f may have State, From and Before, and nothing else. Payments that have ended are
// counted by their index, a month at a time.
func (l *Ledger) Totals(ctx context.Context, f payment.Filter) (totals []payment.Total, err error) {
	err = l.ofOneMoment(ctx, func(tx querier) (err error) {
		totals, err = l.totals(ctx, tx, f)
		return err
	})
	return totals, err
}

// ofOneMoment calls read with a transaction that sees what was committed until its first query.
func (l *Ledger) ofOneMoment(ctx context.Context, read func(tx querier) error) error {
	options := &sql.TxOptions{ReadOnly: true}
	if l.db.Dialect == sqldb.Postgres { // in SQLite each transaction is of one moment
		options.Isolation = sql.LevelRepeatableRead
	}
	tx, err := l.db.Reader.BeginTx(ctx, options)
	if err != nil {
		return fmt.Errorf("sum payments: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	return read(tx) // and from nothing else: a second connection may not be there
}

// totals is Totals, read from a pool or in a transaction.
func (l *Ledger) totals(ctx context.Context, from querier, f payment.Filter) (totals []payment.Total, err error) {
	where, args := l.where(f)
	open, err := l.list(ctx, from, selectBrief+where+" AND "+undecided, append([]any{l.view()}, args...)...)
	if err != nil {
		return nil, err
	}
	for _, r := range open {
		each := payment.Total{
			Month: payment.Month(r.Claimed), Network: r.Key.Network, Asset: r.Key.Asset, State: r.State, Payments: 1,
			Amount: r.Amount,
		}
		if totals, err = addTotal(totals, each); err != nil {
			return nil, err
		}
	}
	var t payment.Total
	for claimed := int64(math.MinInt64); ; {
		err := l.rowOf(ctx, from, nextSQL, t.Network, t.Asset, t.State, t.Amount, claimed).Scan(&t.Network, &t.Asset,
			&t.State, &t.Amount, &claimed)
		if errors.Is(err, sql.ErrNoRows) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("sum payments: %w", err)
		}
		since, before := sqldb.Moment(claimed), payment.NextMonth(sqldb.Moment(claimed))
		switch {
		case f.State != "" && t.State != f.State, !f.Before.IsZero() && !since.Before(f.Before):
			claimed = math.MaxInt64 // the next amount follows
			continue
		case !before.After(f.From):
			claimed = f.From.UnixMilli() - 1
			continue
		}
		t.Month, claimed = payment.Month(since), before.UnixMilli()-1
		if f.From.After(since) {
			since = f.From
		}
		if !f.Before.IsZero() && f.Before.Before(before) {
			before = f.Before
		}
		if err := l.rowOf(ctx, from, endedInSQL, t.Network, t.Asset, t.State, t.Amount, since,
			before).Scan(&t.Payments); err != nil {
			return nil, fmt.Errorf("sum payments: %w", err)
		}
		if totals, err = addTotal(totals, t); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(totals, compareTotals)
	return l.addRefunds(ctx, from, totals, f, "")
}

// addTotal adds t.Payments payments of t.Amount each to their total.
func addTotal(totals []payment.Total, t payment.Total) ([]payment.Total, error) {
	each, err := number(t.Amount)
	if err != nil {
		return nil, fmt.Errorf("sum payments: %w", err)
	}
	if t.Payments == 0 {
		return totals, nil
	}
	sum := each.Mul(each, big.NewInt(int64(t.Payments)))
	i := slices.IndexFunc(totals, func(other payment.Total) bool { return compareTotals(t, other) == 0 })
	if i < 0 {
		t.Amount = sum.String()
		return append(totals, t), nil
	}
	others, _ := new(big.Int).SetString(totals[i].Amount, 10)
	totals[i].Payments += t.Payments
	totals[i].Amount = sum.Add(sum, others).String()
	return totals, nil
}

// compareTotals orders totals by month, day, operation, transport, payer, network, asset and
// state.
func compareTotals(a, b payment.Total) int {
	return cmp.Or(cmp.Compare(a.Month, b.Month), cmp.Compare(a.Day, b.Day), cmp.Compare(a.Operation, b.Operation),
		cmp.Compare(a.Transport, b.Transport), cmp.Compare(a.Payer, b.Payer),
		cmp.Compare(a.Network, b.Network), cmp.Compare(a.Asset, b.Asset), cmp.Compare(a.State, b.State))
}
