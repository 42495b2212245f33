package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// The conditions of the indexes by payer and client, word for word, as undecided
// is: a settlement that was made in vain, one that is under way or open, and one
// that was paid.
const (
	failed = "state = 'dead' AND month <> ''"
	begun  = "(state = 'settling' OR state = 'unknown')"
	paid   = "state = 'settled'"
	// unclear: it ended because its authorization expired unspent, after the
	// facilitator was called. Its settlement was given back, so it has not failed.
	unclear = "state = 'dead' AND reason = '" + payment.ReasonExpired + "'"
)

// failedSQL counts what has failed, of a payer and of a client.
const failedSQL = `SELECT (SELECT count(*) FROM payments WHERE payer = ? AND claimed >= ? AND ` + failed + `),
	(SELECT count(*) FROM payments WHERE client = ? AND client <> '' AND claimed >= ? AND ` + failed + `)`

// tallySQL is what a settlement's beginning looks at: what has failed of its
// payer and of its client, what is under way or open, and what ended unclear. Most
// need no more.
const tallySQL = `SELECT (SELECT count(*) FROM payments WHERE payer = ? AND claimed >= ? AND ` + failed + `),
	(SELECT count(*) FROM payments WHERE client = mine.client AND client <> '' AND claimed >= ? AND ` + failed + `),
	(SELECT count(*) FROM payments WHERE payer = ? AND ` + begun + `),
	(SELECT count(*) FROM payments WHERE client = mine.client AND client <> '' AND ` + begun + `),
	(SELECT count(*) FROM payments WHERE payer = ? AND claimed >= ? AND ` + unclear + `),
	(SELECT count(*) FROM payments WHERE client = mine.client AND client <> '' AND claimed >= ? AND ` + unclear + `), client
	FROM payments AS mine WHERE` + byKey + ` AND owner = ? AND state = 'working'`

// refuse returns why a settlement may not begin, if it may not: the caps are
// reached, or the month has none left for its payer.
func (l *Ledger) refuse(ctx context.Context, tx *sql.Tx, key payment.Key, owner string, s payment.Settlement, reserved int) (refused, err error) {
	if reserved >= s.Limit {
		return payment.ErrLimit, nil // there is nothing to wait for
	}
	if s.Caps.Payer > 0 || s.Caps.Client > 0 {
		if refused, err = l.capped(ctx, tx, key, owner, s.Caps); err != nil || refused != nil {
			return refused, err
		}
	}
	return l.spent(ctx, tx, key.Payer, reserved, s.Limit, s.Kept)
}

// spent returns ErrLimit when the month has no settlement left for a payer.
func (l *Ledger) spent(ctx context.Context, tx *sql.Tx, payer string, reserved, limit, kept int) (refused, err error) {
	if reserved >= limit {
		return payment.ErrLimit, nil
	}
	if reserved >= limit-kept {
		known, err := l.paidAtLeast(ctx, tx, "payer", payer, 1)
		if err != nil || !known {
			return payment.ErrLimit, err
		}
	}
	return nil, nil
}

// capped holds a settlement against the caps. What is under way is counted as it
// stands in the table first, and looked at one by one only if that is too many.
func (l *Ledger) capped(ctx context.Context, tx *sql.Tx, key payment.Key, owner string, c payment.Caps) (refused, err error) {
	since := c.Since.UnixMilli()
	var inVain, started, expired payment.Tally
	var client string
	args := append([]any{key.Payer, since, since, key.Payer, key.Payer, since, since}, append(keyArgs(key), owner)...)
	err = in(ctx, tx, l.prepared.tally, args...).Scan(&inVain.Payer, &inVain.Client, &started.Payer, &started.Client, &expired.Payer, &expired.Client, &client)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil // the claim is lost, which the caller finds
	case err != nil:
		return nil, wrap("count settlements of a payer", err)
	}
	if (c.Payer > 0 && inVain.Payer >= c.Payer) || (c.Client > 0 && inVain.Client >= c.Client) {
		return payment.ErrFailing, nil
	}
	for _, of := range []struct {
		column, value                   string
		limit, inVain, started, expired int
	}{
		{"payer", key.Payer, c.Payer, inVain.Payer, started.Payer, expired.Payer},
		{"client", client, c.Client, inVain.Client, started.Client, expired.Client},
	} {
		if !payment.Crowded(of.limit, of.inVain, of.started+of.expired, 0, 0) {
			continue
		}
		crowded, err := l.crowded(ctx, tx, of.column, of.value, of.limit, of.inVain, of.started, of.expired, since)
		if err != nil || crowded {
			return payment.ErrCrowded, err
		}
	}
	return nil, nil
}

// crowded looks whether enough was paid for what is under way, and then what of
// that really is.
func (l *Ledger) crowded(ctx context.Context, tx *sql.Tx, column, value string, limit, inVain, started, expired int, since int64) (bool, error) {
	enough, err := l.paidAtLeast(ctx, tx, column, value, inVain+started+expired-limit+1)
	if err != nil || enough {
		return false, err
	}
	var underWay, open, settled int
	query := `SELECT COALESCE(sum(CASE WHEN state = 'settling' AND NOT ` + abandoned + ` THEN 1 ELSE 0 END), 0),
		COALESCE(sum(CASE WHEN claimed >= ? AND (state = 'unknown' OR ` + abandoned + `) THEN 1 + repeats ELSE 0 END), 0),
		(SELECT count(*) FROM (SELECT 1 FROM payments WHERE ` + column + ` = ? AND ` + paid + ` LIMIT ?) AS p)
		FROM payments WHERE ` + column + ` = ? AND ` + begun
	args := append(append(append(l.viewArgs(), since), l.viewArgs()...), value, inVain+started+expired, value)
	if err := tx.QueryRowContext(ctx, l.db.Rebind(query), args...).Scan(&underWay, &open, &settled); err != nil {
		return false, wrap("count settlements under way", err)
	}
	return payment.Crowded(limit, inVain, underWay, open+expired, settled), nil
}

// paidAtLeast reports whether so many payments of a payer or client were settled.
func (l *Ledger) paidAtLeast(ctx context.Context, q rowQuerier, column, value string, n int) (bool, error) {
	var settled int
	query := "SELECT count(*) FROM (SELECT 1 FROM payments WHERE " + column + " = ? AND " + paid + " LIMIT ?) AS p"
	if err := q.QueryRowContext(ctx, l.db.Rebind(query), value, n).Scan(&settled); err != nil {
		return false, fmt.Errorf("count settled payments: %w", err)
	}
	return settled >= n, nil
}

type rowQuerier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Paid implements payment.Ledger.
func (l *Ledger) Paid(ctx context.Context, payer string) (bool, error) {
	return l.paidAtLeast(ctx, l.db.Reader, "payer", payer, 1)
}

// Failed implements payment.Ledger.
func (l *Ledger) Failed(ctx context.Context, payer, client string, since time.Time) (t payment.Tally, err error) {
	from := since.UnixMilli()
	if err := l.prepared.failed.QueryRowContext(ctx, payer, from, client, from).Scan(&t.Payer, &t.Client); err != nil {
		return t, fmt.Errorf("count failed settlements: %w", err)
	}
	return t, nil
}

// Bought implements payment.Ledger.
func (l *Ledger) Bought(ctx context.Context, payer, identifier string) (payment.Record, error) {
	return l.scan(l.prepared.bought.QueryRowContext(ctx, append(l.viewArgs(), payer, identifier)...))
}
