package ledger

import (
	"cmp"
	"context"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// Find returns the records, without Answer, whose nonce is the text or, where there is none, whose
// transaction is.
func (l *Ledger) Find(ctx context.Context, text string) ([]payment.Record, error) {
	if text = strings.ToLower(text); text == "" {
		return nil, nil
	}
	found, err := l.list(ctx, l.db.Reader, selectBrief+" WHERE nonce = ?", l.view(), text)
	if err != nil || len(found) > 0 {
		return found, err
	}
	return l.list(ctx, l.db.Reader, selectBrief+" WHERE tx = ? ORDER BY claimed", l.view(), text)
}

// Refund keeps a refund of a Settled record, which stays so, in one step that is on disk when it
// returns. Of these errors the first counts: ErrLost, if it is not Settled; ErrBooked, if the
// transaction is booked for it; ErrTooMuch, if it is more than was paid or, where that is known,
// than the transaction has moved to the payer.
func (l *Ledger) Refund(ctx context.Context, key payment.Key, refund payment.Refund) error {
	return l.write(ctx, "book a refund", true, func(ctx context.Context, u *unit) error {
		if _, err := u.month(ctx, payment.Month(l.now())); err != nil { // no other replica books one meanwhile
			return err
		}
		r, err := u.lock(ctx, key)
		switch {
		case err != nil:
			return err
		case r.State != payment.Settled:
			return payment.ErrLost
		}
		same, err := u.refunded(ctx, ofPayment+" AND refunds.tx = ?", key.Nonce, key.Payer, key.Asset, key.Network,
			refund.Transaction)
		switch {
		case err != nil:
			return err
		case same.Sign() > 0:
			return payment.ErrBooked
		}
		before, err := u.refunded(ctx, ofPayment, key.Nonce, key.Payer, key.Asset, key.Network)
		if err != nil {
			return err
		}
		ofTransaction, err := u.refunded(ctx, "refunds.tx = ? AND payments.payer = ? AND payments.asset = ? AND "+
			"payments.network = ?",
			refund.Transaction, key.Payer, key.Asset, key.Network)
		if err != nil {
			return err
		}
		amount, err := number(refund.Amount)
		if err != nil {
			return err
		}
		paid, err := number(r.Amount)
		if err != nil {
			return err
		}
		if before.Add(before, amount).Cmp(paid) > 0 || refund.Moved != nil && ofTransaction.Add(ofTransaction,
			amount).Cmp(refund.Moved) > 0 {
			return payment.ErrTooMuch
		}
		_, err = u.exec(ctx, `INSERT INTO refunds (payment, at, by_whom, tx, amount, proven, note)
			SELECT id, ?, ?, ?, ?, ?, ? FROM payments WHERE`+byKey,
			l.now(), refund.By, refund.Transaction, refund.Amount, sqldb.Flag(refund.Proven), refund.Note, key)
		return err
	})
}

// ofPayment is the condition for the refunds of one payment.
const ofPayment = "payments.nonce = ? AND payments.payer = ? AND payments.asset = ? AND payments.network = ?"

// refunded sums the refunds for which a condition holds.
func (u *unit) refunded(ctx context.Context, condition string, args ...any) (*big.Int, error) {
	rows, err := u.QueryContext(ctx,
		u.db.Rebind("SELECT refunds.amount FROM refunds JOIN payments ON payments.id = refunds.payment WHERE "+
			condition), args...)
	amounts, err := sqldb.All(rows, err, func(row sqldb.Scanner) (*big.Int, error) {
		var text string
		if err := row.Scan(&text); err != nil {
			return nil, err
		}
		return number(text)
	})
	if err != nil {
		return nil, fmt.Errorf("sum refunds: %w", err)
	}
	sum := new(big.Int)
	for _, amount := range amounts {
		sum.Add(sum, amount)
	}
	return sum, nil
}

// Books returns what operators decided of a payment, also by an earlier release, and what they
// refunded, the oldest first.
func (l *Ledger) Books(
	ctx context.Context, key payment.Key,
) (decisions []payment.Decision, refunds []payment.Refund, err error) {
	const id = "(SELECT id FROM payments WHERE" + byKey + ")"
	scanDecision := func(row sqldb.Scanner) (d payment.Decision, err error) {
		var at int64
		err = row.Scan(&at, &d.By, &d.From, &d.To, &d.Transaction, &d.Note)
		d.At = sqldb.Moment(at)
		return d, err
	}
	decisions, err = sqldb.List(ctx, l.db, "read the decisions", scanDecision,
		`SELECT at, by_whom, from_state, to_state, tx, note FROM decisions WHERE payment = `+id+`
		UNION ALL SELECT at, by_whom, from_state, to_state, tx, why FROM resolutions WHERE payment = `+id+`
		ORDER BY at`, bind([]any{key, key})...)
	if err != nil {
		return nil, nil, err
	}
	scanRefund := func(row sqldb.Scanner) (r payment.Refund, err error) {
		var at, proven int64
		err = row.Scan(&at, &r.By, &r.Transaction, &r.Amount, &proven, &r.Note)
		r.At, r.Proven = sqldb.Moment(at), proven == 1
		return r, err
	}
	refunds, err = sqldb.List(ctx, l.db, "read the refunds", scanRefund,
		"SELECT at, by_whom, tx, amount, proven, note FROM refunds WHERE payment = "+id+" ORDER BY id",
		bind([]any{key})...)
	if err != nil {
		return nil, nil, err
	}
	return decisions, refunds, nil
}

// Decided counts the decisions that led to Settled and those that led to Dead.
func (l *Ledger) Decided(ctx context.Context) (settled, dead int, err error) {
	const both = "(SELECT to_state FROM decisions UNION ALL SELECT to_state FROM resolutions) AS d"
	err = l.row(ctx, "SELECT count(CASE WHEN to_state = 'settled' THEN 1 END), count(CASE WHEN to_state = 'dead' "+
		"THEN 1 END) FROM "+both).Scan(&settled, &dead)
	if err != nil {
		return 0, 0, fmt.Errorf("count decisions: %w", err)
	}
	return settled, dead, nil
}

// The groups that Grouped may split by, beside those of Totals.
const (
	ByOperation = "operation"
	ByTransport = "transport"
	ByDay       = "day"
	// ByMonth splits no further: every total is of a month.
	ByMonth = "month"
	ByPayer = "payer"
)

// Groups returns the words that Grouped takes as by.
func Groups() []string { return []string{ByOperation, ByTransport, ByDay, ByMonth, ByPayer} }

// Grouped sums as Totals does, split by one of Groups, and reads all payments of the filter. f may
// have any member but Oldest and Limit.
func (l *Ledger) Grouped(ctx context.Context, f payment.Filter, by string) (totals []payment.Total, err error) {
	err = l.ofOneMoment(ctx, func(tx querier) (err error) {
		totals, err = l.grouped(ctx, tx, f, by)
		return err
	})
	return totals, err
}

func (l *Ledger) grouped(
	ctx context.Context, from querier, f payment.Filter, by string,
) (totals []payment.Total, err error) {
	where, args := l.where(f)
	const day = 24 * 60 * 60 * 1000
	payer := "''"
	if by == ByPayer {
		payer = "payer"
	}
	query := fmt.Sprintf(`SELECT day * %d, network, asset, state, operation, resource, transport, amount, payer,
		count(*) FROM (SELECT claimed / %d AS day, network, asset, %s AS state, operation, resource, transport, amount,
			%s AS payer FROM payments%s) AS p
		GROUP BY day, network, asset, state, operation, resource, transport, amount, payer`, day, day, seenState, payer,
		where)
	rows, err := from.QueryContext(ctx, l.db.Rebind(query), bind(append([]any{l.view()}, args...))...)
	groups, err := sqldb.All(rows, err, func(row sqldb.Scanner) (g group, err error) {
		err = row.Scan(&g.claimed, &g.network, &g.asset, &g.state, &g.operation, &g.resource, &g.transport, &g.amount,
			&g.payer, &g.payments)
		return g, err
	})
	if err != nil {
		return nil, fmt.Errorf("sum payments: %w", err)
	}
	for _, g := range groups {
		if totals, err = addTotal(totals, g.total(by)); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(totals, compareTotals)
	return l.addRefunds(ctx, from, totals, f, by)
}

// group is a number of payments that have its other members in common; or one refund, with the members
// of its payment but its own amount, and no payments.
type group struct {
	claimed                                        int64
	network, asset, operation, resource, transport string
	state                                          payment.State
	amount, payer                                  string
	payments                                       int
}

// total returns the group as a total by month, and by one of Groups unless by is empty.
func (g group) total(by string) payment.Total {
	t := payment.Total{
		Month: payment.Month(sqldb.Moment(g.claimed)), State: g.state, Network: g.network, Asset: g.asset,
		Payments: g.payments, Amount: g.amount,
	}
	switch by {
	case ByOperation:
		t.Operation = operationOf(g.operation, g.resource)
	case ByTransport:
		t.Transport = g.transport
	case ByDay:
		t.Day = sqldb.Moment(g.claimed).Format(time.DateOnly)
	case ByPayer:
		t.Payer = g.payer
	}
	return t
}

// refundsSQL makes SQLite begin with the refunds, which are few: because of + 0 it cannot use
// their index by payment.
const refundsSQL = `SELECT payments.claimed, network, asset, state, operation, resource, transport, refunds.amount,
	payer FROM refunds JOIN payments ON payments.id = refunds.payment + 0`

// addRefunds sets what was refunded, and what is left, in the totals of the payments.
func (l *Ledger) addRefunds(
	ctx context.Context, from querier, totals []payment.Total, f payment.Filter, by string,
) ([]payment.Total, error) {
	where, args := l.where(f)
	rows, err := from.QueryContext(ctx, l.db.Rebind(refundsSQL+where), bind(args)...)
	refunds, err := sqldb.All(rows, err, func(row sqldb.Scanner) (g group, err error) {
		err = row.Scan(&g.claimed, &g.network, &g.asset, &g.state, &g.operation, &g.resource, &g.transport, &g.amount,
			&g.payer)
		return g, err
	})
	if err != nil {
		return nil, fmt.Errorf("sum refunds: %w", err)
	}
	for _, g := range refunds {
		if err := subtract(totals, g.total(by)); err != nil {
			return nil, err
		}
	}
	return totals, nil
}

// subtract enters a refund in Refunded and Net of its total, if that is among totals. t names that total
// by what compareTotals compares, and its Amount is the refund's.
func subtract(totals []payment.Total, t payment.Total) error {
	i := slices.IndexFunc(totals, func(other payment.Total) bool { return compareTotals(other, t) == 0 })
	if i < 0 {
		return nil
	}
	of := &totals[i]
	var err error
	if of.Refunded, err = plus(cmp.Or(of.Refunded, "0"), t.Amount, 1); err == nil {
		of.Net, err = plus(of.Amount, of.Refunded, -1)
	}
	if err != nil {
		return fmt.Errorf("sum refunds: %w", err)
	}
	return nil
}

// number reads an amount in atomic units, decimal, which may pass 64 bits (a token with 18
// decimals).
func number(amount string) (*big.Int, error) {
	n, ok := new(big.Int).SetString(amount, 10)
	if !ok {
		return nil, fmt.Errorf("amount %q is no number", amount)
	}
	return n, nil
}
