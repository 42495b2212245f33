package payment

import "context"

// ChainLog reads the log of the chain that money moves on.
type ChainLog interface {
	// Authorization returns what became of a record's authorization since it was claimed. The
	// record's Transaction is one that may have spent it, or "". An error means that what became of
	// it is not known.
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
	// Unused: it was not spent, and no final block shows that it cannot be any more.
	Unused AuthorizationStatus = iota
	// PaidToUs: it was spent, and one transaction both marks it as used and moves
	// the amount to us.
	PaidToUs
	// UsedElsewhere: it was cancelled, or spent without paying us.
	UsedElsewhere
	// Expired: it was never spent and cannot be any more, for good.
	Expired
	// Reverted: as Unused, but the transaction that was named for it, and carries its nonce, is on
	// the chain and has failed.
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
	// Code reports that the payer has code (a contract, or a delegation by EIP-7702). The token
	// asks that code about signatures, so that one by the payer's key may be refused.
	Code bool
}
