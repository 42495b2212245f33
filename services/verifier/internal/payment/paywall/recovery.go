package paywall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// again gives what an earlier payment with the same identifier has bought. The
// new authorization is not spent: no check, no claim and no write.
func (w *Paywall) again(ctx context.Context, f *flight, c *call, first payment.Record) (Sale, error) {
	if first.Request != c.Request {
		return Sale{}, payment.ErrIdentifier
	}
	return w.comeBack(ctx, f, c, first)
}

// comeBack gives a buyer who returns what his payment is worth by now. Only an
// answer that is there costs nothing.
func (w *Paywall) comeBack(ctx context.Context, f *flight, c *call, r payment.Record) (Sale, error) {
	if r.State != payment.Settled || r.Answer == nil {
		if err := w.spendAddress(c); err != nil {
			return Sale{}, err
		}
	}
	return w.resume(ctx, f, c.Order, r)
}

// lookPause is the time between two looks at the chain for a payment that is dead.
const lookPause = time.Minute

// openLookPause is the time between two looks for a payment that is open although its
// authorization has ended: nothing new is made for it, and the reconciler looks too.
const openLookPause = 10 * time.Second

// maxRecent bounds the payments whose last look is remembered.
const maxRecent = 10_000

// recent remembers, in one process, when open payments were looked at.
type recent struct {
	mu sync.Mutex
	at map[payment.Key]time.Time
}

// look reports whether a payment may be looked at now, and remembers that it was.
func (r *recent) look(key payment.Key, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, ok := r.at[key]; ok && now.Sub(last).Abs() < openLookPause {
		return false
	}
	if r.at == nil || len(r.at) >= maxRecent {
		r.at = map[payment.Key]time.Time{}
	}
	r.at[key] = now
	return true
}

// resume gives a buyer who returns with a payment what it is worth by now.
func (w *Paywall) resume(ctx context.Context, f *flight, o Order, r payment.Record) (Sale, error) {
	switch r.State {
	case payment.Settled:
	case payment.Dead:
		// The facilitator said no, or its transaction failed. Somebody may have
		// carried it out since, and then it is paid. What the chain has said for
		// good is not asked for again, and the rest not often.
		if w.ChainLog == nil || r.Reason == payment.ReasonExpired || r.Reason == payment.ReasonUsedElsewhere {
			return w.sale(r)
		}
		look, err := w.Ledger.Look(ctx, r.Key, w.Now().Add(-lookPause))
		if err != nil {
			return Sale{}, ledgerFault(err)
		}
		if !look {
			return w.sale(r)
		}
		outcome := w.reconcileWithChain(ctx, payment.Outcome{State: payment.Dead, Reason: r.Reason}, r)
		if outcome.State == payment.Dead && outcome.Reason == r.Reason {
			return w.sale(r)
		}
		if sale, err := w.finish(context.WithoutCancel(ctx), r, outcome); err != nil {
			return sale, err
		}
		r.State, r.Transaction = payment.Settled, outcome.Transaction
	case payment.Unknown:
		return w.reconcile(ctx, f, o, r)
	default:
		return Sale{}, payment.ErrInFlight
	}
	if r.Answer == nil { // pruned: it was paid, so it is made anew
		var err error
		if r.Answer, err = w.rework(ctx, o); err != nil {
			return Sale{}, err
		}
	}
	sale, err := w.sale(r)
	sale.again = err == nil
	return sale, err
}

func (w *Paywall) rework(ctx context.Context, o Order) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, w.WorkTimeout)
	defer cancel()
	return work(ctx, o)
}

