package ledger

import (
	"cmp"
	"context"
	"fmt"
	"math/big"
	"slices"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// QuotaStatus implements payment.Ledger.
func (l *Ledger) QuotaStatus(ctx context.Context, month string) (s payment.QuotaStatus, err error) {
	query := `SELECT COALESCE((SELECT reserved FROM settlements WHERE month = ?), 0), count(*), COALESCE(min(claimed), 0),
		(SELECT count(*) FROM payments WHERE ` + failed + ` AND month = ?) FROM payments WHERE ` + unknown
	var oldest int64
	if err := l.row(ctx, query, month, month, l.view()).Scan(&s.Reserved, &s.Unknown, &oldest, &s.Failed); err != nil {
		return s, fmt.Errorf("read the status: %w", err)
	}
	if s.Unknown > 0 {
		s.Oldest = moment(oldest)
	}
	return s, nil
}

// List returns records without Answer, newest first.
func (l *Ledger) List(ctx context.Context, f payment.Filter) ([]payment.Record, error) {
	where, args := l.where(f)
	query := selectBrief + where + " ORDER BY claimed DESC"
	if f.Limit > 0 {
		query, args = query+" LIMIT ?", append(args, f.Limit)
	}
	return l.list(ctx, l.db.Reader, query, append([]any{l.view()}, args...)...)
}

// where returns the conditions of a filter and their arguments.
func (l *Ledger) where(f payment.Filter) (where string, args []any) {
	where = " WHERE 1 = 1"
	switch f.State {
	case "":
	case payment.Unknown:
		where, args = where+" AND "+unknown, append(args, l.view())
	case payment.Settling:
		where, args = where+" AND "+undecided+" AND state = 'settling' AND NOT "+abandoned, append(args, l.view())
	default:
		where, args = where+" AND state = ?", append(args, f.State)
	}
	if !f.From.IsZero() {
		where, args = where+" AND claimed >= ?", append(args, f.From)
	}
	if !f.Before.IsZero() {
		where, args = where+" AND claimed < ?", append(args, f.Before)
	}
	return where, args
}

// Totals sums the payments by month of their claim (UTC), asset and state. Amounts may
// pass 64 bits (a token with 18 decimals), so the database groups by amount and Go adds up.
func (l *Ledger) Totals(ctx context.Context, f payment.Filter) ([]payment.Total, error) {
	month := "strftime('%Y-%m', claimed / 1000, 'unixepoch')" // as payment.Month
	if l.db.Dialect == sqldb.Postgres {
		month = "to_char(to_timestamp(claimed / 1000) AT TIME ZONE 'UTC', 'YYYY-MM')"
	}
	where, args := l.where(f)
	query := "SELECT network, asset, seen, amount, month, count(*) FROM (SELECT " + month + " AS month, network, asset, amount, " +
		seenState + " AS seen FROM payments" + where + ") AS p GROUP BY network, asset, seen, amount, month"
	rows, err := l.db.Reader.QueryContext(ctx, l.db.Rebind(query), bind(append([]any{l.view()}, args...))...)
	if err != nil {
		return nil, fmt.Errorf("sum payments: %w", err)
	}
	defer func() { _ = rows.Close() }()
	var totals []payment.Total
	for rows.Next() {
		var t payment.Total
		if err := rows.Scan(&t.Network, &t.Asset, &t.State, &t.Amount, &t.Month, &t.Payments); err != nil {
			return nil, fmt.Errorf("sum payments: %w", err)
		}
		each, ok := new(big.Int).SetString(t.Amount, 10)
		if !ok {
			return nil, fmt.Errorf("sum payments: amount %q is no number", t.Amount)
		}
		sum := each.Mul(each, big.NewInt(int64(t.Payments)))
		if i := slices.IndexFunc(totals, func(other payment.Total) bool { return compareTotals(t, other) == 0 }); i >= 0 {
			others, _ := new(big.Int).SetString(totals[i].Amount, 10)
			totals[i].Payments += t.Payments
			totals[i].Amount = sum.Add(sum, others).String()
			continue
		}
		t.Amount = sum.String()
		totals = append(totals, t)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("sum payments: %w", err)
	}
	slices.SortFunc(totals, compareTotals)
	return totals, nil
}

// compareTotals orders totals by month, network, asset and state.
func compareTotals(a, b payment.Total) int {
	return cmp.Or(cmp.Compare(a.Month, b.Month), cmp.Compare(a.Network, b.Network), cmp.Compare(a.Asset, b.Asset), cmp.Compare(a.State, b.State))
}
