package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// The conditions of the indexes by payer and client, word for word (see undecided): for a
// settlement that failed, for one that is under way or open, and for one that was paid.
const (
	failed = "state = 'dead' AND month <> ''"
	begun  = "(state = 'settling' OR state = 'unknown')"
	paid   = "state = 'settled'"
	// unclear holds for a settlement that ended because its authorization expired unspent. Unless
	// a transaction was named for it, its reservation was given back, and it has not failed.
	unclear = "state = 'dead' AND reason = '" + payment.ReasonExpired + "'"
)

// paidByPayer and paidByClient count at most so many settled payments. Their arguments are the
// value, twice, and the bound. They compare by a range and not by =, for which Postgres may
// misestimate how many match, and scan another index or the whole table; for a range in order it
// reads the index of the column. The bound is LIMIT 0 + ? because SQLite would plan a statement
// with LIMIT ? anew for each value.
const (
	paidByPayer = "SELECT count(*) FROM (SELECT 1 FROM payments WHERE payer >= ? AND payer <= ? AND " + paid +
		" ORDER BY payer LIMIT 0 + ?) AS p"
	paidByClient = "SELECT count(*) FROM (SELECT 1 FROM payments WHERE client >= ? AND client <= ? AND " + paid +
		" ORDER BY client LIMIT 0 + ?) AS p"
)

// ofPayer counts what has failed of a payer since a moment. Copies that are not plain may be
// made by anyone who knows the address, so they are counted apart.
const ofPayer = "SELECT count(*) FROM payments WHERE payer = ? AND claimed >= ? AND " + failed + " AND plain = "

// failedOfStrangers counts what has failed, at most so many, of payers who were not known when it
// began, since a moment.
const failedOfStrangers = "SELECT count(*) FROM (SELECT 1 FROM payments WHERE claimed >= ? AND stranger = 1 AND " +
	failed + " ORDER BY claimed LIMIT 0 + ?) AS s"

// historySQL counts what has failed of a payer, today and in the month, and what they have paid,
// up to manyPaid. For one who is known that is all that counts.
const historySQL = "SELECT (" + ofPayer + "?), (" + ofPayer + "?), (" + paidByPayer + ")"

// aroundSQL counts what has failed of a client, and of the network around it, since a moment.
const aroundSQL = `SELECT (SELECT count(*) FROM payments WHERE client = ? AND client <> '' AND claimed >= ? AND ` +
	failed + `),
	(SELECT count(*) FROM payments WHERE around = ? AND around <> '' AND claimed >= ? AND ` + failed + ")"

// History implements payment.Ledger.
func (l *Ledger) History(ctx context.Context, r payment.Record, c payment.Caps) (h payment.History, err error) {
	payer := r.Key.Payer
	err = l.row(ctx, historySQL, payer, c.Since, sqldb.Flag(r.Plain), payer, c.MonthSince, sqldb.Flag(r.Plain), payer,
		payer, manyPaid).Scan(&h.Payer, &h.PayerMonth, &h.Paid)
	known := c.Knows(h)
	if err == nil && !known {
		err = l.row(ctx, aroundSQL, r.Client, c.Since, r.Around, c.Since).Scan(&h.Client, &h.Around)
	}
	if err == nil && !known && c.Strangers > 0 {
		_, err = countStrangers(l.row(ctx, strangersSQL, ofStrangers(l.view(), c)...), &h)
	}
	if err != nil {
		return h, fmt.Errorf("read a payer's history: %w", err)
	}
	return h, nil
}

// manyPaid bounds the paid settlements that historySQL, tallySQL and clientSQL count.
const manyPaid = 64

// tallySQL is what a settlement's beginning looks at of its payer: what has failed, what is under
// way or open, what ended unclear, and, up to manyPaid, what was paid. For a known payer more is
// counted only where that is too much (see crowded).
const tallySQL = "SELECT (" + ofPayer + "mine.plain), (" + ofPayer + `mine.plain),
	(SELECT count(*) FROM payments WHERE payer = ? AND plain = mine.plain AND ` + begun + `),
	(SELECT count(*) FROM payments WHERE payer = ? AND claimed >= ? AND plain = mine.plain AND ` + unclear + `),
	(` + paidByPayer + `), client, around, plain, claimed
	FROM payments AS mine WHERE` + byKey + ` AND owner = ? AND state = 'working'`