// reconcile finds out what became of a settlement whose outcome is open, for a
// buyer who wants the answer. As long as the authorization is unspent and good,
// settling it again is what they asked for, though not at once and not for ever;
// the payment makes the same request of the facilitator as it did before, unless
// the terms have changed since.
func (w *Paywall) reconcile(ctx context.Context, f *flight, o Order, r payment.Record) (Sale, error) {
	open := payment.Outcome{State: payment.Unknown, Transaction: r.Transaction, Reason: r.Reason}
	if w.Now().After(r.ValidBefore) && !w.recent.look(r.Key, w.Now()) {
		return w.sale(r)
	}
	outcome := w.reconcileWithChain(ctx, open, r)
	if outcome.State != payment.Unknown {
		return w.finish(context.WithoutCancel(ctx), r, outcome)
	}
	changed := w.Now().Sub(r.Changed)
	early := changed >= 0 && changed < askPause // a moment still to come was told by a clock that was ahead
	mayAsk := r.Key == o.Payment.Key && o.misfit == nil && w.mayRepeat(r) && !early
	if !mayAsk || !f.pin() {
		return w.sale(r)
	}
	ctx = context.WithoutCancel(ctx)
	call, err := o.Offer.FacilitatorRequest(o.Payment)
	if err != nil {
		return Sale{}, err
	}
	repeats := r.Repeats
	outcome = w.askAgain(ctx, open, &r, call)
	if r.Repeats == repeats {
		return w.sale(r)
	}
	return w.finish(ctx, r, outcome)
}

const (
	// maxRepeats bounds how often the facilitator is asked again for one payment,
	// and askPause is the time between two such calls of its buyer.
	maxRepeats = 5
	askPause   = 5 * time.Second
)

// mayRepeat reports whether a settling may be asked for again at all: the
// authorization is still good, and it was not asked for too often.
func (w *Paywall) mayRepeat(r payment.Record) bool {
	return r.Repeats < maxRepeats && r.ValidBefore.After(w.Now().Add(payment.SettleMargin))
}

// askAgain has a settling carried out once more whose outcome, open, is not known.
// It may be a transaction more, so it reserves a settlement more; where that cannot
// be had, the outcome stays as it is. Of those that are kept it takes none for who
// has never paid, whatever the signature: an outcome that is left open costs nothing.
func (w *Paywall) askAgain(ctx context.Context, open payment.Outcome, r *payment.Record, call []byte) payment.Outcome {
	if !w.mayRepeat(*r) {
		return open
	}
	again := payment.Repeat{Repeats: r.Repeats, Month: payment.Month(w.Now()), Limit: w.FreeSettlements, Kept: w.kept()}
	if err := w.repeat(ctx, r.Key, again); err != nil {
		w.Log.Warn("a settling is not asked for again", "error", err)
		return open
	}
	w.reserved(again.Month)
	r.Repeats++
	r.Changed = w.Now()
	said, _ := w.ask(ctx, *r, call) // it has heeded the error
	known := cmp.Or(open.Transaction, r.Transaction)
	echo := said.Echo && (said.Transaction == "" || said.Transaction == known)
	outcome := w.confirmOutcome(ctx, mergeRetry(open, said), *r)
	outcome.Echo = echo
	return outcome
}

func (w *Paywall) repeat(ctx context.Context, key payment.Key, r payment.Repeat) error {
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	return w.Ledger.Repeat(ctx, key, r)
}

// second judges the answer to a repeated settling: a yes is a yes, but a no may
// be the echo of the first one's success.
func mergeRetry(first, again payment.Outcome) payment.Outcome {
	if again.State == payment.Settled {
		return again
	}
	if first.Transaction == "" {
		first.Transaction = again.Transaction
	}
	return first
}

// chainLogTimeout bounds one look at the chain.
const chainLogTimeout = 10 * time.Second

// reconcileWithChain lets the chain correct what the facilitator said, or did not say.
func (w *Paywall) reconcileWithChain(ctx context.Context, o payment.Outcome, r payment.Record) payment.Outcome {
	r.Transaction = cmp.Or(o.Transaction, r.Transaction)
	found, err := w.found(ctx, r)
	switch {
	case err != nil || found.Status == payment.Unused:
		return o
	case found.Status == payment.PaidToUs:
		return payment.Outcome{State: payment.Settled, Transaction: found.Transaction}
	case found.Status == payment.UsedElsewhere:
		return payment.Outcome{State: payment.Dead, Transaction: o.Transaction, Reason: payment.ReasonUsedElsewhere}
	case found.Status == payment.Reverted && r.Repeats > 0:
		return o // another transaction may have been made than the one that failed
	case found.Status == payment.Reverted:
		return payment.Outcome{State: payment.Dead, Transaction: o.Transaction, Reason: payment.ReasonReverted}
	default:
		return payment.Outcome{State: payment.Dead, Transaction: o.Transaction, Reason: payment.ReasonExpired, Unsent: true}
	}
}

