package payment

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"
)

// Faults of the ledger.
var (
	// ErrNotFound means that the ledger has no such payment.
	ErrNotFound = errors.New("payment is not in the ledger")
	// ErrLost means that a claim is no longer its owner's.
	ErrLost = errors.New("payment claim was lost")
	// ErrLimit means that the month's free settlements are used up.
	ErrLimit = errors.New("free-settlement limit is reached")
)

// State is how far a payment has come.
type State string

// The states. Working may vanish; the others stay for good.
//
//	Working → Settling → Settled | Dead | Unknown;  Unknown → Settled | Dead;  Dead → Settled
const (
	// Working: claimed, the work and the facilitator's check are under way.
	Working State = "working"
	// Settling: the facilitator may have been asked to move the money.
	Settling State = "settling"
	// Settled: the money is ours; the answer is the buyer's.
	Settled State = "settled"
	// Dead: no money came, as far as can be known. It becomes Settled when the
	// chain says otherwise later.
	Dead State = "dead"
	// Unknown: the money may have moved; the truth is being looked for.
	Unknown State = "unknown"
)

// Key names one payment, whatever its encoding or protocol version: an EIP-3009
// authorization is spent by (chain, token, payer, nonce). All members are lower
// case.
type Key struct {
	// Network is a CAIP-2 chain id, "eip155:8453".
	Network string
	// Asset and Payer are 0x addresses, Nonce is 32 bytes in 0x-hex.
	Asset, Payer, Nonce string
}

// Digest is a SHA-256.
type Digest [sha256.Size]byte

// Record is what the ledger knows of one payment.
type Record struct {
	Key   Key
	State State
	// Owner is the process that works on it, and Deadline the moment after
	// which it does so no more even if it lives.
	Owner    string
	Deadline time.Time
	// Payment is the digest of what was signed and the signature: copies of one
	// payment have the same. Request is the digest of what is bought with it.
	Payment, Request Digest
	// Identifier is the buyer's own idempotency key, "" when he gave none.
	Identifier string
	// Resource is the path that was called, for the operator's list.
	Resource string
	// Amount is in atomic units, decimal. PayTo is the payee's address.
	Amount, PayTo string
	// ValidBefore is when the authorization ends.
	ValidBefore time.Time
	// Answer is what the buyer gets, from Settling on; nil once it was pruned.
	Answer []byte
	// Month is the month of the settlement that is reserved, "2006-01"; "" when
	// none is.
	Month string
	// Transaction is the hash of the transfer, when one is known; Reason says
	// why the record is dead or unknown.
	Transaction, Reason string
	Claimed, Changed    time.Time
}

// GivesBack tells whether an outcome gives back the settlement that is reserved
// for the record.
func (o Outcome) GivesBack(r Record) bool {
	return o.State == Dead && r.Month != "" && o.Transaction == "" && r.Transaction == ""
}

// Settlement is what is written before the facilitator is asked to settle.
type Settlement struct {
	// Request is that of the claim, which the Answer answers.
	Request Digest
	Answer  []byte
	// Month and Limit are the calendar month to reserve a settlement in and how
	// many it has.
	Month    string
	Limit    int
	Deadline time.Time
}

// Outcome ends a settling: State is Settled, Dead or Unknown.
type Outcome struct {
	State               State
	Transaction, Reason string
}

// Outcome is how the settling of the record ended.
func (r Record) Outcome() Outcome {
	return Outcome{State: r.State, Transaction: r.Transaction, Reason: r.Reason}
}

// Standing is the state of a month and of the open payments.
type Standing struct {
	// Reserved counts the settlements of the month, Unknown the payments whose
	// truth is being looked for.
	Reserved, Unknown int
	// Oldest is when the oldest of the unknown ones was claimed; zero without one.
	Oldest time.Time
}

// Filter narrows what the operator sees. Zero members do not narrow.
type Filter struct {
	State        State
	From, Before time.Time
	// Limit bounds the number of records, newest first.
	Limit int
}

// Total is the sum of the payments of one month, asset and state.
type Total struct {
	Month, Network, Asset string
	State                 State
	Payments              int
	// Amount is in atomic units of the asset, decimal.
	Amount string
}

// Ledger remembers payments. All its methods are atomic over all processes that
// share it, and may be called from many goroutines.
//
// An owner is alive from Arrive or Beat until the moment given there or until
// Leave. A Working or Settling record whose owner is gone, or whose Deadline has
// passed, is abandoned: an abandoned Working record counts as not there, an
// abandoned Settling record reads as Unknown.
type Ledger interface {
	// Claim writes r as Working for r.Owner unless the payment is there, and
	// tells whether it did; otherwise it gives the record that is there.
	Claim(ctx context.Context, r Record) (Record, bool, error)
	// Release forgets a Working record of the owner. Again, or when it is not
	// the owner's: nothing happens.
	Release(ctx context.Context, key Key, owner string) error
	// Begin turns the owner's Working record into Settling and reserves one
	// settlement, in one step that is on disk when it returns. ErrLimit: the
	// month has none left. ErrLost: the record is not the owner's any more, or
	// is for another request.
	// When another record of the payer has the same Identifier and is Settling,
	// Unknown or Settled, nothing changes and that record is given.
	Begin(ctx context.Context, key Key, owner string, s Settlement) (*Record, error)
	// Finish writes how a settling ended and gives what the record then says of
	// it. A Dead outcome gives the reserved settlement back unless a Transaction
	// is known, which was made even if it failed; it changes nothing when the
	// record is Settled already. ErrNotFound: no such record.
	Finish(ctx context.Context, key Key, o Outcome) (Outcome, error)
	// Get gives a record, or ErrNotFound.
	Get(ctx context.Context, key Key) (Record, error)

	// Arrive says that the owner begins, and lives until then. In a file, which has
	// its users on one machine, it also cuts back to until every sign that reaches
	// further: the clock was ahead when it was given, perhaps by a process that is
	// gone. Beat says that the owner lives until then; Leave that it is gone.
	Arrive(ctx context.Context, owner string, until time.Time) error
	Beat(ctx context.Context, owner string, until time.Time) error
	Leave(ctx context.Context, owner string) error
	// Due gives at most limit Unknown records whose next look is due, without
	// Answer, and puts their next look off until next, so that two processes do
	// not look at once.
	Due(ctx context.Context, limit int, next time.Time) ([]Record, error)
	// Prune forgets the answers of Settled and Dead records that were claimed
	// before then, and abandoned Working records.
	Prune(ctx context.Context, before time.Time) error

	// Standing gives the state of a month.
	Standing(ctx context.Context, month string) (Standing, error)
	// List gives records without Answer, newest first.
	List(ctx context.Context, f Filter) ([]Record, error)
	// Totals sums the payments by month of their claim (UTC), asset and state.
	Totals(ctx context.Context, f Filter) ([]Total, error)
	// Ping asks whether the ledger answers.
	Ping(ctx context.Context) error
}

// Month gives the calendar month of a moment in UTC, as the ledger writes it.
func Month(t time.Time) string { return t.UTC().Format("2006-01") }

// NextMonth gives the first moment of the month after t, in UTC.
func NextMonth(t time.Time) time.Time {
	year, month, _ := t.UTC().Date()
	return time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
}