// clientSQL counts of a client what tallySQL does of a payer, in one statement, so that nothing is
// missed that ends between two. It begins as aroundSQL.
const clientSQL = aroundSQL + ", (SELECT count(*) FROM payments WHERE client = ? AND " + begun + `),
	(SELECT count(*) FROM payments WHERE client = ? AND claimed >= ? AND ` + unclear + "), (" + paidByClient + ")"

// strangersSQL counts for a payer who is not known: what has failed of all such payers today and
// in the month, what is under way of theirs, and what of today is open.
const strangersSQL = "SELECT (" + failedOfStrangers + "), (" + failedOfStrangers + `),
	COALESCE(sum(CASE WHEN state = 'settling' AND NOT ` + abandoned + ` THEN 1 ELSE 0 END), 0),
	COALESCE(sum(CASE WHEN claimed >= ? AND (state = 'unknown' OR ` + abandoned + `) THEN 1 + repeats ELSE 0 END), 0)
	FROM payments WHERE stranger = 1 AND ` + begun

func ofStrangers(now view, c payment.Caps) []any {
	return []any{c.Since, c.Strangers, c.MonthSince, c.StrangersMonth, now, c.Since, now}
}

// countStrangers adds to the history what strangersSQL finds, with the weight of what is open, and
// returns what is under way.
func countStrangers(row sqldb.Scanner, h *payment.History) (underWay int, err error) {
	var open int
	err = row.Scan(&h.Strangers, &h.StrangersMonth, &underWay, &open)
	h.Strangers += open / openWeight
	h.StrangersMonth += open / openWeight
	return underWay, err
}

// capped is what counts against the cap of a payer or of a client.
type capped struct {
	column, value          string
	plain                  int // of a payer: 1 counts the plain copies, 0 the others
	limit                  int
	failed, begun, unclear int
	paid                   int // at most manyPaid
}

// refuse returns why a settlement may not begin, if it may not: the caps are reached, the month
// has none left for its payer, or the claim is lost. Otherwise it calls beginOn, and reports
// whether the payer is a stranger, one who is not known: what fails of theirs counts against a cap
// of them all.
func (u *unit) refuse(
	ctx context.Context, key payment.Key, owner string, s payment.Settlement, reserved int,
) (stranger bool, err error) {
	if reserved >= s.Limit {
		return false, payment.ErrLimit // there is nothing to wait for
	}
	payer := capped{column: "payer", value: key.Payer}
	client := capped{column: "client", limit: s.Caps.Client}
	since, month := s.Caps.Since, s.Caps.MonthSince
	var h payment.History
	var around string
	var claimed int64
	err = u.row(ctx, tallySQL, key.Payer, since, key.Payer, month, key.Payer, key.Payer, since, key.Payer, key.Payer,
		manyPaid, key, owner).
		Scan(&h.Payer, &h.PayerMonth, &payer.begun, &payer.unclear, &h.Paid, &client.value, &around, &payer.plain,
			&claimed)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, payment.ErrLost
	case err != nil:
		return false, fmt.Errorf("count settlements of a payer: %w", err)
	}
	payer.failed, payer.paid = h.Payer, h.Paid
	payer.limit = s.Caps.OfPayer(h)
	if stranger = !s.Caps.Knows(h); stranger {
		if err := u.countAround(ctx, &client, around, since, &h); err != nil {
			return stranger, fmt.Errorf("count settlements of a client: %w", err)
		}
	}
	var underWay int
	if stranger && s.Caps.Strangers > 0 {
		if underWay, err = countStrangers(u.row(ctx, strangersSQL, ofStrangers(u.view(), s.Caps)...), &h); err != nil {
			return stranger, fmt.Errorf("count settlements of strangers: %w", err)
		}
	}
	if err := s.Caps.Refuse(h); err != nil {
		return stranger, err
	}
	limited := []capped{payer}
	if stranger {
		limited = append(limited, client)
		if s.Caps.Strangers > 0 && (h.Strangers+underWay >= s.Caps.Strangers ||
			h.StrangersMonth+underWay >= s.Caps.StrangersMonth) {
			return stranger, payment.ErrCrowded
		}
	}
	for _, c := range limited {
		if crowded, err := u.crowded(ctx, c, since); err != nil || crowded {
			return stranger, cmp.Or(err, payment.ErrCrowded)
		}
	}
	if stranger && reserved >= s.Limit-s.Kept {
		return stranger, payment.ErrLimit
	}
	return stranger, u.beginOn(ctx, key, claimed, since)
}

