package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/pkg/tracing"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

const (
	getSQL  = selectRecord + " WHERE" + byKey + " AND NOT (state = 'working' AND " + abandoned + ")"
	findSQL = selectRecord + " WHERE" + byKey
	// bought is the condition for a record that an identifier has bought with.
	bought    = "identifier <> '' AND state <> 'working' AND state <> 'dead'"
	boughtSQL = selectRecord + " WHERE payer = ? AND identifier = ? AND " + bought + " AND (" + certain + " OR ? = 0) LIMIT 1"
	// certain holds for a record that concerns the payer whoever sent it: they signed it,
	// or it moved their money.
	certain = "(plain = 1 OR state = 'settled')"
	// asked is the condition of the index payments_asked, word for word: a record that
	// answers its request, or may.
	asked      = "(state = 'settled' OR state = 'settling' OR state = 'unknown')"
	earlierSQL = selectRecord + " WHERE payer = ? AND request = ? AND claimed >= ? AND " + asked + " AND (" + certain + " OR ? = 0) ORDER BY claimed LIMIT 1"
)

// Get implements payment.Ledger.
func (l *Ledger) Get(ctx context.Context, key payment.Key) (payment.Record, error) {
	ctx, span := tracing.Call(ctx, "sql", "read payment")
	defer span.End("")
	return scan(l.row(ctx, getSQL, l.view(), key, l.view()))
}

// Bought implements payment.Ledger.
func (l *Ledger) Bought(ctx context.Context, payer, identifier string, plain bool) (payment.Record, error) {
	return scan(l.row(ctx, boughtSQL, l.view(), payer, identifier, flag(plain)))
}

// Earlier implements payment.Ledger.
func (l *Ledger) Earlier(ctx context.Context, payer string, request payment.Digest, since time.Time, plain bool) (payment.Record, error) {
	return scan(l.row(ctx, earlierSQL, l.view(), payer, request, since, flag(plain)))
}

// AskedAgain implements payment.Ledger.
func (l *Ledger) AskedAgain(ctx context.Context, key payment.Key, day time.Time) (times int, owed bool, err error) {
	err = l.row(ctx, "SELECT COALESCE((SELECT times FROM asked_again WHERE payer = ? AND day = ?), 0), (SELECT count(*) FROM payments WHERE"+byKey+" AND owed = 1) > 0",
		key.Payer, day, key).Scan(&times, &owed)
	if err != nil {
		return 0, false, fmt.Errorf("read how often a payer asked again: %w", err)
	}
	return times, owed, nil
}

// CountAskedAgain implements payment.Ledger.
func (l *Ledger) CountAskedAgain(ctx context.Context, key payment.Key, day time.Time, limit int) (counted bool, err error) {
	err = l.write(ctx, "count that a payer asked again", false, func(ctx context.Context, u *unit) (err error) {
		if counted, err = u.exec(ctx, "UPDATE payments SET owed = 0 WHERE"+byKey+" AND owed = 1", key); err != nil || counted || limit < 1 {
			return err
		}
		counted, err = u.exec(ctx, `INSERT INTO asked_again (payer, day, times) VALUES (?, ?, 1)
			ON CONFLICT (payer, day) DO UPDATE SET times = asked_again.times + 1 WHERE asked_again.times < ?`, key.Payer, day, limit)
		return err
	})
	return counted, err
}

// Owe implements payment.Ledger.
func (l *Ledger) Owe(ctx context.Context, key payment.Key) error {
	_, err := l.exec(ctx, "remember that an answer is owed", "UPDATE payments SET owed = 1 WHERE"+byKey+" AND state = 'settled'", key)
	return err
}

const (
	claimSQL = `INSERT INTO payments
	(network, asset, payer, nonce, state, owner, deadline, payment, request, identifier, resource,
	 amount, pay_to, valid_before, client, claimed, changed, check_at, operation, transport, plain, around)
	VALUES (?, ?, ?, ?, 'working', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
	ON CONFLICT (network, asset, payer, nonce) DO UPDATE SET
	 owner = excluded.owner, deadline = excluded.deadline, payment = excluded.payment, request = excluded.request,
	 identifier = excluded.identifier, resource = excluded.resource, amount = excluded.amount, pay_to = excluded.pay_to,
	 valid_before = excluded.valid_before, client = excluded.client, claimed = excluded.claimed, changed = excluded.changed, check_at = excluded.check_at,
	 operation = excluded.operation, transport = excluded.transport, plain = excluded.plain, around = excluded.around,
	 state = 'working', tx = '', reason = '', repeats = 0, again = ''
	WHERE payments.state = 'working' AND ` + abandoned + ` OR payments.state = 'dead' AND payments.plain < excluded.plain`
	releaseSQL = "DELETE FROM payments WHERE" + byKey + " AND owner = ? AND state = 'working'"
)