var errNoChainLog = errors.New("no node of the payment network is configured")

func (w *Paywall) found(ctx context.Context, r payment.Record) (payment.Authorization, error) {
	if w.ChainLog == nil {
		return payment.Authorization{}, errNoChainLog
	}
	ctx, cancel := context.WithTimeout(ctx, chainLogTimeout)
	defer cancel()
	found, err := w.ChainLog.Authorization(ctx, r.Query())
	if err != nil {
		w.Log.Warn("cannot read the payment network", "error", err)
	}
	return found, err
}

// release forgets the claim, so that the payment may be used again. What cannot
// be written now is owed.
func (w *Paywall) release(ctx context.Context, r payment.Record) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ledgerTimeout)
	defer cancel()
	if err := w.Ledger.Release(ctx, r.Key, w.owner); err != nil {
		w.Log.Error("cannot release a claim", "error", err)
		w.deferWrite(r.Key, pendingWrite{until: r.Deadline, write: func(ctx context.Context) error { return w.Ledger.Release(ctx, r.Key, w.owner) }})
	}
}

// maxPending bounds what is remembered while the ledger cannot be written.
const maxPending = 10_000

// debts are ends of sales that the ledger could not be told: its disk was full,
// or it was away. The records look as if this process still worked on them, and
// would keep their buyers out until the deadline.
type pendingWrites struct {
	mu  sync.Mutex
	all map[payment.Key]pendingWrite
}

// debt is one write. After until the record is anybody's, and is left alone.
type pendingWrite struct {
	until time.Time
	write func(context.Context) error
}

// owe remembers a write that has failed.
func (w *Paywall) deferWrite(key payment.Key, d pendingWrite) {
	w.pending.mu.Lock()
	defer w.pending.mu.Unlock()
	if w.pending.all == nil {
		w.pending.all = map[payment.Key]pendingWrite{}
	}
	if len(w.pending.all) < maxPending {
		w.pending.all[key] = d
	}
}

// retryPending makes the write that is owed for a payment, if there is one, before
// anything else is done for it.
func (w *Paywall) retryPending(ctx context.Context, key payment.Key) error {
	w.pending.mu.Lock()
	d, owed := w.pending.all[key]
	delete(w.pending.all, key)
	w.pending.mu.Unlock()
	if !owed || !w.Now().Before(d.until) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ledgerTimeout)
	defer cancel()
	if err := d.write(ctx); err != nil {
		w.deferWrite(key, d)
		return ledgerFault(err)
	}
	return nil
}

// retryAllPending makes the writes that are owed for payments that nobody comes back
// with, until one fails.
func (w *Paywall) retryAllPending(ctx context.Context) {
	w.pending.mu.Lock()
	keys := make([]payment.Key, 0, len(w.pending.all))
	for key := range w.pending.all {
		keys = append(keys, key)
	}
	w.pending.mu.Unlock()
	for _, key := range keys {
		if ctx.Err() != nil || w.retryPending(ctx, key) != nil {
			return
		}
	}
}

// Intervals of the upkeep.
const (
	reconcileEvery = 5 * time.Second
	// reconcileBatch is how many payments are looked at at once.
	reconcileBatch = 20
	// nextLook is when a payment that could not be decided is looked at again.
	nextLook   = 30 * time.Second
	pruneEvery = time.Hour
	checkEvery = time.Minute
	// checkBatch is how many payments that have ended are looked at in one pass.
	checkBatch = 100
	// checkAfter is the age at which a payment that has ended is looked at once
	// more: by then its block is final on every network that payments are made on.
	checkAfter = time.Hour
	// checkWithin bounds how long a payment of which the chain says nothing holds up
	// those after it.
	checkWithin = 24 * time.Hour
)

// Run finishes what is left open, and prunes, until ctx ends. Looks that take
// long do not keep the next round waiting.
func (w *Paywall) Run(ctx context.Context) {
	pruned, checked := time.Time{}, time.Time{}
	var looking sync.WaitGroup
	defer looking.Wait()
	every(ctx, reconcileEvery, func() {
		looking.Go(func() { w.Reconcile(ctx) })
		w.retryAllPending(ctx)
		now := w.Now()
		if now.Sub(checked) >= checkEvery {
			checked = now
			looking.Go(func() { w.Check(ctx) })
		}
		if now.Sub(pruned) >= pruneEvery {
			pruned = now
			w.prune(ctx)
		}
	})
}

