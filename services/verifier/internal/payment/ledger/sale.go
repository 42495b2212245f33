package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/pkg/tracing"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

const (
	getSQL  = selectRecord + " WHERE" + byKey + " AND NOT (state = 'working' AND " + abandoned + ")"
	findSQL = selectRecord + " WHERE" + byKey
	// bought is the condition for a record whose identifier has bought the answer, or may have.
	bought    = "identifier <> '' AND state <> 'working' AND state <> 'dead'"
	boughtSQL = selectRecord + " WHERE payer = ? AND identifier = ? AND " + bought + " AND (" + certain +
		" OR ? = 0) LIMIT 1"
	// certain holds for a record that concerns the payer whoever sent it: they signed it,
	// or it moved their money.
	certain = "(plain = 1 OR state = 'settled')"
	// asked is the condition of the index payments_asked, word for word: a record that
	// answers its request, or may.
	asked      = "(state = 'settled' OR state = 'settling' OR state = 'unknown')"
	earlierSQL = selectRecord + " WHERE payer = ? AND request = ? AND claimed >= ? AND " + asked + " AND (" + certain +
		" OR ? = 0) ORDER BY claimed LIMIT 1"
)

// Get implements payment.Ledger.
func (l *Ledger) Get(ctx context.Context, key payment.Key) (payment.Record, error) {
	ctx, span := tracing.Call(ctx, "sql", "read payment")
	defer span.End("")
	return scan(l.row(ctx, getSQL, l.view(), key, l.view()))
}

// Earlier implements payment.Ledger.
func (l *Ledger) Earlier(ctx context.Context, a payment.Asked) (payment.Record, error) {
	if a.Identifier != "" {
		return scan(l.row(ctx, boughtSQL, l.view(), a.Payer, a.Identifier, sqldb.Flag(a.Plain)))
	}
	return scan(l.row(ctx, earlierSQL, l.view(), a.Payer, a.Request, a.Since, sqldb.Flag(a.Plain)))
}

// Reuse implements payment.Ledger.
func (l *Ledger) Reuse(
	ctx context.Context, key payment.Key, day time.Time, limit int, counts bool,
) (may bool, err error) {
	if !counts {
		err = l.row(ctx, `SELECT COALESCE((SELECT times FROM asked_again WHERE payer = ? AND day = ?), 0) < ?
			OR EXISTS (SELECT 1 FROM payments WHERE`+byKey+" AND owed = 1)", key.Payer, day, limit, key).Scan(&may)
		if err != nil {
			return false, fmt.Errorf("read how often answers were reused: %w", err)
		}
		return may, nil
	}
	err = l.write(ctx, "count that an answer is reused", false, func(ctx context.Context, u *unit) (err error) {
		if may, err = u.exec(ctx, "UPDATE payments SET owed = 0 WHERE"+byKey+" AND owed = 1", key); err != nil || may ||
			limit < 1 {
			return err
		}
		may, err = u.exec(ctx, `INSERT INTO asked_again (payer, day, times) VALUES (?, ?, 1)
			ON CONFLICT (payer, day) DO UPDATE SET times = asked_again.times + 1 WHERE asked_again.times < ?`,
			key.Payer, day, limit)
		return err
	})
	return may, err
}

const (
	claimSQL = `INSERT INTO payments
	(network, asset, payer, nonce, state, owner, deadline, payment, request, identifier, resource,
	 amount, pay_to, valid_before, client, claimed, changed, check_at, operation, transport, plain, around)
	VALUES (?, ?, ?, ?, 'working', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
	ON CONFLICT (network, asset, payer, nonce) DO UPDATE SET
	 owner = excluded.owner, deadline = excluded.deadline, payment = excluded.payment, request = excluded.request,
	 identifier = excluded.identifier, resource = excluded.resource, amount = excluded.amount, pay_to = excluded.pay_to,
	 valid_before = excluded.valid_before, client = excluded.client, claimed = excluded.claimed,
	changed = excluded.changed, check_at = excluded.check_at,
	 operation = excluded.operation, transport = excluded.transport, plain = excluded.plain, around = excluded.around
	WHERE payments.state = 'working' AND ` + abandoned
)

