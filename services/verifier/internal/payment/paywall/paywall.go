package paywall

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/pforte/pforte/pkg/flight"
	"github.com/pforte/pforte/pkg/periodic"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// Options configure a Paywall. All members are required unless noted otherwise.
type Options struct {
	Ledger      payment.Ledger
	Facilitator payment.Facilitator
	// StrangersFacilitator may be nil; else it is called for payments that are not certainly a
	// known payer's, so that what stops their checks does not stop those of the others.
	StrangersFacilitator payment.Facilitator
	// ContractsFacilitator may be nil; else it is called for those of these payments whose signature a contract
	// judges: anyone may deploy one over which the facilitator takes too long.
	ContractsFacilitator payment.Facilitator
	// NamedFacilitator may be nil; else it is called for those of these payments that name a known payer, and stops
	// none of the others: the payer may be a contract, and anyone may name it.
	NamedFacilitator payment.Facilitator
	// UncountedFacilitator may be nil; else it makes those checks of known payers that must not stop the others': see
	// knownChecks.
	UncountedFacilitator payment.Facilitator
	// ChainLog may be nil: then an outcome that the facilitator leaves open stays
	// open until the facilitator reports it, or an operator decides.
	ChainLog payment.ChainLog
	// Accounts may be nil: then the facilitator is called without a look at the accounts of
	// payers.
	Accounts Accounts
	// Confirm accepts a facilitator's yes only when ChainLog confirms it.
	Confirm bool
	// FreeSettlements is how many settlements may begin in a calendar month (UTC).
	FreeSettlements int
	// VerifyTimeout bounds the facilitator's check of a payment, SettleTimeout one call of it to
	// settle, and WorkTimeout the work of one sale.
	VerifyTimeout, SettleTimeout, WorkTimeout time.Duration
	// AttemptsPerPayer and AttemptsPerAddress bound the attempts that end unpaid
	// in a minute.
	AttemptsPerPayer, AttemptsPerAddress int
	// FailuresPerPayer and FailuresPerAddress bound the settlements that fail in a
	// day (UTC), as in payment.Caps; zero means 3 and 10.
	FailuresPerPayer, FailuresPerAddress int
	// ReuseWindow is for how long a payer who asks the same question again, with
	// another payment and without an identifier, gets the answer of the first and keeps
	// the other; zero means never. ReusesPerPayer bounds that in a day (UTC); zero
	// means 20.
	ReuseWindow    time.Duration
	ReusesPerPayer int
	// ClientKey keys the hash that stands for a client's address in the ledger;
	// replicas have the same.
	ClientKey []byte
	Log       *slog.Logger
	Now       func() time.Time
	// Ended may be nil. It is called with the end of each purchase, which concurrent copies of a
	// call share, and of each call that Refuse ends.
	Ended func(End)
	// At may be nil. It is called at each Point of a sale.
	At func(Point)
	// Heartbeat is the interval of heartbeats; zero means two seconds. Pause is the least time
	// before a call looks at the chain again, or calls the facilitator to settle again; zero means
	// half a second. Answer is how long a caller waits for an answer; zero means the longer of
	// VerifyTimeout and WorkTimeout, and SettleTimeout after it. Patience is how long a caller waits
	// where many others wait with the same payment; zero means ten seconds.
	Heartbeat, Pause, Answer, Patience time.Duration
}

// Accounts reads what the payment network shows of a payer and of their authorization over an
// amount of atomic units. An error means that this is not known.
type Accounts interface {
	// Account may take one node's word.
	Account(ctx context.Context, key payment.Key, amount string) (payment.Account, error)
	// Spent reports whether the authorization is spent or cancelled, on the word of as many
	// nodes as a ChainLog takes.
	Spent(ctx context.Context, key payment.Key) (bool, error)
}

// End is how a call ended, or what the service decided of a payment by itself: Operation and
// Transport are those of the Order or the record, and Outcome is one of the words of the metric
// verifier_payments_total. Reused is as in Sale.
type End struct {
	Operation, Transport, Outcome string
	Reused                        bool
}

// Point is a moment of a sale at which a crash must lose nothing.
type Point string

// The points, in their order.
const (
	Claimed  Point = "claimed"  // the claim is written
	Worked   Point = "worked"   // the answer is made, the payment is verified or was found on the chain
	Begun    Point = "begun"    // settling is on disk, the facilitator is not called yet
	Asked    Point = "asked"    // the call of the facilitator has ended, nothing is written
	Finished Point = "finished" // the outcome is written or deferred, the buyer has no answer yet
)