// Reconcile looks once for the truth of payments whose outcome is open, those
// that are due for longest first, as many at once as looks allows. It only looks:
// nobody waits for these, so nobody is charged by it.
func (w *Paywall) Reconcile(ctx context.Context) {
	if w.ChainLog == nil {
		return
	}
	free := w.looks.take()
	due := w.due(ctx, free)
	w.looks.give(free - len(due))
	more := len(due) == free
	var all sync.WaitGroup
	for _, first := range due {
		all.Go(func() {
			defer w.looks.give(1)
			for mine := []payment.Record{first}; len(mine) > 0 && ctx.Err() == nil; {
				if w.lookAt(ctx, mine[0]); !more {
					return
				}
				mine = w.due(ctx, 1)
			}
		})
	}
	all.Wait()
}

// due gives at most so many payments to look at.
func (w *Paywall) due(ctx context.Context, limit int) []payment.Record {
	if limit == 0 {
		return nil
	}
	due, err := w.Ledger.Due(ctx, limit, w.Now().Add(nextLook))
	if err != nil && ctx.Err() == nil {
		w.Log.Error("cannot list open payments", "error", err)
	}
	return due
}

// lookAt ends an open payment as the chain says.
func (w *Paywall) lookAt(ctx context.Context, r payment.Record) {
	outcome := w.reconcileWithChain(ctx, payment.Outcome{State: payment.Unknown}, r)
	if outcome.State == payment.Unknown || ctx.Err() != nil {
		return
	}
	if _, err := w.Ledger.Finish(ctx, r.Key, outcome); err != nil {
		w.Log.Error("cannot write what the chain says of a payment", "error", err)
		return
	}
	w.quota.stale()
	w.Ended("reconciled_" + string(outcome.State))
	w.Log.Info("the chain has decided an open payment", "state", outcome.State, "reason", outcome.Reason,
		"payer", r.Key.Payer, "transaction", outcome.Transaction)
}

// Check holds payments that have ended against the chain once more, when their
// blocks are final: one that was settled by a transfer that the chain has lost since
// is open again, and one that was paid after it had ended is settled. A chain that
// cannot be asked is asked again a minute later, for up to a day.
func (w *Paywall) Check(ctx context.Context) {
	if w.ChainLog == nil {
		return
	}
	for ctx.Err() == nil {
		now := w.Now()
		ended, err := w.Ledger.Ended(ctx, now.Add(-checkAfter), checkBatch, now.Add(checkEvery+checkBatch/checkAtOnce*chainLogTimeout))
		if err != nil {
			w.Log.Error("cannot list the payments that have ended", "error", err)
			return
		}
		if len(ended) == 0 {
			return
		}
		passed := w.checkAll(ctx, ended)
		upTo := ended[len(ended)-1].Claimed
		if passed < len(ended) { // it comes again, with those of the same moment
			upTo = ended[passed].Claimed.Add(-time.Millisecond)
		}
		if err := w.Ledger.Checked(context.WithoutCancel(ctx), upTo); err != nil {
			w.Log.Error("cannot remember which payments were looked at", "error", err)
			return
		}
		if passed < len(ended) || len(ended) < checkBatch {
			return
		}
	}
}

// checkAtOnce is how many payments that have ended are looked at at once.
const checkAtOnce = 4

// checkAll looks at payments and returns how many, from the first, need no further
// look.
func (w *Paywall) checkAll(ctx context.Context, ended []payment.Record) int {
	failed := make([]bool, len(ended))
	var all errgroup.Group
	all.SetLimit(checkAtOnce)
	for i, r := range ended {
		all.Go(func() error {
			failed[i] = !w.checkOne(ctx, r)
			return nil
		})
	}
	_ = all.Wait() // none fails
	if first := slices.Index(failed, true); first >= 0 {
		return first
	}
	return len(ended)
}

