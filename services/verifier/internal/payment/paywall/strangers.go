package paywall

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// budgets are what payers may use up together. Those who are not known have theirs, and so have
// payments that name a known payer but are not signed by their key: such a signature may be a
// contract's, and anyone can make one. Known payers who sign need none.
type budgets struct {
	// accounts bounds lookups at the payment network's nodes, and checks bounds calls of the facilitator to
	// verify.
	accounts, checks *budget
	// unpaidBeside are the works beside the facilitator's check that end unpaid.
	unpaidBeside *attempts
	// checking and looking bound how many checks and lookups wait for their answers.
	checking, looking *semaphore.Weighted
}

const (
	// accountsPerSecond and checksPerSecond are what the budgets grow by in a second, up to
	// sharedAtOnce, or half the attempts of one address in a minute where that is more.
	accountsPerSecond, checksPerSecond = 1, 5
	sharedAtOnce                       = 300
	// networkShare: one network, IPv6 /48 or IPv4 /24, may use up 1/networkShare of a budget in a minute,
	// and where no more than that is left, of what comes in a minute.
	networkShare = 2
	// maxUnpaidBeside is for how many questions work beside the check may end unpaid in a minute.
	// Beyond, the check comes first.
	maxUnpaidBeside = 20
)

func newBudgets(o Options) budgets {
	most := float64(max(sharedAtOnce, o.AttemptsPerAddress/2))
	return budgets{
		accounts: newBudget(o.Now, accountsPerSecond, most), checks: newBudget(o.Now, checksPerSecond, most),
		unpaidBeside: newAttempts(o.Now, attemptWindow, onePayer),
		checking:     semaphore.NewWeighted(maxChecks), looking: semaphore.NewWeighted(maxAccounts),
	}
}

// isKnown reports whether the payment is certainly that of a known payer: their own key signed it.
func (c *call) isKnown() bool { return c.hasPaid && c.plain }

// budgetsOf returns the budgets that a call shares with others; nil where isKnown.
func (w *Paywall) budgetsOf(c *call) *budgets {
	switch {
	case c.isKnown():
		return nil
	case c.hasPaid:
		return &w.named
	}
	return &w.strangers
}

// spendShared takes a lookup or a check from a budget that c shares with others, and from what one
// network may take of it.
func (w *Paywall) spendShared(c *call, from *budget, within *attempts) error {
	refund, err := within.spend(c.Address, from.part())
	if err != nil {
		return err
	}
	if wait := from.spend(); wait > 0 {
		refund()
		return errors.Join(payment.ErrFacilitator, &payment.LaterError{Err: errShared, After: wait})
	}
	return nil
}

var errShared = errors.New("what new payers may use up is used up for now")

// facilitatorOf returns the client for a call's payment. What stops the checks of strangers, of contracts, or of who
// names a known payer, stops no others; what stops those of known payers stops all. The payer of an account that the
// node could not be asked about may be a contract.
func (w *Paywall) facilitatorOf(c *call) payment.Facilitator {
	isContracts := !c.plain || !c.isKnown() && w.Accounts != nil && (c.account == nil || c.account.Code)
	switch {
	case c.hasPaid && !c.plain && w.NamedFacilitator != nil:
		return w.NamedFacilitator
	case isContracts && w.ContractsFacilitator != nil:
		return w.ContractsFacilitator
	case !c.isKnown() && w.StrangersFacilitator != nil:
		return w.StrangersFacilitator
	}
	return w.Facilitator
}

// verify checks with the facilitator whether the payment is good. While the facilitator is busy,
// perhaps with strangers, the call of a known payer waits, within VerifyTimeout, and any other
// returns the error.
func (w *Paywall) verify(ctx context.Context, c *call) error {
	ctx, cancel := context.WithTimeout(ctx, w.VerifyTimeout)
	defer cancel()
	shared := w.budgetsOf(c)
	if shared != nil {
		if err := w.spendShared(c, shared.checks, w.checksNear); err != nil {
			return err
		}
	}
	client := w.facilitatorOf(c)
	answered := func(error) {}
	if c.isKnown() {
		counts, end, err := w.knownChecks.begin(c.Payment.Key.Payer)
		if err != nil {
			return err
		}
		if answered = end; !counts && w.UncountedFacilitator != nil {
			client = w.UncountedFacilitator
		}
	}
	c.sent = true
	for {
		answer, err := client.Verify(ctx, c.request)
		if errors.Is(err, payment.ErrFacilitatorBusy) {
			w.strangers.checks.slow(retryAfter(err))
			if shared == nil && pause(ctx, retryAfter(err)) {
				continue
			}
		}
		answered(err)
		checked := payment.CheckVerified(answer, err, c.Payment)
		if errors.Is(checked, payment.ErrLimit) {
			return &payment.LaterError{Err: payment.ErrLimit, After: w.quota.pause(w.Now(), err)}
		}
		return checked
	}
}