// beginOn moves a claim of an earlier day to the beginning of the day, because what fails counts
// on the day on which its settlement began.
func (u *unit) beginOn(ctx context.Context, key payment.Key, claimed int64, day time.Time) error {
	if claimed >= day.UnixMilli() {
		return nil
	}
	if _, err := u.exec(ctx, "UPDATE payments SET claimed = ? WHERE"+byKey, day, key); err != nil {
		return fmt.Errorf("write on which day a settlement begins: %w", err)
	}
	return nil
}

// countAround counts the settlements of a client, which is not known where its value is "", and
// what has failed in the network around it.
func (u *unit) countAround(
	ctx context.Context, client *capped, around string, since time.Time, h *payment.History,
) error {
	of := client.value
	args := []any{of, since, around, since}
	if of == "" {
		return u.row(ctx, aroundSQL, args...).Scan(&h.Client, &h.Around)
	}
	err := u.row(ctx, clientSQL, append(args, of, of, since, of, of, manyPaid)...).
		Scan(&h.Client, &h.Around, &client.begun, &client.unclear, &client.paid)
	client.failed = h.Client
	return err
}

// spent returns payment.ErrLimit if a month's reserved settlements have reached limit; for a payer who has never paid,
// limit-kept.
func (u *unit) spent(ctx context.Context, payer string, reserved, limit, kept int) error {
	if reserved < limit-kept {
		return nil
	}
	known, err := u.paidAtLeast(ctx, "payer", payer, 1)
	if err == nil && (!known || reserved >= limit) {
		err = payment.ErrLimit
	}
	return err
}

// openWeight is how many settlements of the day with an open outcome weigh as much as
// one under way: they may fail yet, but it is not the payer that holds them up. For the
// caps of a payer or client, those that ended because the authorization expired weigh as
// much, or settlements could be held open and begun again without end.
const openWeight = 10

// crowded reports whether a settlement of c's payer or client has to wait. Only where all that has
// begun is too much, it counts whether enough was paid for that and, where it was not, what of it
// really is under way.
func (u *unit) crowded(ctx context.Context, c capped, since time.Time) (bool, error) {
	most := c.failed + c.begun + c.unclear
	if c.limit == 0 || most < c.limit {
		return false, nil
	}
	needed := most - c.limit + 1
	if c.paid >= needed {
		return false, nil
	}
	if c.paid == manyPaid { // or more
		if enough, err := u.paidAtLeast(ctx, c.column, c.value, needed); err != nil || enough {
			return false, err
		}
	}
	var underWay, open, settled int
	query := `SELECT COALESCE(sum(CASE WHEN state = 'settling' AND NOT ` + abandoned + ` THEN 1 ELSE 0 END), 0),
		COALESCE(sum(CASE WHEN claimed >= ? AND (state = 'unknown' OR ` + abandoned + `) THEN 1 + repeats ELSE 0 END),
		0),
		(` + paidBy(c.column) + `)
		FROM payments WHERE ` + c.column + ` = ? AND ` + begun
	args := []any{u.view(), since, u.view(), c.value, c.value, most, c.value}
	if c.column == "payer" {
		query, args = query+" AND plain = ?", append(args, c.plain)
	}
	if err := u.row(ctx, query, args...).Scan(&underWay, &open, &settled); err != nil {
		return false, fmt.Errorf("count settlements under way: %w", err)
	}
	return c.failed+underWay+(open+c.unclear)/openWeight >= c.limit+settled, nil
}

// paidAtLeast reports whether so many payments of a payer or client were settled.
func (u *unit) paidAtLeast(ctx context.Context, column, value string, n int) (bool, error) {
	var settled int
	if err := u.row(ctx, paidBy(column), value, value, n).Scan(&settled); err != nil {
		return false, fmt.Errorf("count settled payments: %w", err)
	}
	return settled >= n, nil
}

func paidBy(column string) string {
	if column == "payer" {
		return paidByPayer
	}
	return paidByClient
}