// Claim implements payment.Ledger.
func (l *Ledger) Claim(ctx context.Context, r payment.Record) (current payment.Record, won bool, err error) {
	now := moment(l.now().UnixMilli())
	err = l.write(ctx, "claim a payment", false, func(ctx context.Context, u *unit) (err error) {
		won, err = u.exec(ctx, claimSQL, r.Key, r.Owner, r.Deadline, r.Payment, r.Request, r.Identifier, r.Resource,
			r.Amount, r.PayTo, r.ValidBefore, r.Client, now, now, now, r.Operation, r.Transport, flag(r.Plain), r.Around, l.view())
		if err != nil {
			return err
		}
		if won && r.Key.IsCopy() { // looked at last: the record may have got its key meanwhile
			switch owner, err := u.find(ctx, r.Key.Bare()); {
			case err == nil:
				current, won = owner, false
				_, err = u.exec(ctx, releaseSQL, r.Key, r.Owner)
				return err
			case !errors.Is(err, payment.ErrNotFound):
				return err
			}
		}
		if won {
			current = r
			current.State, current.Claimed, current.Changed = payment.Working, now, now
			return nil
		}
		current, err = u.find(ctx, r.Key)
		return err
	})
	return current, won, err
}

// Release implements payment.Ledger.
func (l *Ledger) Release(ctx context.Context, key payment.Key, owner string) error {
	_, err := l.exec(ctx, "release a payment", releaseSQL, key, owner)
	return err
}

// find reads a record as it is, an abandoned claim too.
func (u *unit) find(ctx context.Context, key payment.Key) (payment.Record, error) {
	return scan(u.row(ctx, findSQL, u.view(), key))
}

// lock reads a record that is about to change, so that two replicas do not
// judge the same state. SQLite's write transactions are alone anyway.
func (u *unit) lock(ctx context.Context, key payment.Key) (payment.Record, error) {
	query := selectBrief + " WHERE" + byKey
	if u.db.Dialect == sqldb.Postgres {
		query += " FOR UPDATE"
	}
	return scan(u.row(ctx, query, u.view(), key))
}

const (
	beginSQL = `UPDATE payments SET state = 'settling', month = ?, deadline = ?, changed = ?, stranger = ?
		WHERE` + byKey + ` AND owner = ? AND request = ? AND state = 'working' AND NOT EXISTS
		(SELECT 1 FROM payments AS duplicate WHERE duplicate.payer = payments.payer AND duplicate.identifier = payments.identifier AND duplicate.` + bought + `
			AND (` + certain + ` OR payments.plain = 0))
		AND NOT EXISTS (SELECT 1 FROM payments AS earlier WHERE payments.identifier = '' AND earlier.payer = payments.payer
			AND earlier.request = payments.request AND earlier.claimed >= ? AND ` + asked + `
			AND (` + certain + ` OR payments.plain = 0))`
	keepSQL = "INSERT INTO answers (payment, claimed, answer) SELECT id, claimed, ? FROM payments WHERE" + byKey
	// beginAndKeepSQL is both, on Postgres, where each statement is a round trip.
	beginAndKeepSQL = "WITH begun AS (" + beginSQL + " RETURNING id, claimed) INSERT INTO answers (payment, claimed, answer) SELECT id, claimed, ? FROM begun"
	// beginAndLogSQL also queues the answer's entry of the log.
	beginAndLogSQL = "WITH begun AS (" + beginSQL + " RETURNING id, claimed), kept AS (INSERT INTO answers (payment, claimed, answer) SELECT id, claimed, ? FROM begun RETURNING payment)" +
		" INSERT INTO log_queue (leaf, entry, queued, source) SELECT ?::bytea, ?::bytea, ?::bigint, payment FROM kept"
)

