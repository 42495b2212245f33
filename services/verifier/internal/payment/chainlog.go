package payment

import (
	"context"
	"time"
)

// Truth reads the log of the chain that money moves on.
type Truth interface {
	// Fate tells what became of an authorization. An error means that it is not
	// known.
	Fate(ctx context.Context, q Question) (Fate, error)
}

// Question names the authorization and the transfer it should have made.
type Question struct {
	Key    Key
	PayTo  string
	Amount string
	// Since is a moment before which it was not spent.
	Since       time.Time
	ValidBefore time.Time
	// Transaction is the hash that the facilitator named, or "".
	Transaction string
}

// Fate is what became of an authorization.
type Fate struct {
	Is FateKind
	// Transaction is the hash of the transfer to us.
	Transaction string
}

// FateKind is one fate.
type FateKind int

// The fates.
const (
	// Unspent: it can still be spent.
	Unspent FateKind = iota
	// Paid: it was spent, and one transaction both marks it as used and moves
	// the amount to us.
	Paid
	// Elsewhere: it was cancelled, or spent without paying us.
	Elsewhere
	// Expired: it was never spent and cannot be any more, for good.
	Expired
	// Reverted: it can still be spent, but the transaction that the facilitator
	// named was to spend it, is on the chain, and failed.
	Reverted
)

// Question is what there is to ask about a record.
func (r Record) Question() Question {
	return Question{Key: r.Key, PayTo: r.PayTo, Amount: r.Amount, Since: r.Claimed, ValidBefore: r.ValidBefore, Transaction: r.Transaction}
}
