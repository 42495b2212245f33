package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

const (
	// settleSQL is payment.Next for the ordinary sale, in one statement: settled, with the
	// settlement that was reserved.
	settleSQL = `UPDATE payments SET state = 'settled', reason = '', tx = ?, changed = ?, check_at = NULL
	WHERE` + byKey + ` AND (state = 'settling' OR state = 'unknown') AND month <> ''`
	// releaseSQL is payment.Next for a claim that ends without a settlement.
	releaseSQL = "DELETE FROM payments WHERE" + byKey + " AND owner = ? AND state = 'working'"
	writeSQL   = `UPDATE payments SET state = ?, month = ?, again = ?, repeats = ?, reason = ?, tx = ?, changed = ?,
	check_at = CASE WHEN ? IN ('settled', 'dead') THEN NULL ELSE COALESCE(check_at, ?) END WHERE` + byKey
	// foundSQL makes a record Settled, and writes of the payment that was found what Claim does, but for
	// amount, payee, and the times of claim, lease and authorization, which stay.
	foundSQL = `UPDATE payments SET state = 'settled', month = ?, tx = ?, reason = '', changed = ?, check_at = NULL,
	plain = ?, owner = ?, payment = ?, request = ?, identifier = ?, resource = ?, operation = ?, transport = ?,
	client = ?, around = ? WHERE` + byKey
	moveSQL   = "UPDATE payments SET nonce = ? WHERE" + byKey
	forgetSQL = "DELETE FROM answers WHERE payment = (SELECT id FROM payments WHERE" + byKey + ")"
	decideSQL = `INSERT INTO decisions (payment, at, by_whom, from_state, to_state, tx, note)
	SELECT id, ?, ?, ?, ?, ?, ? FROM payments WHERE` + byKey
	oweSQL = "UPDATE payments SET owed = 1 WHERE" + byKey + " AND state = 'settled'"
)

// sale is what was sold with a payment, as far as an event needs it.
type sale struct {
	answer []byte
	logged entries
	blocks []soldBlock
}

// lock reads a record that is about to change, and on Postgres locks its row, so that two replicas
// do not judge the same state. SQLite's write transactions are alone anyway. A record that is not
// there has no State.
func (u *unit) lock(ctx context.Context, key payment.Key) (payment.Record, error) {
	query := selectBrief + " WHERE" + byKey
	if u.db.Dialect == sqldb.Postgres {
		query += " FOR UPDATE"
	}
	r, err := scan(u.row(ctx, query, u.view(), key))
	if errors.Is(err, payment.ErrNotFound) {
		return payment.Record{}, nil
	}
	return r, err
}

// Apply implements payment.Ledger.
func (l *Ledger) Apply(ctx context.Context, key payment.Key, e payment.Event) (ended payment.Outcome, err error) {
	var sold sale
	if e.Outcome.State == payment.Settled && (len(l.finality) > 0 || e.By == payment.ByOperator) {
		if sold.blocks, err = l.sold(ctx, key); err != nil {
			return ended, err
		}
	}
	durable := e.Outcome.Durable || e.Kind == payment.EventDecision || e.Kind == payment.EventRetry
	apply := func(ctx context.Context, u *unit) (err error) {
		ended, err = u.apply(ctx, key, e, sold)
		return err
	}
	what := "write the " + string(e.Kind) + " of a payment"
	if err = l.write(ctx, what, durable, apply); sqldb.IsUnique(err) { // another record got the key meanwhile
		err = l.write(ctx, what, durable, apply)
	}
	return ended, err
}

func (u *unit) apply(ctx context.Context, key payment.Key, e payment.Event, sold sale) (payment.Outcome, error) {
	switch e.Kind {
	case payment.EventRelease:
		_, err := u.exec(ctx, releaseSQL, key, e.Claim.Owner)
		return payment.Outcome{}, err
	case payment.EventRetry: // the month before the row is locked, as Begin does
		if _, err := u.month(ctx, e.Month); err != nil {
			return payment.Outcome{}, err
		}
	case payment.EventClaim, payment.EventBegin, payment.EventFound, payment.EventLeaseEnd:
		return payment.Outcome{}, fmt.Errorf("a %s is not applied", e.Kind)
	}
	moves := false
	if key.IsCopy() && e.Ends() {
		owner, err := u.lock(ctx, key.Bare())
		if err == nil && owner.State == payment.Working {
			var gone bool
			if gone, err = u.exec(ctx, vanishOneSQL, key.Bare(), u.view()); gone {
				owner = payment.Record{}
			}
		}
		switch {
		case err != nil:
			return payment.Outcome{}, err
		case owner.State != "" && key.Bare().OfCopy(owner.Payment) == key: // its record has got that key
			key = key.Bare()
		case owner.State != "" && e.Outcome.State == payment.Settled:
			e.Outcome = payment.Outcome{State: payment.Dead, Reason: payment.ReasonOtherCopy}
		default:
			moves = e.Outcome.State == payment.Settled
		}
	}
	if ordinary(e) {
		settled, err := u.exec(ctx, settleSQL, e.Outcome.Transaction, u.now(), key)
		if err == nil && settled {
			if key, err = u.move(ctx, key, moves); err == nil {
				err = u.carryOut(ctx, key, e, sold, []payment.Effect{{Kind: payment.QueueBlock}})
			}
		}
		if err != nil || settled {
			return payment.Outcome{State: payment.Settled, Transaction: e.Outcome.Transaction}, err
		}
	}
	r, err := u.lock(ctx, key)
	if err != nil {
		return payment.Outcome{}, err
	}
	e.Month = cmp.Or(e.Month, payment.Month(u.now()))
	next, effects, err := payment.Next(r, e)
	if err == nil && e.Kind == payment.EventRetry {
		err = u.spent(ctx, key.Payer, u.months[e.Month].reserved, e.Retry.Limit, e.Retry.Kept)
	}
	switch {
	case err != nil:
		return payment.Outcome{}, err
	case next.State == r.State && (r.State == payment.Settled || r.State == payment.Dead):
		return r.Outcome(), nil
	}
	if key, err = u.move(ctx, key, moves); err != nil {
		return payment.Outcome{}, err
	}
	_, err = u.exec(ctx, writeSQL, next.State, next.Month, strings.Join(next.RetryMonths, " "), next.Retries,
		next.Reason, next.Transaction, u.now(), next.State, u.now(), key)
	if err == nil {
		err = u.carryOut(ctx, key, e, sold, effects)
	}
	return next.Outcome(), err
}