// Begin implements payment.Ledger. It waits for the disk when it began.
func (l *Ledger) Begin(ctx context.Context, key payment.Key, owner string, s payment.Settlement) (sold payment.Answer, duplicate *payment.Record, err error) {
	logged, err := l.entryOf(s.Answer)
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

// begin writes that a settlement begins, its answer and the answer's entry of the log,
// unless the record is no longer the owner's, or a duplicate has begun.
func (u *unit) begin(ctx context.Context, key payment.Key, owner string, s payment.Settlement, stranger bool, logged entry) (began bool, err error) {
	args := []any{s.Month, s.Deadline, u.now(), flag(stranger), key, owner, s.Request, earlierSince(s)}
	switch {
	case u.db.Dialect == sqldb.Postgres && logged.bytes != nil:
		return u.exec(ctx, beginAndLogSQL, append(args, s.Answer, logged.leaf, logged.bytes, u.now())...)
	case u.db.Dialect == sqldb.Postgres:
		return u.exec(ctx, beginAndKeepSQL, append(args, s.Answer)...)
	}
	if began, err = u.exec(ctx, beginSQL, args...); began {
		_, err = u.exec(ctx, keepSQL, s.Answer, key)
	}
	if began && err == nil && logged.bytes != nil {
		err = u.enqueueSale(ctx, key, logged)
	}
	return began, err
}

// earlierSince returns the moment in milliseconds; where none counts, after all claims.
func earlierSince(s payment.Settlement) int64 {
	if s.EarlierSince.IsZero() {
		return math.MaxInt64
	}
	return s.EarlierSince.UnixMilli()
}

// explainRejection returns why a settlement did not begin: a duplicate, or why, unless
// the record shows more.
func (u *unit) explainRejection(ctx context.Context, key payment.Key, owner string, s payment.Settlement, why error) (*payment.Record, error) {
	r, err := u.find(ctx, key)
	switch {
	case errors.Is(err, payment.ErrNotFound), err == nil && (r.Owner != owner || r.State != payment.Working || r.Request != s.Request):
		return nil, payment.ErrLost
	case err != nil:
		return nil, err
	}
	query, args := boughtSQL, []any{u.view(), key.Payer, r.Identifier, flag(r.Plain)}
	if r.Identifier == "" {
		query, args = earlierSQL, []any{u.view(), key.Payer, s.Request, earlierSince(s), flag(r.Plain)}
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

// Repeat implements payment.Ledger. It waits for the disk, as Begin does.
func (l *Ledger) Repeat(ctx context.Context, key payment.Key, again payment.Repeat) error {
	return l.write(ctx, "repeat a settlement", true, func(ctx context.Context, u *unit) error {
		month, err := u.month(ctx, again.Month)
		if err != nil {
			return err
		}
		r, err := u.lock(ctx, key)
		switch {
		case errors.Is(err, payment.ErrNotFound), err == nil && (r.Repeats != again.Repeats || r.State != payment.Settling && r.State != payment.Unknown):
			return payment.ErrLost
		case err != nil:
			return err
		}
		if err := u.spent(ctx, key.Payer, month.reserved, again.Limit, again.Kept); err != nil {
			return err
		}
		if err := u.add(ctx, again.Month, 1); err != nil {
			return err
		}
		_, err = u.exec(ctx, "UPDATE payments SET again = ?, repeats = ?, changed = ? WHERE"+byKey,
			strings.Join(append(r.Again, again.Month), " "), r.Repeats+1, l.now(), key)
		return err
	})
}

const (
	// settleSQL ends the ordinary sale in one statement: settled, with the
	// settlement that was reserved.
	settleSQL = `UPDATE payments SET state = 'settled', reason = '', tx = ?, changed = ?, check_at = NULL
	WHERE` + byKey + ` AND (state = 'settling' OR state = 'unknown') AND month <> ''`
	finishSQL = `UPDATE payments SET state = ?, month = ?, again = ?, reason = ?, tx = ?, changed = ?,
	check_at = CASE ? WHEN 'unknown' THEN check_at END WHERE` + byKey
	forgetSQL = "DELETE FROM answers WHERE payment = (SELECT id FROM payments WHERE" + byKey + ")"
)

// Finish implements payment.Ledger.
func (l *Ledger) Finish(ctx context.Context, key payment.Key, o payment.Outcome) (ended payment.Outcome, err error) {
	var block *soldBlock
	if len(l.finality) > 0 && o.State == payment.Settled {
		if block, err = l.sold(ctx, key); err != nil {
			return ended, err
		}
	}
	finish := func(ctx context.Context, u *unit) (err error) {
		if ended, err = u.finish(ctx, key, o); err != nil || block == nil || ended.State != payment.Settled || !slices.Contains(l.finality, block.Chain) {
			return err
		}
		return u.queueBlock(ctx, block)
	}
	if err = l.write(ctx, "finish a settlement", o.Durable, finish); sqldb.IsUnique(err) {
		err = l.write(ctx, "finish a settlement", o.Durable, finish)
	}
	return ended, err
}

// foundSQL also writes whose the record is.
const foundSQL = `UPDATE payments SET state = 'settled', month = ?, tx = ?, reason = '', changed = ?, check_at = NULL, plain = ?,
	owner = ?, payment = ?, request = ?, identifier = ?, resource = ?, operation = ?, transport = ?, client = ?, around = ? WHERE` + byKey

// Found implements payment.Ledger.
func (l *Ledger) Found(ctx context.Context, r payment.Record, answer []byte, transaction string) (payment.Answer, error) {
	logged, err := l.entryOf(answer)
	if err != nil {
		return payment.Answer{}, err
	}
	block := blockOf(answer)
	err = l.write(ctx, "write a payment that was found", true, func(ctx context.Context, u *unit) error {
		name := payment.Month(u.now())
		if _, err := u.month(ctx, name); err != nil { // before the row is locked, as all others do
			return err
		}
		held, err := u.lock(ctx, r.Key)
		ours := held.State == payment.Working && held.Owner == r.Owner && held.Payment == r.Payment && held.Request == r.Request
		switch {
		case errors.Is(err, payment.ErrNotFound), err == nil && !ours && (held.State != payment.Settled || held.Plain || !r.Plain):
			return payment.ErrLost
		case err != nil:
			return err
		}
		if !ours {
			refunded, err := u.refunded(ctx, "payments.nonce = ? AND payments.payer = ? AND payments.asset = ? AND payments.network = ?",
				r.Key.Nonce, r.Key.Payer, r.Key.Asset, r.Key.Network)
			if err == nil && refunded.Sign() > 0 {
				err = payment.ErrUsed
			}
			if err != nil {
				return err
			}
		}
		if held.Month == "" {
			held.Month = name
			if err := u.add(ctx, name, 1); err != nil {
				return err
			}
		}
		for _, change := range []struct {
			query string
			args  []any
		}{
			{foundSQL, []any{
				held.Month, transaction, u.now(), flag(r.Plain),
				r.Owner, r.Payment, r.Request, r.Identifier, r.Resource, r.Operation, r.Transport, r.Client, r.Around, r.Key,
			}},
			{forgetSQL, []any{r.Key}},
			{keepSQL, []any{answer, r.Key}},
		} {
			if _, err := u.exec(ctx, change.query, change.args...); err != nil {
				return err
			}
		}
		if logged.bytes != nil {
			if err := u.enqueueSale(ctx, r.Key, logged); err != nil {
				return err
			}
		}
		if block == nil || !slices.Contains(l.finality, block.Chain) {
			return nil
		}
		return u.queueBlock(ctx, block)
	})
	if err != nil {
		return payment.Answer{}, err
	}
	return payment.Queued(answer), nil
}

func (u *unit) finish(ctx context.Context, key payment.Key, o payment.Outcome) (payment.Outcome, error) {
	if key.IsCopy() {
		return u.finishCopy(ctx, key, o)
	}
	return u.finishAt(ctx, key, o)
}

// finishCopy is finish for a copy that is not plain. Where two get the key of the
// authorization at once, or one while a plain copy is claimed, the unique index fails the
// later change, and Finish tries again.
func (u *unit) finishCopy(ctx context.Context, key payment.Key, o payment.Outcome) (payment.Outcome, error) {
	owner, err := u.lock(ctx, key.Bare())
	free := errors.Is(err, payment.ErrNotFound)
	switch {
	case err != nil && !free:
		return payment.Outcome{}, err
	case !free && key.Bare().OfCopy(owner.Payment) == key: // it has this copy's money
		return u.finishAt(ctx, key.Bare(), o)
	case o.State != payment.Settled:
		return u.finishAt(ctx, key, o)
	case !free:
		return u.finishAt(ctx, key, payment.Outcome{State: payment.Dead, Reason: payment.ReasonOtherCopy})
	}
	moved, err := u.exec(ctx, "UPDATE payments SET nonce = ? WHERE"+byKey+" AND state <> 'working'", key.Bare().Nonce, key)
	switch {
	case err != nil:
		return payment.Outcome{}, err
	case !moved:
		return payment.Outcome{}, payment.ErrNotFound
	}
	return u.finishAt(ctx, key.Bare(), o)
}

func (u *unit) finishAt(ctx context.Context, key payment.Key, o payment.Outcome) (payment.Outcome, error) {
	if o.State == payment.Settled && o.Transaction != "" && o.Reason == "" && !o.Echo {
		if settled, err := u.exec(ctx, settleSQL, o.Transaction, u.now(), key); err != nil || settled {
			return o, err
		}
	}
	r, err := u.lock(ctx, key)
	switch {
	case err != nil:
		return payment.Outcome{}, err
	case r.State == payment.Working:
		return payment.Outcome{}, payment.ErrNotFound
	case r.State == payment.Settled, r.State == payment.Dead && o.State != payment.Settled:
		return r.Outcome(), nil
	}
	month, again, err := u.recount(ctx, r, o)
	if err != nil {
		return payment.Outcome{}, err
	}
	if o.State == payment.Dead { // no buyer gets it, and it may be large
		if _, err := u.exec(ctx, forgetSQL, key); err != nil {
			return payment.Outcome{}, err
		}
	}
	r.State, r.Transaction, r.Reason = o.State, cmp.Or(o.Transaction, r.Transaction), o.Reason
	_, err = u.exec(ctx, finishSQL, r.State, month, again, r.Reason, r.Transaction, u.now(), r.State, key)
	return r.Outcome(), err
}

// recount returns settlements that were not made to the quota, and counts one that was
// made though it had been returned. It returns the months of those that stay reserved.
func (u *unit) recount(ctx context.Context, r payment.Record, o payment.Outcome) (month, again string, err error) {
	month, months := r.Month, r.Again
	changes := map[string]int{}
	if last := len(months) - 1; o.Echo && last >= 0 {
		changes[months[last]]--
		months = months[:last]
	}
	switch {
	case o.State == payment.Dead && o.Unsent && month != "" && o.Transaction == "" && r.Transaction == "":
		for _, name := range slices.Concat(months, []string{month}) {
			changes[name]--
		}
		month, months = "", nil
	case o.State == payment.Settled && month == "":
		month = payment.Month(u.now())
		changes[month]++
	}
	for name, n := range changes {
		if err := u.add(ctx, name, n); err != nil {
			return "", "", err
		}
	}
	return month, strings.Join(months, " "), nil
}

// Resolve finishes an Unknown record as a person decided, and keeps By and Why,
// in one step that is on disk when it returns. ErrLost: the record is not Unknown.
//
// It may be called by a process that does not know which chains have proofs of finality, so
// it queues every block; for another chain nothing looks for it, and Prune forgets it.
func (l *Ledger) Resolve(ctx context.Context, key payment.Key, how payment.Resolution) error {
	block, err := l.sold(ctx, key)
	if err != nil {
		return err
	}
	return l.write(ctx, "resolve a payment", true, func(ctx context.Context, u *unit) error {
		r, err := u.lock(ctx, key)
		switch {
		case errors.Is(err, payment.ErrNotFound), err == nil && r.State != payment.Unknown:
			return payment.ErrLost
		case err != nil:
			return err
		}
		_, err = u.exec(ctx, `INSERT INTO resolutions (payment, at, by_whom, from_state, to_state, tx, why)
			SELECT id, ?, ?, ?, ?, ?, ? FROM payments WHERE`+byKey, l.now(), how.By, r.State, how.State, how.Transaction, how.Why, key)
		if err != nil {
			return err
		}
		ended, err := u.finish(ctx, key, how.Outcome())
		if err == nil && block != nil && ended.State == payment.Settled {
			err = u.queueBlock(ctx, block)
		}
		return err
	})
}

// Reopen implements payment.Ledger.
func (l *Ledger) Reopen(ctx context.Context, key payment.Key, reason string) error {
	now := l.now()
	reopened, err := l.exec(ctx, "open a payment again",
		"UPDATE payments SET state = 'unknown', reason = ?, changed = ?, check_at = ? WHERE"+byKey+" AND state = 'settled'", reason, now, now, key)
	if err == nil && !reopened {
		err = payment.ErrLost
	}
	return err
}

// Look implements payment.Ledger.
func (l *Ledger) Look(ctx context.Context, key payment.Key, since time.Time) (bool, error) {
	now := l.now()
	return l.exec(ctx, "remember a lookup",
		"UPDATE payments SET looked = ? WHERE"+byKey+" AND state <> 'settled' AND (looked <= ? OR looked > ?)", now, key, since, now)
}
