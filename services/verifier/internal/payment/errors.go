package payment

import (
	"errors"
	"time"
)

// Why a payment bought nothing, beside ErrLimit and ErrFailing (ledger.go).
var (
	// ErrInvalid: the payment cannot be read, does not match the terms, or is outside of its
	// window. This call moved no money.
	ErrInvalid = errors.New("payment does not match the terms")
	// ErrRefused: the facilitator, or a look at the payer's account, refused the payment before a
	// settlement began.
	ErrRefused = errors.New("payment was refused")
	// ErrNotSettled: the settling has ended, and no money came as far as can be known.
	ErrNotSettled = errors.New("payment was not settled")
	// ErrUsed: the ledger has the payment for another request, or another copy of its
	// authorization, or it was refunded.
	ErrUsed = errors.New("payment was used for another request")
	// ErrInFlight: the call took too long, another one works on the payment, or the service stops.
	// The same payment can be sent again.
	ErrInFlight = errors.New("payment is being processed")
	// ErrPending: whether the money moved is not known yet.
	ErrPending = errors.New("settlement is pending")
	// ErrFacilitator: the facilitator returned no usable answer, or a budget is used up that all
	// share who are not certainly known payers. This call moved no money.
	ErrFacilitator = errors.New("facilitator is unavailable")
	// ErrLedger: the ledger could not be read or written; this call moved no money.
	ErrLedger = errors.New("payment ledger is unavailable")
	// ErrIdentifier: the buyer's payment identifier was used for another request.
	ErrIdentifier = errors.New("payment identifier was used for another request")
	// ErrOtherNetwork: the payment was made on another network than the one that is read.
	ErrOtherNetwork = errors.New("payment is of another network")
	// ErrTooMany: the payer, or the address or its network, has too many unpaid attempts or free
	// calls, the payer has had too many answers of earlier payments, or the free questions that
	// all clients share are used up.
	ErrTooMany = errors.New("too many unpaid attempts")
)

// Refusal is ErrInvalid, ErrRefused or ErrNotSettled with a reason.
type Refusal struct {
	Of error
	// Reason is a word of x402 or of the facilitator, one of ours, or what an operator noted: an
	// open set.
	Reason string
	// Transaction is the hash of a transaction that was named for the payment and did not pay
	// for it, or "".
	Transaction string
	// Unspent reports that the chain shows the authorization as unused: nothing was charged.
	Unspent bool
}

func (r *Refusal) Error() string { return r.Of.Error() + ": " + r.Reason }

// Unwrap returns Of.
func (r *Refusal) Unwrap() error { return r.Of }

// PendingError is ErrPending with the transaction that was named for the payment, if any, and the
// time until the facilitator may be called again; zero when that is now, or it is not called.
type PendingError struct {
	Transaction string
	After       time.Duration
}

func (*PendingError) Error() string { return ErrPending.Error() }

// Unwrap returns ErrPending.
func (*PendingError) Unwrap() error { return ErrPending }

func invalid(reason string) error { return &Refusal{Of: ErrInvalid, Reason: reason} }

// LaterError is an error with the time after which the same call may succeed.
type LaterError struct {
	Err error
	// After is how long to wait; zero when that is not known.
	After time.Duration
}

func (e *LaterError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *LaterError) Unwrap() error { return e.Err }