// pause waits for d, at least minPause, and reports whether it did: not when ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
	d = max(d, minPause)
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		return false
	}
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// minPause is the shortest time after which a facilitator that is busy is called again.
const minPause = 100 * time.Millisecond

// For how many questions work may end unpaid in a day (UTC), in one process.
const (
	unpaidOfStranger = 300
	unpaidOfNetwork  = 1000
	unpaidOfKnown    = 10_000
)

// workCounted runs the order's work and counts its questions for the day until it is paid. The payer's count comes
// first: who is refused by it takes nothing of what others share.
func (w *Paywall) workCounted(ctx context.Context, c *call) ([]byte, error) {
	most := unpaidOfKnown
	if !c.isKnown() {
		most = unpaidOfStranger
	}
	refund, err := w.unpaidOf.spendMany(c.spender(), most, c.Questions)
	if err != nil {
		return nil, err
	}
	if !c.isKnown() {
		near, err := w.unpaidNear.spendMany(c.Address, unpaidOfNetwork, c.Questions)
		if err != nil {
			refund()
			return nil, err
		}
		c.refunds = append(c.refunds, near)
	}
	c.refunds = append(c.refunds, refund)
	return w.work(ctx, c)
}

// mayWorkBeside reports whether the work may begin before the facilitator has verified the
// payment. The caller releases the place.
func (w *Paywall) mayWorkBeside(c *call) (release func(), ok bool) {
	if c.isKnown() {
		return func() {}, true
	}
	refund, err := w.budgetsOf(c).unpaidBeside.spendMany("", maxUnpaidBeside, c.Questions)
	if err != nil {
		return nil, false
	}
	places := int64(min(c.AtOnce, maxBeside))
	if !w.beside.TryAcquire(places) {
		refund()
		return nil, false
	}
	refund = sync.OnceFunc(refund)
	c.refunds = append(c.refunds, refund)
	return func() {
		if w.beside.Release(places); !c.worked { // the day's count has refused it
			refund()
		}
	}, true
}

// budget grows by rate units a second, up to most.
type budget struct {
	now        func() time.Time
	rate, most float64

	mu   sync.Mutex
	left float64
	at   time.Time
	// slowness divides rate and most; it halves in each quietFor without a pause.
	slowness    float64
	pausedUntil time.Time
}

const (
	quietFor    = time.Minute
	maxSlowness = 64
)

func newBudget(now func() time.Time, rate, most float64) *budget {
	return &budget{now: now, rate: rate, most: most, left: most, at: now(), slowness: 1}
}

// spend takes a unit and returns 0, or returns how long it takes until there is one.
func (b *budget) spend() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if left := b.pausedUntil.Sub(now); left > 0 {
		return left
	}
	b.grow(now)
	if b.left < 1 {
		return time.Duration((1 - b.left) / (b.rate / b.slowness) * float64(time.Second))
	}
	b.left--
	return 0
}

// grow adds what has come until now, unless the budget is paused. b is locked.
func (b *budget) grow(now time.Time) {
	if now.Before(b.pausedUntil) {
		return
	}
	for b.slowness > 1 && now.Sub(b.pausedUntil) >= quietFor {
		b.slowness /= 2
		b.pausedUntil = b.pausedUntil.Add(quietFor)
	}
	b.left = min(b.most/b.slowness, b.left+b.rate/b.slowness*max(0, now.Sub(b.at).Seconds()))
	b.at = now
}

// part returns what one network may take in an attemptWindow: 1/networkShare of most or, where no more than
// that is left, of what comes in the window. That share of most may be all that comes or more, and a network
// that took it each time would keep all others out.
func (b *budget) part() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.grow(b.now())
	of := b.rate * attemptWindow.Seconds()
	if b.left > b.most/b.slowness/networkShare {
		of = max(of, b.most)
	}
	return max(1, int(of/b.slowness/networkShare))
}

// slow stops the budget for a pause, at least minPause, and halves rate and most, down to a
// maxSlowness-th. During a pause it does nothing.
func (b *budget) slow(after time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if now.Before(b.pausedUntil) {
		return
	}
	b.slowness = min(2*b.slowness, maxSlowness)
	b.pausedUntil = now.Add(max(after, minPause))
	b.left, b.at = 1, b.pausedUntil
}

// nearby names the network of an address that one owner may have whole, IPv6 /48 or IPv4 /24,
// and a wider one, /32 or /16.
func nearby(name string) []string {
	network, ok := networkOf(name)
	switch {
	case !ok:
		return []string{name, name}
	case network.Addr().Is6():
		return []string{widen(network, 48), widen(network, 32)}
	}
	return []string{widen(network, 24), widen(network, 16)}
}