// Claim implements payment.Ledger.
func (l *Ledger) Claim(ctx context.Context, r payment.Record) (current payment.Record, won bool, err error) {
	now := sqldb.Moment(l.now().UnixMilli())
	err = l.write(ctx, "claim a payment", false, func(ctx context.Context, u *unit) (err error) {
		claim := func() (bool, error) {
			return u.exec(ctx, claimSQL, r.Key, r.Owner, r.Deadline, r.Payment, r.Request, r.Identifier, r.Resource,
				r.Amount, r.PayTo, r.ValidBefore, r.Client, now, now, now, r.Operation, r.Transport,
				sqldb.Flag(r.Plain), r.Around, l.view())
		}
		if won, err = claim(); err == nil && !won {
			current, err = u.find(ctx, r.Key) // which claimSQL has locked
			if err == nil && r.Plain && current.State == payment.Dead && !current.Plain {
				if err = u.notRefunded(ctx, r.Key); err != nil { // a lost transfer that comes again would pay for r
					return err
				}
				if _, err = u.exec(ctx, moveSQL, r.Key.OfCopy(current.Payment).Nonce, r.Key); err == nil {
					won, err = claim()
				}
			}
		}
		if err != nil || !won {
			return err
		}
		if r.Key.IsCopy() { // looked at last: the record may have got its key meanwhile
			switch owner, err := scan(u.row(ctx, getSQL, u.view(), r.Key.Bare(), u.view())); {
			case err == nil:
				current, won = owner, false
				_, err = u.exec(ctx, releaseSQL, r.Key, r.Owner)
				return err
			case !errors.Is(err, payment.ErrNotFound):
				return err
			}
		}
		current = r
		current.State, current.Claimed, current.Changed = payment.Working, now, now
		return nil
	})
	return current, won, err
}

// find is Get in a unit, but returns an abandoned claim too.
func (u *unit) find(ctx context.Context, key payment.Key) (payment.Record, error) {
	return scan(u.row(ctx, findSQL, u.view(), key))
}

const (
	beginSQL = `UPDATE payments SET state = 'settling', month = ?, deadline = ?, changed = ?, stranger = ?
		WHERE` + byKey + ` AND owner = ? AND request = ? AND state = 'working' AND NOT EXISTS
		(SELECT 1 FROM payments AS duplicate WHERE duplicate.payer = payments.payer
		AND duplicate.identifier = payments.identifier AND duplicate.` + bought + `
			AND (` + certain + ` OR payments.plain = 0))
		AND NOT EXISTS (SELECT 1 FROM payments AS earlier WHERE payments.identifier = ''
		AND earlier.payer = payments.payer
			AND earlier.request = payments.request AND earlier.claimed >= ? AND ` + asked + `
			AND (` + certain + ` OR payments.plain = 0))`
	keepSQL = "INSERT INTO answers (payment, claimed, answer, hash) SELECT id, claimed, ?, ? FROM payments WHERE" +
		byKey
	// beginAndKeepSQL is beginSQL and keepSQL in one statement, for Postgres, where each statement
	// is a round trip.
	beginAndKeepSQL = "WITH begun AS (" + beginSQL + " RETURNING id, claimed) INSERT INTO answers (payment, claimed, " +
		"answer, hash) SELECT id, claimed, ?::bytea, ?::bytea FROM begun"
	// beginAndLogSQL also queues the answer's entries of the log.
	beginAndLogSQL = "WITH begun AS (" + beginSQL + " RETURNING id, claimed), kept AS (INSERT INTO answers (payment, " +
		"claimed, answer, hash) SELECT id, claimed, ?::bytea, ?::bytea FROM begun RETURNING payment)" +
		" INSERT INTO log_queue (leaf, entry, queued, source) SELECT leaf, entry, ?::bigint, payment FROM kept, " +
		"unnest(?::bytea[], ?::bytea[]) AS sold (leaf, entry)"
)