// Paywall sells answers for payments, at most one for each.
type Paywall struct {
	Options
	owner     string // this process in the ledger
	purchases flight.Group[purchaseKey, Sale]
	pending   pendingWrites

	quota   quota
	payers  *attempts
	clients *attempts
	known   *attempts // of known payers at their addresses
	// lookups are the free questions that all clients share, and lookupsNear counts what one network takes.
	lookups     *budget
	lookupsNear *attempts
	// strangers is what payers who are not known share, and named what payments share that only
	// name a known payer. accountsNear and checksNear count what one network takes of both,
	// unpaidOf and unpaidNear the day's works that end unpaid, of payers and of networks.
	strangers, named         budgets
	accountsNear, checksNear *attempts
	unpaidOf, unpaidNear     *attempts
	knownChecks              *knownChecks
	settlements              settlementQueue
	// unknownPayers, beside and looking (of known payers) bound concurrent work: see limits.go.
	unknownPayers, beside, looking *semaphore.Weighted
	// knownMaking and othersMaking bound what answers take while they are made: see making.go.
	knownMaking, othersMaking *semaphore.Weighted

	stop       context.CancelFunc
	heartbeats sync.WaitGroup
}

// leaseTTL is how many intervals of heartbeats a lease lasts.
const leaseTTL = 5

// Open returns a paywall that is registered in the ledger, and that extends its lease there until
// Close.
func Open(ctx context.Context, o Options) (*Paywall, error) {
	if o.Ledger == nil || o.Facilitator == nil || o.Log == nil || o.Now == nil || o.FreeSettlements < 0 ||
		o.ReuseWindow < 0 || o.VerifyTimeout <= 0 || o.SettleTimeout <= 0 || o.WorkTimeout <= 0 ||
		o.AttemptsPerPayer < 1 || o.AttemptsPerAddress < 1 {
		return nil, errors.New("open the paywall: an option is missing")
	}
	if o.Confirm && o.ChainLog == nil {
		return nil, errors.New("open the paywall: settlements cannot be confirmed without a chain log")
	}
	o.Heartbeat = cmp.Or(o.Heartbeat, 2*time.Second)
	o.Pause = cmp.Or(o.Pause, 500*time.Millisecond)
	o.FailuresPerPayer, o.FailuresPerAddress = cmp.Or(o.FailuresPerPayer, 3), cmp.Or(o.FailuresPerAddress, 10)
	o.ReusesPerPayer = cmp.Or(o.ReusesPerPayer, 20)
	o.Answer = cmp.Or(o.Answer, max(o.VerifyTimeout, o.WorkTimeout)+o.SettleTimeout)
	o.Patience = cmp.Or(o.Patience, 10*time.Second)
	if o.Ended == nil {
		o.Ended = func(End) {}
	}
	if o.At == nil {
		o.At = func(Point) {}
	}
	w := &Paywall{
		Options: o, owner: rand.Text(), pending: pendingWrites{all: map[payment.Key]pendingWrite{}},
		payers: newAttempts(o.Now, attemptWindow, onePayer), clients: newAttempts(o.Now, attemptWindow, networksAround),
		known:       newAttempts(o.Now, attemptWindow, onePayer),
		lookups:     newBudget(o.Now, lookupsPerSecond, lookupsAtOnce),
		lookupsNear: newAttempts(o.Now, lookupWindow, nearby),
		strangers:   newBudgets(o), named: newBudgets(o),
		accountsNear: newAttempts(o.Now, attemptWindow, nearby), checksNear: newAttempts(o.Now, attemptWindow, nearby),
		knownChecks: newKnownChecks(o.Now),
		unpaidOf:    newAttempts(o.Now, 24*time.Hour, onePayer), unpaidNear: newAttempts(o.Now, 24*time.Hour, nearby),
		unknownPayers: semaphore.NewWeighted(maxUnknownPayers), beside: semaphore.NewWeighted(maxBeside),
		looking:     semaphore.NewWeighted(maxAccounts),
		knownMaking: semaphore.NewWeighted(mostMade), othersMaking: semaphore.NewWeighted(mostMade),
	}
	w.purchases.Many, w.purchases.Patience = maxCopies, o.Patience
	if err := o.Ledger.Register(ctx, w.owner, o.Now().Add(leaseTTL*o.Heartbeat)); err != nil {
		return nil, fmt.Errorf("open the paywall: %w", err)
	}
	ctx, w.stop = context.WithCancel(context.WithoutCancel(ctx))
	w.heartbeats.Go(func() { w.heartbeat(ctx) })
	return w, nil
}

func (w *Paywall) heartbeat(ctx context.Context) {
	periodic.Run(ctx, w.Heartbeat, func() {
		if err := w.Ledger.Heartbeat(ctx, w.owner, w.Now().Add(leaseTTL*w.Heartbeat)); err != nil && ctx.Err() == nil {
			w.Log.Error("cannot extend the lease in the ledger", "error", err)
		}
	})
}

// Close accepts no new sale, waits for those under way and makes the pending writes, until one fails. When all sales
// have ended it deregisters. When ctx ends before, it returns an error: a sale that is cut off can be
// resumed, in any process on the ledger, once the lease has expired.
func (w *Paywall) Close(ctx context.Context) error {
	err := w.purchases.Close(ctx)
	w.retryAllPending(context.WithoutCancel(ctx))
	w.stop()
	w.heartbeats.Wait()
	if err != nil {
		return fmt.Errorf("close the paywall with payments under way: %w", err)
	}
	return w.Ledger.Heartbeat(context.WithoutCancel(ctx), w.owner, time.Time{})
}
