package payment

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Resolution is how a person decided what became of a payment that stayed Unknown.
type Resolution struct {
	// State is Settled or Dead; Transaction is the transfer of a Settled one.
	State       State
	Transaction string
	// By is who decided, and Why what they had seen.
	By, Why string
	// Unsent is as in Outcome: the chain says that nothing was ever sent.
	Unsent bool
}

// Outcome is what the record says after the resolution.
func (r Resolution) Outcome() Outcome {
	return Outcome{State: r.State, Transaction: r.Transaction, Reason: "resolved: " + word(r.Why), Unsent: r.Unsent, Durable: true}
}

// ErrContradicted means that the chain, or the clock, says otherwise than a resolution.
var ErrContradicted = errors.New("resolution is contradicted")

// Resolve decides an Unknown payment by hand, unless the chain contradicts. truth
// may be nil. It returns what the chain said: "not asked", or why it could not tell,
// which is no contradiction.
func Resolve(ctx context.Context, ledger Ledger, truth Truth, now time.Time, r Record, how Resolution) (chain string, err error) {
	if how.State == Settled && (!isHex(how.Transaction, 32) || isZero(how.Transaction)) {
		return "", errors.New("a settled payment needs the hash of its transaction")
	}
	if how.State == Dead && !now.After(r.ValidBefore) {
		return "", fmt.Errorf("%w: the authorization can be spent until %s", ErrContradicted, r.ValidBefore.Format(time.RFC3339))
	}
	if chain, how.Unsent, err = contradiction(ctx, truth, r, how); err != nil {
		return chain, err
	}
	return chain, ledger.Resolve(ctx, r.Key, how)
}

// contradiction asks the chain. unsent reports that it says for good that nothing was spent.
func contradiction(ctx context.Context, truth Truth, r Record, how Resolution) (chain string, unsent bool, err error) {
	if truth == nil {
		return "not asked", false, nil
	}
	fate, err := truth.Fate(ctx, r.question())
	switch {
	case err != nil:
		return err.Error(), false, nil
	case fate.Is == Paid && how.State == Dead:
		return "", false, fmt.Errorf("%w: it was paid by %s", ErrContradicted, fate.Transaction)
	case fate.Is == Paid && fate.Transaction != how.Transaction:
		return "", false, fmt.Errorf("%w: it was paid by %s, not %s", ErrContradicted, fate.Transaction, how.Transaction)
	case fate.Is != Paid && how.State == Settled:
		return "", false, fmt.Errorf("%w: the chain shows no payment", ErrContradicted)
	}
	return "agrees", fate.Is == Expired, nil
}