// checkOne reports whether a payment that has ended needs no further look.
func (w *Paywall) checkOne(ctx context.Context, r payment.Record) bool {
	if r.State == payment.Dead && (r.Reason == payment.ReasonExpired || r.Reason == payment.ReasonUsedElsewhere) {
		return true // the chain has said so for good
	}
	found, err := w.found(ctx, r)
	switch {
	case err != nil && w.Now().Sub(r.Claimed) < checkAfter+checkWithin:
		return false
	case err != nil:
		w.Log.Error("cannot hold a payment against the chain", "state", r.State, "payer", r.Key.Payer, "nonce", r.Key.Nonce, "error", err)
		return true
	case r.State == payment.Settled && found.Status == payment.Unused && w.Now().Sub(r.Claimed) < checkAfter+checkWithin:
		return false // by now the authorization is over: the node is behind, and has lost nothing
	}
	var end string
	switch {
	case r.State == payment.Dead && found.Status == payment.PaidToUs:
		end = "reconciled_settled"
		_, err = w.Ledger.Finish(ctx, r.Key, payment.Outcome{State: payment.Settled, Transaction: found.Transaction})
	case r.State == payment.Settled && found.Status != payment.PaidToUs:
		end = "reopened"
		w.Log.Error("the chain has lost a transfer", "payer", r.Key.Payer, "nonce", r.Key.Nonce, "transaction", r.Transaction)
		err = w.Ledger.Reopen(ctx, r.Key, payment.ReasonVanished)
	default:
		return true
	}
	if errors.Is(err, payment.ErrLost) {
		return true // it has changed meanwhile
	}
	if err != nil {
		w.Log.Error("cannot write what the chain says of a payment", "error", err)
		return false
	}
	w.quota.stale()
	w.Ended(end)
	return true
}

// slots bound how much is done at once.
type slots struct {
	mu    sync.Mutex
	taken int
}

// take takes all that are free and returns how many.
func (s *slots) take() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	free := reconcileBatch - s.taken
	s.taken = reconcileBatch
	return free
}

func (s *slots) give(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken -= n
}

func (w *Paywall) prune(ctx context.Context) {
	if err := w.Ledger.Prune(ctx, w.Now().Add(-w.KeepAnswers)); err != nil && ctx.Err() == nil {
		w.Log.Error("cannot prune the ledger", "error", err)
	}
}

// ErrContradicted means that the chain, or the clock, says otherwise than a resolution.
var ErrContradicted = errors.New("resolution is contradicted")

// Resolve decides an Unknown payment by hand, unless the chain contradicts. truth
// may be nil. It returns what the chain said: "not asked", or why it could not tell,
// which is no contradiction.
func Resolve(ctx context.Context, ledger payment.Ledger, truth payment.ChainLog, now time.Time, r payment.Record, how payment.Resolution) (chain string, err error) {
	if how.State == payment.Settled && !payment.IsTransaction(how.Transaction) {
		return "", errors.New("a settled payment needs the hash of its transaction")
	}
	if how.State == payment.Dead && !now.After(r.ValidBefore) {
		return "", fmt.Errorf("%w: the authorization can be spent until %s", ErrContradicted, r.ValidBefore.Format(time.RFC3339))
	}
	if chain, how.Unsent, err = contradiction(ctx, truth, r, how); err != nil {
		return chain, err
	}
	return chain, ledger.Resolve(ctx, r.Key, how)
}

// contradiction asks the chain. unsent reports that it says for good that nothing was spent.
func contradiction(ctx context.Context, truth payment.ChainLog, r payment.Record, how payment.Resolution) (chain string, unsent bool, err error) {
	if truth == nil {
		return "not asked", false, nil
	}
	found, err := truth.Authorization(ctx, r.Query())
	switch {
	case err != nil:
		return err.Error(), false, nil
	case found.Status == payment.PaidToUs && how.State == payment.Dead:
		return "", false, fmt.Errorf("%w: it was paid by %s", ErrContradicted, found.Transaction)
	case found.Status == payment.PaidToUs && found.Transaction != how.Transaction:
		return "", false, fmt.Errorf("%w: it was paid by %s, not %s", ErrContradicted, found.Transaction, how.Transaction)
	case found.Status != payment.PaidToUs && how.State == payment.Settled:
		return "", false, fmt.Errorf("%w: the chain shows no payment", ErrContradicted)
	}
	return "agrees", found.Status == payment.Expired, nil
}