// Begin implements payment.Ledger. When it has begun a settlement, that is on disk.
func (l *Ledger) Begin(
	ctx context.Context, key payment.Key, owner string, s payment.Settlement,
) (sold payment.Answer, duplicate *payment.Record, err error) {
	logged, err := l.entriesOf(s.Answer)
	if err != nil {
		return sold, nil, err
	}
	err = l.write(ctx, "begin a settlement", true, func(ctx context.Context, u *unit) (err error) {
		duplicate = nil
		month, err := u.month(ctx, s.Month)
		if err != nil {
			return err
		}
		stranger, why := u.refuse(ctx, key, owner, s, month.reserved)
		if why != nil && !isRefusal(why) {
			return why
		}
		if why == nil {
			began, err := u.begin(ctx, key, owner, s, stranger, logged)
			if err != nil {
				return err
			}
			if began {
				return u.add(ctx, s.Month, 1)
			}
		}
		duplicate, err = u.explainRejection(ctx, key, owner, s, why)
		return err
	})
	if err != nil || duplicate != nil {
		return sold, duplicate, err
	}
	return payment.Queued(s.Answer), nil, nil
}

// begin writes that a settlement begins, its answer and the answer's entries of the log, unless the
// record is no longer the owner's claim for that request, or another payment has bought the answer,
// or may have (see Begin of payment.Ledger).
func (u *unit) begin(
	ctx context.Context, key payment.Key, owner string, s payment.Settlement, stranger bool, logged entries,
) (began bool, err error) {
	args := []any{s.Month, s.Deadline, u.now(), sqldb.Flag(stranger), key, owner, s.Request, earlierSince(s)}
	switch {
	case u.db.Dialect == sqldb.Postgres && logged.leaves != nil:
		args = append(args, s.Answer, hashOf(s.Answer), u.now(), logged.leaves, logged.bytes)
		return u.exec(ctx, beginAndLogSQL, args...)
	case u.db.Dialect == sqldb.Postgres:
		return u.exec(ctx, beginAndKeepSQL, append(args, s.Answer, hashOf(s.Answer))...)
	}
	if began, err = u.exec(ctx, beginSQL, args...); began {
		_, err = u.exec(ctx, keepSQL, s.Answer, hashOf(s.Answer), key)
	}
	if began && err == nil {
		err = u.enqueueSale(ctx, key, logged)
	}
	return began, err
}

// earlierSince returns EarlierSince of a settlement in milliseconds; if it is zero, a moment after
// all claims, so that no earlier record counts.
func earlierSince(s payment.Settlement) int64 {
	if s.EarlierSince.IsZero() {
		return math.MaxInt64
	}
	return s.EarlierSince.UnixMilli()
}

// explainRejection returns why a settlement did not begin: payment.ErrLost, if the record is no
// longer the owner's claim for that request; else the record of another payment that has bought the
// answer, or may have; else the error why, or ErrLost if why is nil.
func (u *unit) explainRejection(
	ctx context.Context, key payment.Key, owner string, s payment.Settlement, why error,
) (*payment.Record, error) {
	r, err := u.find(ctx, key)
	switch {
	case errors.Is(err, payment.ErrNotFound), err == nil && (r.Owner != owner || r.State != payment.Working ||
		r.Request != s.Request):
		return nil, payment.ErrLost
	case err != nil:
		return nil, err
	}
	query, args := boughtSQL, []any{u.view(), key.Payer, r.Identifier, sqldb.Flag(r.Plain)}
	if r.Identifier == "" {
		query, args = earlierSQL, []any{u.view(), key.Payer, s.Request, earlierSince(s), sqldb.Flag(r.Plain)}
	}
	duplicate, err := scan(u.row(ctx, query, args...))
	switch {
	case errors.Is(err, payment.ErrNotFound):
		return nil, cmp.Or(why, payment.ErrLost)
	case err != nil:
		return nil, err
	}
	return &duplicate, nil
}

// Look implements payment.Ledger.
func (l *Ledger) Look(ctx context.Context, key payment.Key, since time.Time) (bool, error) {
	now := l.now()
	return l.exec(ctx, "remember a lookup",
		"UPDATE payments SET looked = ? WHERE"+byKey+" AND state <> 'settled' AND (looked <= ? OR looked > ?)", now,
		key, since, now)
}
