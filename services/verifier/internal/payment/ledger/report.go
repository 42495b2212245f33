package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math/big"
	"slices"

	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// List implements payment.Ledger.
func (l *Ledger) List(ctx context.Context, f payment.Filter) ([]payment.Record, error) {
	where, args := l.where(f)
	query := selectBrief + where + " ORDER BY claimed DESC"
	if f.Limit > 0 {
		query, args = query+" LIMIT ?", append(args, f.Limit)
	}
	return l.query(ctx, l.db.Reader, query, append(l.viewArgs(), args...)...)
}

// where returns the conditions of a filter and their arguments.
func (l *Ledger) where(f payment.Filter) (string, []any) {
	where, args := " WHERE 1 = 1", []any(nil)
	switch f.State {
	case "":
	case payment.Unknown:
		where += " AND " + undecided + " AND (state = 'unknown' OR (state = 'settling' AND " + abandoned + "))"
		args = append(args, l.viewArgs()...)
	case payment.Settling:
		where += " AND " + undecided + " AND state = 'settling' AND NOT " + abandoned
		args = append(args, l.viewArgs()...)
	default:
		where, args = where+" AND state = ?", append(args, f.State)
	}
	if !f.From.IsZero() {
		where, args = where+" AND claimed >= ?", append(args, f.From.UnixMilli())
	}
	if !f.Before.IsZero() {
		where, args = where+" AND claimed < ?", append(args, f.Before.UnixMilli())
	}
	return where, args
}

type rowsQuerier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func (l *Ledger) query(ctx context.Context, q rowsQuerier, query string, args ...any) ([]payment.Record, error) {
	rows, err := q.QueryContext(ctx, l.db.Rebind(query), args...)
	if err != nil {
		return nil, fmt.Errorf("list payments: %w", err)
	}
	defer func() { _ = rows.Close() }()
	var list []payment.Record
	for rows.Next() {
		r, err := l.scan(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list payments: %w", err)
	}
	return list, nil
}

// Totals implements payment.Ledger. Amounts may pass 64 bits (a token with 18
// decimals), so the database groups by amount and Go adds up.
func (l *Ledger) Totals(ctx context.Context, f payment.Filter) ([]payment.Total, error) {
	where, args := l.where(f)
	query := "SELECT network, asset, state, amount, month, count(*) FROM (SELECT " + l.monthOfClaim() + ` AS month, network, asset, amount,
		CASE WHEN state = 'settling' AND ` + abandoned + " THEN 'unknown' ELSE state END AS state FROM payments" + where + `) AS p
		GROUP BY network, asset, state, amount, month`
	rows, err := l.db.Reader.QueryContext(ctx, l.db.Rebind(query), append(l.viewArgs(), args...)...)
	if err != nil {
		return nil, fmt.Errorf("sum payments: %w", err)
	}
	defer func() { _ = rows.Close() }()
	sums := map[payment.Total]*payment.Total{} // keyed by a Total without its sums
	for rows.Next() {
		if err := addRow(rows, sums); err != nil {
			return nil, err
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("sum payments: %w", err)
	}
	var totals []payment.Total
	for _, t := range sums {
		totals = append(totals, *t)
	}
	slices.SortFunc(totals, compareTotals)
	return totals, nil
}

func addRow(rows *sql.Rows, sums map[payment.Total]*payment.Total) error {
	var group payment.Total
	var amount string
	var n int
	if err := rows.Scan(&group.Network, &group.Asset, &group.State, &amount, &group.Month, &n); err != nil {
		return fmt.Errorf("sum payments: %w", err)
	}
	each, ok := new(big.Int).SetString(amount, 10)
	if !ok {
		return fmt.Errorf("sum payments: amount %q is no number", amount)
	}
	total := sums[group]
	if total == nil {
		total = &payment.Total{Month: group.Month, Network: group.Network, Asset: group.Asset, State: group.State, Amount: "0"}
		sums[group] = total
	}
	sum, _ := new(big.Int).SetString(total.Amount, 10)
	total.Amount = sum.Add(sum, each.Mul(each, big.NewInt(int64(n)))).String()
	total.Payments += n
	return nil
}

// compareTotals orders totals by month, network, asset and state.
func compareTotals(a, b payment.Total) int {
	return cmp.Or(cmp.Compare(a.Month, b.Month), cmp.Compare(a.Network, b.Network), cmp.Compare(a.Asset, b.Asset), cmp.Compare(a.State, b.State))
}

// monthOfClaim is the calendar month of a claim in UTC, as payment.Month.
func (l *Ledger) monthOfClaim() string {
	if l.db.Dialect == "postgres" {
		return "to_char(to_timestamp(claimed / 1000) AT TIME ZONE 'UTC', 'YYYY-MM')"
	}
	return "strftime('%Y-%m', claimed / 1000, 'unixepoch')"
}
