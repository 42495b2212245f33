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

	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// Options is what a Paywall needs. All members without "may" are required.
type Options struct {
	Ledger      payment.Ledger
	Facilitator payment.Facilitator
	// ChainLog may be nil: then an outcome that the facilitator leaves open stays
	// open until it says more.
	ChainLog payment.ChainLog
	// Confirm believes a facilitator's yes only when ChainLog says so too.
	Confirm bool
	// FreeSettlements is how many settlements a calendar month (UTC) may have.
	FreeSettlements int
	// VerifyTimeout and SettleTimeout bound one call to the facilitator;
	// WorkTimeout bounds the work of one sale.
	VerifyTimeout, SettleTimeout, WorkTimeout time.Duration
	// AttemptsPerPayer and AttemptsPerAddress bound the attempts that end unpaid
	// in a minute.
	AttemptsPerPayer, AttemptsPerAddress int
	// FailuresPerPayer and FailuresPerAddress bound the settlements that are made
	// in vain in a day (UTC); zero means 3 and 10.
	FailuresPerPayer, FailuresPerAddress int
	// ClientKey makes what stands for a client's address in the ledger; replicas
	// have the same.
	ClientKey []byte
	// KeepAnswers is how long the answer of a settled payment is kept; later it
	// is made anew for the buyer who returns.
	KeepAnswers time.Duration
	Log         *slog.Logger
	Now         func() time.Time
	// Ended, when set, is told how each call ended.
	Ended func(outcome string)
	// At, when set, is called at each named point between claim and answer.
	At func(Point)
	// Beat is how often a life sign is given; zero means two seconds. Pause is
	// left to a facilitator before it is asked again; zero means half a second.
	// Answer is how long a caller waits for an answer; zero means what the
	// timeouts add up to.
	Heartbeat, Pause, Answer time.Duration
}

// Point is a moment of a sale at which a crash must lose nothing.
type Point string

// The points, in their order.
const (
	Claimed  Point = "claimed"  // the claim is written
	Worked   Point = "worked"   // the work is done, the facilitator agrees
	Begun    Point = "begun"    // settling is on disk, nobody was asked
	Asked    Point = "asked"    // the facilitator has answered, nothing is written
	Finished Point = "finished" // the outcome is written, the buyer has no answer
)

// Paywall sells: it takes a payment and gives an answer for it, at most once each.
type Paywall struct {
	Options
	owner   string
	flights flights
	payers  *attempts
	clients *attempts
	quota   quota
	pending pendingWrites
	room    room
	recent  recent
	// strangers bounds the work at one time for payers who are not known here.
	strangers chan struct{}
	// checks bounds the checks at one time of payments that cannot be judged here.
	checks chan struct{}
	// beside bounds the work at one time beside the facilitator's check.
	beside chan struct{}
	looks  slots

	stop       context.CancelFunc
	heartbeats sync.WaitGroup
}

// leaseTTL is how many intervals of heartbeats a lease lasts.
const leaseTTL = 5

// Open makes a gate and gives its first life sign.
func Open(ctx context.Context, o Options) (*Paywall, error) {
	if o.Ledger == nil || o.Facilitator == nil || o.Log == nil || o.Now == nil || o.FreeSettlements < 0 ||
		o.VerifyTimeout <= 0 || o.SettleTimeout <= 0 || o.WorkTimeout <= 0 || o.AttemptsPerPayer < 1 || o.AttemptsPerAddress < 1 {
		return nil, errors.New("open the paywall: an option is missing")
	}
	if o.Confirm && o.ChainLog == nil {
		return nil, errors.New("open the paywall: nobody can confirm settlements")
	}
	o.Heartbeat = cmp.Or(o.Heartbeat, 2*time.Second)
	o.Pause = cmp.Or(o.Pause, 500*time.Millisecond)
	o.FailuresPerPayer, o.FailuresPerAddress = cmp.Or(o.FailuresPerPayer, 3), cmp.Or(o.FailuresPerAddress, 10)
	o.Answer = cmp.Or(o.Answer, max(o.VerifyTimeout, o.WorkTimeout)+o.SettleTimeout)
	if o.Ended == nil {
		o.Ended = func(string) {}
	}
	if o.At == nil {
		o.At = func(Point) {}
	}
	w := &Paywall{
		Options: o, owner: rand.Text(), payers: newAttempts(o.Now, onePayer), clients: newAttempts(o.Now, networksAround),
		strangers: make(chan struct{}, maxStrangers), beside: make(chan struct{}, maxBeside), checks: make(chan struct{}, maxChecks),
	}
	if err := o.Ledger.Register(ctx, w.owner, o.Now().Add(leaseTTL*o.Heartbeat)); err != nil {
		return nil, fmt.Errorf("open the paywall: %w", err)
	}
	beating, stop := context.WithCancel(context.WithoutCancel(ctx))
	w.stop = stop
	w.heartbeats.Go(func() { w.heartbeat(beating) })
	return w, nil
}

// heartbeat extends the lease until ctx ends.
func (w *Paywall) heartbeat(ctx context.Context) {
	every(ctx, w.Heartbeat, func() {
		if err := w.Ledger.Heartbeat(ctx, w.owner, w.Now().Add(leaseTTL*w.Heartbeat)); err != nil && ctx.Err() == nil {
			w.Log.Error("cannot extend the lease in the ledger", "error", err)
		}
	})
}

// every calls do each interval until ctx ends.
func every(ctx context.Context, interval time.Duration, do func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do()
		}
	}
}

// Close lets no new sale begin, waits for those under way until ctx ends, and
// signs off. A sale that is cut off is taken up again, by whoever has the ledger
// open then, as soon as the last life sign has run out.
func (w *Paywall) Close(ctx context.Context) error {
	err := w.flights.drain(ctx)
	w.stop()
	w.heartbeats.Wait()
	if err != nil {
		return fmt.Errorf("close the paywall with payments under way: %w", err)
	}
	return w.Ledger.Deregister(context.WithoutCancel(ctx), w.owner)
}