// ordinary reports whether an event is the end of an ordinary sale, for settleSQL: nothing
// follows from it but that the block is queued.
func ordinary(e payment.Event) bool {
	o := e.Outcome
	return (e.Kind == payment.EventVerdict || e.Kind == payment.EventChain) && e.By == payment.ByBuyer &&
		o.State == payment.Settled && o.Transaction != "" && o.Reason == "" && !o.Echo
}

// move gives the record of a copy that is not plain the key of the authorization, if moves is set,
// and returns the record's key. Where another record gets that meanwhile, the unique index fails
// the change, and Apply tries again.
func (u *unit) move(ctx context.Context, key payment.Key, moves bool) (payment.Key, error) {
	if !moves {
		return key, nil
	}
	_, err := u.exec(ctx, moveSQL, key.Bare().Nonce, key)
	return key.Bare(), err
}

func (u *unit) carryOut(
	ctx context.Context, key payment.Key, e payment.Event, sold sale, effects []payment.Effect,
) (err error) {
	for _, effect := range effects {
		switch effect.Kind {
		case payment.Reserve:
			err = u.add(ctx, effect.Month, 1)
		case payment.Return:
			err = u.add(ctx, effect.Month, -1)
		case payment.KeepAnswer:
			_, err = u.exec(ctx, keepSQL, sold.answer, hashOf(sold.answer), key)
		case payment.DropAnswer:
			_, err = u.exec(ctx, forgetSQL, key)
		case payment.QueueEntry:
			err = u.enqueueSale(ctx, key, sold.logged)
		case payment.QueueBlock:
			err = u.queueSold(ctx, e.By, sold.blocks)
		case payment.KeepDecision:
			d := e.Decision
			_, err = u.exec(ctx, decideSQL, u.now(), d.By, d.From, e.Outcome.State, e.Outcome.Transaction, d.Note, key)
		case payment.Owe:
			_, err = u.exec(ctx, oweSQL, key)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", effect.Kind, err)
		}
	}
	return nil
}

// queueSold queues blocks whose chains have proofs of finality. A command does not know which
// chains have them, so it queues every block.
func (u *unit) queueSold(ctx context.Context, by payment.By, blocks []soldBlock) error {
	for _, b := range blocks {
		if by != payment.ByOperator && !slices.Contains(u.finality, b.Chain) {
			continue
		}
		if _, err := u.exec(ctx, queueBlockSQL, b.Chain, b.Hash, int64(b.Number), u.now()); err != nil {
			return err
		}
	}
	return nil
}

// Found implements payment.Ledger.
func (l *Ledger) Found(
	ctx context.Context, r payment.Record, answer []byte, transaction string,
) (payment.Answer, error) {
	logged, err := l.entriesOf(answer)
	if err != nil {
		return payment.Answer{}, err
	}
	sold := sale{answer: answer, logged: logged, blocks: blocksOf(answer)}
	err = l.write(ctx, "write a payment that was found", true, func(ctx context.Context, u *unit) error {
		e := payment.Event{Kind: payment.EventFound, Claim: r, Month: payment.Month(u.now())}
		e.Outcome.Transaction = transaction
		if _, err := u.month(ctx, e.Month); err != nil { // before the row is locked, as Begin does
			return err
		}
		held, err := u.lock(ctx, r.Key)
		if err != nil {
			return err
		}
		next, effects, err := payment.Next(held, e)
		switch {
		case err == nil && held.Amount != r.Amount: // the books keep what the copy has paid
			err = payment.ErrUsed
		case err == nil && held.State == payment.Settled:
			err = u.notRefunded(ctx, r.Key)
		}
		if err != nil {
			return err
		}
		_, err = u.exec(ctx, foundSQL, next.Month, transaction, u.now(), sqldb.Flag(r.Plain),
			r.Owner, r.Payment, r.Request, r.Identifier, r.Resource, r.Operation, r.Transport, r.Client, r.Around,
			r.Key)
		if err != nil {
			return err
		}
		return u.carryOut(ctx, r.Key, e, sold, effects)
	})
	if err != nil {
		return payment.Answer{}, err
	}
	return payment.Queued(answer), nil
}

// notRefunded returns ErrUsed when something of a payment was refunded.
func (u *unit) notRefunded(ctx context.Context, key payment.Key) error {
	refunded, err := u.refunded(ctx, ofPayment, key.Nonce, key.Payer, key.Asset, key.Network)
	if err == nil && refunded.Sign() > 0 {
		err = payment.ErrUsed
	}
	return err
}
