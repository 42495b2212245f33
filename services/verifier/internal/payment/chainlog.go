package payment

import "context"

// ChainLog reads the log of the chain that money moves on.
type ChainLog interface {
	// Authorization returns what became of a record's authorization since it was
	// claimed. The record's Transaction is the hash that the facilitator named, or "".
	// An error means that it is not known.
	Authorization(ctx context.Context, r Record) (Authorization, error)
}

// Authorization is what became of an authorization.
type Authorization struct {
	Status AuthorizationStatus
	// Transaction is the hash of the transfer to us; "" unless the Status is PaidToUs.
	Transaction string
}

// AuthorizationStatus is what became of an authorization.
type AuthorizationStatus int

// The statuses.
const (
	// Unused: it can still be spent.
	Unused AuthorizationStatus = iota
	// PaidToUs: it was spent, and one transaction both marks it as used and moves
	// the amount to us.
	PaidToUs
	// UsedElsewhere: it was cancelled, or spent without paying us.
	UsedElsewhere
	// Expired: it was never spent and cannot be any more, for good.
	Expired
	// Reverted: it can still be spent, but the transaction that the facilitator
	// named was to spend it, is on the chain, and failed.
	Reverted
)

// String returns a word for the status, as metrics and the operator's commands show it.
func (s AuthorizationStatus) String() string {
	return [...]string{
		Unused: "unspent", PaidToUs: "paid", UsedElsewhere: "elsewhere", Expired: "expired", Reverted: "reverted",
	}[s]
}

// Account is what the payment network shows of a payer and of one authorization.
type Account struct {
	// Funded reports that the payer has the amount, Used that the authorization is spent
	// or cancelled.
	Funded, Used bool
	// Code reports that the payer has code (a contract, or a delegation by EIP-7702): the
	// token asks it about signatures, so that a key proves nothing for long.
	Code bool
}
