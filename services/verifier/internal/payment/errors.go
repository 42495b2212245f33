package payment

import (
	"errors"
	"time"
)

// Why a payment bought nothing, beside ErrLimit and ErrFailing (ledger.go).
var (
	// ErrInvalid: the payment does not match the terms. Nothing was
	// done with it.
	ErrInvalid = errors.New("payment does not match the terms")
	// ErrRefused: the facilitator, or a look at the payer's account, refused the payment before
	// it was settled.
	ErrRefused = errors.New("payment was refused")
	// ErrNotSettled: the settling has ended, and no money came as far as can be known.
	ErrNotSettled = errors.New("payment was not settled")
	// ErrUsed: the payment has bought, or is buying, something else, or was refunded.
	ErrUsed = errors.New("payment was used for another request")
	// ErrInFlight: a copy of this call is under way, and no answer came while
	// it was waited for.
	ErrInFlight = errors.New("payment is being processed")
	// ErrPending: whether the money moved is not known yet.
	ErrPending = errors.New("settlement is pending")
	// ErrFacilitator: the facilitator returned no usable answer, or payers who are not known
	// have used up what they share for now. The facilitator was not called to move money.
	ErrFacilitator = errors.New("facilitator is unavailable")
	// ErrLedger: the ledger could not be read or written; this call moved no money.
	ErrLedger = errors.New("payment ledger is unavailable")
	// ErrIdentifier: the buyer's payment identifier was used for another request.
	ErrIdentifier = errors.New("payment identifier was used for another request")
	// ErrTooMany: too many attempts of this payer or address ended unpaid, or they have had
	// too many free answers.
	ErrTooMany = errors.New("too many unpaid attempts")
)

// Refusal is ErrInvalid, ErrRefused or ErrNotSettled with the protocol's reason.
type Refusal struct {
	Of error
	// Reason is a word of the x402 vocabulary, an open set.
	Reason string
	// Transaction is the hash of a transaction that was named for the payment and did not pay
	// for it, or "".
	Transaction string
	// Unspent reports that the chain shows the authorization as unused: nothing was charged.
	Unspent bool
}

func (r *Refusal) Error() string { return r.Of.Error() + ": " + r.Reason }

// Unwrap returns the kind of refusal.
func (r *Refusal) Unwrap() error { return r.Of }

// PendingError is ErrPending with the transaction that was broadcast, if any, and the time
// until the facilitator may be called again; zero when that is now, or it is not called.
type PendingError struct {
	Transaction string
	After       time.Duration
}

func (*PendingError) Error() string { return ErrPending.Error() }

// Unwrap returns ErrPending.
func (*PendingError) Unwrap() error { return ErrPending }

func invalid(reason string) error { return &Refusal{Of: ErrInvalid, Reason: reason} }

// LaterError is an error that ends after a while: ErrTooMany, ErrFailing, ErrLimit if it ends
// before the month, or an error of a facilitator that wants no calls.
type LaterError struct {
	Err error
	// After is the time until then; zero when the facilitator names none.
	After time.Duration
}

func (e *LaterError) Error() string { return e.Err.Error() }

// Unwrap returns the error.
func (e *LaterError) Unwrap() error { return e.Err }
