package ledger

import (
	"context"

	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// byKey is the condition on the four columns of a payment.Key.
const byKey = " network = ? AND asset = ? AND payer = ? AND nonce = ?"

func keyArgs(k payment.Key) []any { return []any{k.Network, k.Asset, k.Payer, k.Nonce} }

// abandoned is the condition for a record that no process works on; it takes the
// clock twice.
const abandoned = `(payments.deadline <= ? OR NOT EXISTS
	(SELECT 1 FROM owners WHERE owners.id = payments.owner AND owners.alive_until > ?))`

const claimSQL = `INSERT INTO payments
	(network, asset, payer, nonce, state, owner, deadline, payment, request, identifier, resource,
	 amount, pay_to, valid_before, client, claimed, changed, check_at)
	VALUES (?, ?, ?, ?, 'working', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
	ON CONFLICT (network, asset, payer, nonce) DO UPDATE SET
	 owner = excluded.owner, deadline = excluded.deadline, payment = excluded.payment, request = excluded.request,
	 identifier = excluded.identifier, resource = excluded.resource, amount = excluded.amount, pay_to = excluded.pay_to,
	 valid_before = excluded.valid_before, client = excluded.client, claimed = excluded.claimed, changed = excluded.changed, check_at = excluded.check_at
	WHERE payments.state = 'working' AND ` + abandoned

const releaseSQL = "DELETE FROM payments WHERE" + byKey + " AND owner = ? AND state = 'working'"

// Claim implements payment.Ledger.
func (l *Ledger) Claim(ctx context.Context, r payment.Record) (payment.Record, bool, error) {
	stamp := l.stamp()
	args := append(keyArgs(r.Key), r.Owner, r.Deadline.UnixMilli(), r.Payment[:], r.Request[:], r.Identifier, r.Resource,
		r.Amount, r.PayTo, r.ValidBefore.UnixMilli(), r.Client, stamp, stamp, stamp, stamp, stamp)
	current, won := r, false
	err := l.writes.do(ctx, false, func(ctx context.Context, u *unit) error {
		var err error
		if won, err = changed(ctx, u.Tx, l.prepared.claim, args...); err != nil {
			return wrap("claim a payment", err)
		}
		if won {
			current = r
			current.State, current.Claimed, current.Changed = payment.Working, moment(stamp), moment(stamp)
			return nil
		}
		current, err = l.find(ctx, u.Tx, r.Key)
		return err
	})
	return current, won, err
}

// Release implements payment.Ledger.
func (l *Ledger) Release(ctx context.Context, key payment.Key, owner string) error {
	return l.writes.do(ctx, false, func(ctx context.Context, u *unit) error {
		_, err := changed(ctx, u.Tx, l.prepared.release, append(keyArgs(key), owner)...)
		return wrap("release a payment", err)
	})
}
