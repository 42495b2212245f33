package paywall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// ErrContradicted means that a decision or a refund is refused: the chain, the clock or the
// payment's state contradicts it, or it was not or could not be checked.
var ErrContradicted = errors.New("resolution is contradicted")

// contradiction returns ErrContradicted when an operator decided that a payment is Dead and the
// chain shows that it was paid, or Settled by a transaction and the chain does not show that.
func contradiction(decided payment.State, transaction string, found payment.Authorization) error {
	paid := found.Status == payment.PaidToUs
	switch {
	case paid && decided == payment.Dead:
		return fmt.Errorf("%w: it was paid by %s", ErrContradicted, found.Transaction)
	case !paid && decided == payment.Settled:
		return fmt.Errorf("%w: the chain shows no payment", ErrContradicted)
	case paid && found.Transaction != transaction:
		return fmt.Errorf("%w: it was paid by %s, not %s", ErrContradicted, found.Transaction, transaction)
	}
	return nil
}

// Books is what decisions and refunds of an operator need of the ledger.
type Books interface {
	// Apply and Refund write in one step; see package ledger.
	Apply(ctx context.Context, key payment.Key, e payment.Event) (payment.Outcome, error)
	Refund(ctx context.Context, key payment.Key, refund payment.Refund) error
}

// PaymentNetwork is payment.ChainLog, and reads transfers.
type PaymentNetwork interface {
	payment.ChainLog
	// Moved returns how much of a token a transaction has moved from an address to another.
	Moved(ctx context.Context, transaction, token, from, to string) (*big.Int, error)
}

// DecidableAfter is how long after the end of its authorization a payment may be decided
// to be dead: nodes may be behind, and clocks differ.
const DecidableAfter = 10 * time.Minute

// Look reads the status of a payment on the chain, and returns its outcome where the chain ends
// it, else one with the State of the record.
func Look(
	ctx context.Context, network PaymentNetwork, r payment.Record,
) (found payment.Authorization, o payment.Outcome, err error) {
	o = payment.Outcome{State: r.State, Transaction: r.Transaction, Reason: r.Reason}
	if found, err = network.Authorization(ctx, r); err != nil {
		return found, o, err
	}
	if e, changes := payment.Seen(r, found); changes && e.Kind == payment.EventChain {
		o = e.Outcome
	}
	return found, o, nil
}

// Decide ends an Unknown payment as an operator decided. Settled needs the chain to show the
// payment by d.Transaction or, without a node (network is nil), unchecked, which is refused with a
// node. Dead is refused until DecidableAfter has passed, and when the chain shows a payment; it
// returns no settlement to the month. chain is "agrees", "not asked" without a node, or why the
// chain could not be read.
// payment.ErrUnderWay: the payment is Working or Settling. ErrContradicted: it is refused, or the
// money is another copy's, and it was decided to be dead. payment.ErrLost: its state has changed
// meanwhile.
func Decide(
	ctx context.Context, books Books, network PaymentNetwork, now time.Time, r payment.Record, d payment.Decision,
	unchecked bool,
) (chain string, err error) {
	switch {
	case r.State == payment.Working, r.State == payment.Settling:
		return "", payment.ErrUnderWay
	case r.State != payment.Unknown:
		return "", fmt.Errorf("%w: the payment is %s", ErrContradicted, r.State)
	case d.To == payment.Dead && now.Before(r.ValidBefore.Add(DecidableAfter)):
		return "", fmt.Errorf("%w: it cannot be known to be dead before %s", ErrContradicted,
			r.ValidBefore.Add(DecidableAfter).Format(time.RFC3339))
	case network != nil && unchecked:
		return "", fmt.Errorf("%w: a node is configured, so nothing is decided unchecked", ErrContradicted)
	case network == nil && d.To == payment.Settled && !unchecked:
		return "", fmt.Errorf("%w: no node of the payment network is configured to check it by (PAYMENT_RPC_URL)",
			ErrContradicted)
	}
	chain = "not asked"
	if network != nil {
		r.Transaction = cmp.Or(d.Transaction, r.Transaction) // nodes keep receipts for longer than logs
		found, lookErr := network.Authorization(ctx, r)
		switch {
		case lookErr == nil:
			if err := contradiction(d.To, d.Transaction, found); err != nil {
				return "", err
			}
			chain = "agrees"
		case d.To == payment.Settled:
			return "", fmt.Errorf("%w: %w", ErrContradicted, lookErr)
		default:
			chain = lookErr.Error()
		}
	}
	d.From = r.State
	o := payment.Outcome{State: d.To, Transaction: d.Transaction, Reason: payment.DecidedReason(d.Note)}
	ended, err := books.Apply(ctx, r.Key, payment.Event{
		Kind: payment.EventDecision, By: payment.ByOperator, Outcome: o, Decision: d,
	})
	if err == nil && ended.State != d.To {
		err = fmt.Errorf("%w: it is %s now: %s", ErrContradicted, ended.State, ended.Reason)
	}
	return chain, err
}

// Refund books a refund of a Settled payment. Where there is a node, the transaction must show the
// transfer from the payee to the payer. payment.ErrUnderWay: the payment is Working or Settling.
// ErrContradicted: it is not Settled, or the node does not show the transfer. payment.ErrBooked:
// the transaction is booked for it. payment.ErrTooMuch: it refunds more than was paid, or than was
// transferred. payment.ErrLost: it is not Settled any more.
func Refund(ctx context.Context, books Books, network PaymentNetwork, r payment.Record, refund payment.Refund) error {
	switch r.State {
	case payment.Settled:
	case payment.Working, payment.Settling:
		return payment.ErrUnderWay
	default:
		return fmt.Errorf("%w: the payment is %s", ErrContradicted, r.State)
	}
	if network != nil {
		moved, err := network.Moved(ctx, refund.Transaction, r.Key.Asset, r.PayTo, r.Key.Payer)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrContradicted, err)
		}
		if moved.Sign() == 0 {
			return fmt.Errorf("%w: %s moves nothing from %s to %s", ErrContradicted, refund.Transaction, r.PayTo,
				r.Key.Payer)
		}
		refund.Moved, refund.Proven = moved, true
	}
	return books.Refund(ctx, r.Key, refund)
}
