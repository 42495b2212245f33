package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// Statement returns the statement of a month, named by its first moment in UTC.
func (l *Ledger) Statement(ctx context.Context, month time.Time) (s payment.Statement, err error) {
	err = l.ofOneMoment(ctx, func(tx querier) (err error) {
		s, err = l.statement(ctx, tx, month)
		return err
	})
	return s, err
}

func (l *Ledger) statement(ctx context.Context, from querier, month time.Time) (s payment.Statement, err error) {
	now, open, err := l.incomeOf(ctx, from, month)
	if err != nil {
		return s, err
	}
	s = payment.Statement{
		Month: payment.Month(month), Lines: now, Corrections: []payment.Correction{}, Open: open,
	}
	closed, err := l.closedLines(ctx, from, &s)
	if err != nil || s.Closed.IsZero() {
		return s, err
	}
	s.Lines = closed
	if s.Corrections, err = l.corrections(ctx, from, month, s.Closed); err != nil {
		return s, err
	}
	rest, err := unexplained(closed, now, s.Corrections)
	s.Corrections = append(s.Corrections, rest...)
	return s, err
}

// CloseMonth keeps the lines of a month as they are now. payment.ErrClosed: it is closed already.
func (l *Ledger) CloseMonth(ctx context.Context, month time.Time, by string) error {
	name := payment.Month(month)
	return l.write(ctx, "close a month", true, func(ctx context.Context, u *unit) error {
		if _, err := u.month(ctx, name); err != nil { // of two that close it, one waits here
			return err
		}
		var closed bool
		err := u.row(ctx, "SELECT EXISTS (SELECT 1 FROM statements WHERE month = ?)", name).Scan(&closed)
		if err == nil && closed {
			err = payment.ErrClosed
		}
		if err != nil {
			return err
		}
		lines, _, err := l.incomeOf(ctx, u.Tx, month)
		if err != nil {
			return err
		}
		if len(lines) == 0 {
			lines = []payment.StatementLine{{Amount: "0", Refunded: "0"}}
		}
		for _, line := range lines {
			if _, err = u.exec(ctx, `INSERT INTO statements
				(month, network, asset, payments, amount, refunded, closed, by_whom)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, name, line.Network, line.Asset, line.Payments, line.Amount,
				line.Refunded, u.now(), by); err != nil {
				return err
			}
		}
		return nil
	})
}

// incomeOf returns what the settled payments of a month have brought, and how many payments of the
// month are open.
func (l *Ledger) incomeOf(
	ctx context.Context, from querier, month time.Time,
) (lines []payment.StatementLine, open int, err error) {
	end := payment.NextMonth(month)
	totals, err := l.totals(ctx, from, payment.Filter{State: payment.Settled, From: month, Before: end})
	if err != nil {
		return nil, 0, err
	}
	lines = []payment.StatementLine{}
	for _, t := range totals {
		lines = append(lines, payment.StatementLine{
			Network: t.Network, Asset: t.Asset, Payments: t.Payments, Amount: t.Amount,
			Refunded: cmp.Or(t.Refunded, "0"), Net: cmp.Or(t.Net, t.Amount),
		})
	}
	if err = l.rowOf(ctx, from, "SELECT count(*) FROM payments WHERE "+undecided+
		" AND claimed >= ? AND claimed < ? AND "+begun, month, end).Scan(&open); err != nil {
		return nil, 0, fmt.Errorf("count the open payments of a month: %w", err)
	}
	return lines, open, nil
}

// closedLines returns the lines that the month of s was closed with, and sets s.Closed and s.By. A
// month that is open has none, and leaves s as it is.
func (l *Ledger) closedLines(
	ctx context.Context, from querier, s *payment.Statement,
) ([]payment.StatementLine, error) {
	rows, err := from.QueryContext(ctx, l.db.Rebind(`SELECT network, asset, payments, amount, refunded, closed,
		by_whom FROM statements WHERE month = ? ORDER BY network, asset`), s.Month)
	lines, err := sqldb.All(rows, err, func(row sqldb.Scanner) (line payment.StatementLine, err error) {
		var closed int64
		if err = row.Scan(&line.Network, &line.Asset, &line.Payments, &line.Amount, &line.Refunded, &closed,
			&s.By); err != nil {
			return line, err
		}
		s.Closed = sqldb.Moment(closed)
		line.Net, err = plus(line.Amount, line.Refunded, -1)
		return line, err
	})
	if err != nil {
		return nil, fmt.Errorf("read a statement: %w", err)
	}
	return slices.DeleteFunc(lines, func(line payment.StatementLine) bool { return line.Network == "" }), nil
}

// corrections returns what operators have decided and refunded of a month's payments since it was
// closed. What they decided counts where it made income of a payment, or the other way round.
func (l *Ledger) corrections(
	ctx context.Context, from querier, month, closed time.Time,
) ([]payment.Correction, error) {
	rows, err := from.QueryContext(ctx, l.db.Rebind(`SELECT 'decided', decisions.at, network, asset, amount,
		CASE WHEN to_state = 'settled' THEN 1 ELSE 0 END - CASE WHEN from_state = 'settled' THEN 1 ELSE 0 END,
		nonce, by_whom, note
		FROM decisions JOIN payments ON payments.id = decisions.payment
		WHERE decisions.at >= ? AND claimed >= ? AND claimed < ?
		UNION ALL SELECT 'refunded', refunds.at, network, asset, refunds.amount, -1, nonce, by_whom, note
		FROM refunds JOIN payments ON payments.id = refunds.payment
		WHERE refunds.at >= ? AND claimed >= ? AND claimed < ? ORDER BY 2`),
		bind([]any{closed, month, payment.NextMonth(month), closed, month, payment.NextMonth(month)})...)
	all, err := sqldb.All(rows, err, func(row sqldb.Scanner) (c payment.Correction, err error) {
		var at, sign int64
		if err = row.Scan(&c.Why, &at, &c.Network, &c.Asset, &c.Amount, &sign, &c.Nonce, &c.By, &c.Note); err != nil {
			return c, err
		}
		c.At = sqldb.Moment(at)
		c.Amount, err = plus("0", c.Amount, sign)
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the corrections of a month: %w", err)
	}
	return append([]payment.Correction{}, slices.DeleteFunc(all, func(c payment.Correction) bool {
		return c.Amount == "0"
	})...), nil
}

// unexplained returns, for each token, by how much what a month has brought now differs from what
// it was closed with and the corrections.
func unexplained(
	closed, now []payment.StatementLine, known []payment.Correction,
) (rest []payment.Correction, err error) {
	type token struct{ network, asset string }
	difference := map[token]string{}
	add := func(network, asset, amount string, sign int64) {
		of := token{network, asset}
		sum, fault := plus(cmp.Or(difference[of], "0"), amount, sign)
		difference[of], err = sum, errors.Join(err, fault)
	}
	for _, line := range now {
		add(line.Network, line.Asset, line.Net, 1)
	}
	for _, line := range closed {
		add(line.Network, line.Asset, line.Net, -1)
	}
	for _, c := range known {
		add(c.Network, c.Asset, c.Amount, -1)
	}
	for of, amount := range difference {
		if amount != "0" {
			rest = append(rest, payment.Correction{
				Network: of.network, Asset: of.asset, Amount: amount, Why: payment.CorrectedByChain,
			})
		}
	}
	slices.SortFunc(rest, func(a, b payment.Correction) int {
		return cmp.Or(cmp.Compare(a.Network, b.Network), cmp.Compare(a.Asset, b.Asset))
	})
	return rest, err
}

// plus returns sum + times × amount.
func plus(sum, amount string, times int64) (string, error) {
	a, err := number(sum)
	if err != nil {
		return "", err
	}
	b, err := number(amount)
	if err != nil {
		return "", err
	}
	return a.Add(a, b.Mul(b, big.NewInt(times))).String(), nil
}
