package payment

import (
	"errors"
	"time"
)

// Why a payment bought nothing, beside ErrLimit (ledger.go).
var (
	// ErrInvalid: the payment does not match the terms. Nothing was
	// done with it.
	ErrInvalid = errors.New("payment does not match the terms")
	// ErrRefused: the facilitator refused the payment before any money moved.
	ErrRefused = errors.New("payment was refused")
	// ErrNotSettled: the transfer was refused; no money moved.
	ErrNotSettled = errors.New("payment was not settled")
	// ErrUsed: the payment has bought, or is buying, something else.
	ErrUsed = errors.New("payment was used for another request")
	// ErrInFlight: a copy of this call is under way, and no answer came while
	// it was waited for.
	ErrInFlight = errors.New("payment is being processed")
	// ErrPending: whether the money moved is not known yet.
	ErrPending = errors.New("settlement is pending")
	// ErrFacilitator: the facilitator returned no usable answer, and was not called
	// to move money.
	ErrFacilitator = errors.New("facilitator is unavailable")
	// ErrLedger: the ledger could not be read or written; no money was moved.
	ErrLedger = errors.New("payment ledger is unavailable")
	// ErrIdentifier: the buyer's payment identifier was used for another request.
	ErrIdentifier = errors.New("payment identifier was used for another request")
	// ErrTooMany: too many attempts of this payer or address ended unpaid.
	ErrTooMany = errors.New("too many unpaid attempts")
)

// Refusal is ErrInvalid, ErrRefused or ErrNotSettled with the protocol's reason.
type Refusal struct {
	Of error
	// Reason is a word of the x402 vocabulary, an open set.
	Reason string
	// Transaction is the hash of a transfer that failed on the chain, or "".
	Transaction string
	// Unspent reports that the chain shows the authorization as unused: nothing was charged.
	Unspent bool
}

func (r *Refusal) Error() string { return r.Of.Error() + ": " + r.Reason }

// Unwrap returns the kind of refusal.
func (r *Refusal) Unwrap() error { return r.Of }

// PendingError is ErrPending with the transaction that was broadcast, if any, and
// the time until the facilitator may be called again; zero when it is not called.
type PendingError struct {
	Transaction string
	After       time.Duration
}

func (*PendingError) Error() string { return ErrPending.Error() }

// Unwrap returns ErrPending.
func (*PendingError) Unwrap() error { return ErrPending }

func invalid(reason string) error { return &Refusal{Of: ErrInvalid, Reason: reason} }

// LaterError is an error that ends after a while: ErrTooMany, ErrFailing, ErrLimit while
// the facilitator is left alone, or an error of the facilitator that wants no calls.
type LaterError struct {
	Err error
	// After is the time until then; zero when the facilitator names none.
	After time.Duration
}

func (e *LaterError) Error() string { return e.Err.Error() }

// Unwrap returns the error.
func (e *LaterError) Unwrap() error { return e.Err }
