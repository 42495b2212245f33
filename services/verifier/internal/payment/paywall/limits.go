package paywall

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// quota is what this process knows of the month's free settlements, so that it can reject calls
// early. The ledger alone decides whether one is left.
type quota struct {
	mu     sync.Mutex
	month  string
	status payment.QuotaStatus
	readAt time.Time
	// reading reports that the ledger is being read; changes counts what makes the
	// result stale before it arrives.
	reading bool
	changes int
	// warned is the month for which the warning was logged.
	warned string
	// closedUntil is when sales open again after the facilitator has reached its own limit.
	closedUntil time.Time
}

const (
	// quotaAge is after how long the status of the month is read again.
	quotaAge = time.Second
	// facilitatorPause is for how long sales are closed when a facilitator at its own limit sends
	// no Retry-After.
	facilitatorPause = time.Minute
)

// CheckQuota returns nil, or ErrLimit when the month has no settlement left or the facilitator is
// at its own limit, as far as this process knows, or ErrLedger.
func (w *Paywall) CheckQuota(ctx context.Context) error {
	q := &w.quota
	now := w.Now()
	month := payment.Month(now)
	if err := w.refresh(ctx, now, month); err != nil {
		return errors.Join(payment.ErrLedger, err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.month == month && q.status.Reserved >= w.FreeSettlements:
		return payment.ErrLimit
	case now.Before(q.closedUntil):
		return &payment.LaterError{Err: payment.ErrLimit, After: q.closedUntil.Sub(now)}
	}
	return nil
}

// refresh reads the month's status when what is known is old. One caller reads;
// others go on with what is known.
func (w *Paywall) refresh(ctx context.Context, now time.Time, month string) error {
	q := &w.quota
	q.mu.Lock()
	if q.reading || (q.month == month && now.Sub(q.readAt) < quotaAge) {
		q.mu.Unlock()
		return nil
	}
	q.reading = true
	changes := q.changes
	q.mu.Unlock()

	status, err := w.Ledger.QuotaStatus(ctx, month)

	q.mu.Lock()
	defer q.mu.Unlock()
	q.reading = false
	if err != nil {
		return err
	}
	q.month, q.status = month, status
	if q.readAt = now; q.changes != changes {
		q.readAt = time.Time{}
	}
	w.warn(q)
	return nil
}

// warn logs, once a month, that at least four fifths are used. q is locked.
func (w *Paywall) warn(q *quota) {
	if q.status.Reserved*5 >= w.FreeSettlements*4 && q.warned != q.month {
		q.warned = q.month
		w.Log.Warn("four fifths of the month's free settlements are used",
			"month", q.month, "used", q.status.Reserved, "limit", w.FreeSettlements)
	}
}

// Quota returns the status of the month as this process knows it, how many settlements it has
// left, and how long ago the oldest of the unknown payments was claimed; zero without one.
func (w *Paywall) Quota(ctx context.Context) (s payment.QuotaStatus, left int, oldest time.Duration) {
	now := w.Now()
	_ = w.refresh(ctx, now, payment.Month(now)) // what cannot be read stays as it was
	w.quota.mu.Lock()
	defer w.quota.mu.Unlock()
	s = w.quota.status
	if !s.Oldest.IsZero() {
		oldest = now.Sub(s.Oldest)
	}
	return s, max(0, w.FreeSettlements-s.Reserved), oldest
}

// countReserved counts a settlement that this process has just reserved, so that the
// ledger need not be read for it.
func (w *Paywall) countReserved(month string) {
	q := &w.quota
	q.mu.Lock()
	defer q.mu.Unlock()
	q.changes++
	if q.month == month {
		q.status.Reserved++
		w.warn(q)
	}
}

// stale makes what is known old, so that the ledger is read again.
func (q *quota) stale() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.changes++
	q.readAt = time.Time{}
}

// pause closes sales for a while, because the facilitator answered with its own limit, err, and
// returns for how long.
func (q *quota) pause(now time.Time, err error) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	until := now.Add(cmp.Or(retryAfter(err), facilitatorPause))
	if until.After(q.closedUntil) {
		q.closedUntil = until
	}
	return q.closedUntil.Sub(now)
}

// paused returns for how long the facilitator, at its own limit, is not to be called.
func (q *quota) paused(now time.Time) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return max(0, q.closedUntil.Sub(now))
}

// retryAfter returns for how long the facilitator wants no calls, or zero.
func retryAfter(err error) time.Duration {
	var later *payment.LaterError
	if errors.As(err, &later) {
		return later.After
	}
	return 0
}

// keptShare is the part, in tenths, of the month's free settlements that is kept
// for known payers.
const keptShare = 3

// kept returns how many of the month's free settlements are kept for known payers, rounded down: of
// one, two or three none is kept.
func (w *Paywall) kept() int { return w.FreeSettlements * keptShare / 10 }

// How many settlements payers who are not known may waste: in percent of the month's free ones,
// and at least so many, so that a small month can be sold too.
const (
	lostInADay, leastInADay     = 2, 3
	lostInAMonth, leastInAMonth = 10, 6
)

// caps returns today's bounds of settlements that fail. That of the network around an
// address is twice that of an address.
func (w *Paywall) caps() payment.Caps {
	now := w.Now()
	share := func(percent, least int) int { return max(least, (w.FreeSettlements*percent+99)/100) }
	return payment.Caps{
		Since: payment.Day(now), MonthSince: payment.NextMonth(now).AddDate(0, -1, 0),
		Payer: w.FailuresPerPayer, Client: w.FailuresPerAddress, Around: 2 * w.FailuresPerAddress,
		Strangers: share(lostInADay, leastInADay), StrangersMonth: share(lostInAMonth, leastInAMonth),
	}
}

// checkHistory returns an error for a payer, a client or strangers too many of whose
// settlements have failed, and for a payer who is not known, when what is left of the
// month is not for them.
func (w *Paywall) checkHistory(ctx context.Context, c *call) error {
	refused, err := w.recognize(ctx, c)
	switch {
	case err != nil:
		return err
	case refused != nil:
		return w.tomorrow(refused)
	case c.hasPaid:
		return nil
	}
	w.quota.mu.Lock()
	defer w.quota.mu.Unlock()
	if w.quota.month == payment.Month(w.Now()) && w.quota.status.Reserved >= w.FreeSettlements-w.kept() {
		return payment.ErrLimit
	}
	return nil
}

// recognize sets c.hasPaid, and returns as refused why the caps refuse the payer, if they do.
func (w *Paywall) recognize(ctx context.Context, c *call) (refused, err error) {
	caps := w.caps()
	of := payment.Record{Key: c.Payment.Key, Plain: c.plain, Client: c.client, Around: c.around}
	history, err := w.Ledger.History(ctx, of, caps)
	if err != nil {
		return nil, ledgerFault(err)
	}
	c.hasPaid = caps.Knows(history)
	return caps.Refuse(history), nil
}

// tomorrow returns ErrFailing or ErrStrangers as a refusal until the next day (UTC), and ErrStrangers
// as ErrLimit, because what strangers may use up is a part of the month.
func (w *Paywall) tomorrow(err error) error {
	if errors.Is(err, payment.ErrStrangers) {
		err = payment.ErrLimit
	}
	return w.untilTomorrow(err)
}

// untilTomorrow returns err in a payment.LaterError that ends with the day (UTC).
func (w *Paywall) untilTomorrow(err error) error {
	now := w.Now()
	return &payment.LaterError{Err: err, After: payment.Day(now).Add(24 * time.Hour).Sub(now)}
}

// client returns the names that the ledger has, on one day, for an address and for the
// network around it. An IPv6 /56, which is what an access line is assigned, is one client,
// since its /64s cost nothing. The network around is an IPv6 /48 or IPv4 /24.
func (w *Paywall) client(address string) (client, around string) {
	network, ok := networkOf(address)
	switch {
	case address == "":
		return "", ""
	case !ok:
		return w.token(address), ""
	case network.Addr().Is4():
		return w.token(address), w.token(widen(network, 24))
	}
	return w.token(widen(network, 56)), w.token(widen(network, 48))
}

// networkOf reads an address or a network; false for any other text.
func networkOf(text string) (netip.Prefix, bool) {
	if network, err := netip.ParsePrefix(text); err == nil {
		return network, true
	}
	addr, err := netip.ParseAddr(text)
	return netip.PrefixFrom(addr, addr.BitLen()), err == nil
}

// widen names the network of so many bits around another one, or that one where it is wider.
func widen(network netip.Prefix, bits int) string {
	return netip.PrefixFrom(network.Addr(), min(bits, network.Bits())).Masked().String()
}

// token returns a keyed hash that names a client, or a network, today.
func (w *Paywall) token(client string) string {
	mac := hmac.New(sha256.New, w.ClientKey)
	mac.Write([]byte(payment.Day(w.Now()).Format(time.DateOnly) + " " + client))
	return hex.EncodeToString(mac.Sum(nil)[:8])
}

// Bounds of what is done at one time for payers of whom little is known, so that it
// leaves capacity for the others.
const (
	// maxUnknownPayers bounds the work for payers who are not known and whose payment was verified
	// before it: a quarter of the blocks that package chain/rpc reads at once.
	maxUnknownPayers = 4
	// maxBeside bounds the work beside the facilitator's verification, for payers who are not
	// known: half of those blocks. To make a new payer costs nothing, so there may be any number of
	// them.
	maxBeside = 8
	// maxChecks bounds the checks before a claim, for strangers and for those who name a known payer each:
	// together a quarter of the connections that facilitator.Client has for checks. A contract may take as
	// long as the timeout, and anyone may deploy one.
	maxChecks = 32
	// maxAccounts bounds the questions to the payment network's nodes about accounts and about
	// payments in no record, for strangers, for those who name a known payer and for known payers
	// each; accountTimeout how long one about an account may take with its wait.
	maxAccounts    = 16
	accountTimeout = 2 * time.Second
	// maxCopies is how many calls with one payment wait for its answer for Options.Answer; each further one
	// waits for Options.Patience. All of them are one attempt, and each takes a place at the proxy.
	maxCopies = 8
)

// checkAccount refuses, before the facilitator is called or any work is done, a payer who has not
// the amount, an authorization that is spent, and a signature that no contract can be asked about.
// Known payers who sign with their own key are not looked up. What the node does not answer, the
// facilitator decides.
func (w *Paywall) checkAccount(ctx context.Context, c *call) error {
	if w.Accounts == nil || c.account != nil || c.isKnown() {
		return nil
	}
	shared := w.budgetsOf(c)
	if err := w.spendShared(c, shared.accounts, w.accountsNear); err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, accountTimeout)
	defer cancel()
	if shared.looking.Acquire(waiting, 1) != nil {
		return cmp.Or(ctx.Err(), payment.ErrInFlight)
	}
	account, err := w.Accounts.Account(waiting, c.Payment.Key, c.Offer.Terms.Amount)
	shared.looking.Release(1)
	if err != nil {
		w.Log.Warn("cannot read a payer's account in the payment network", "error", err)
		return ctx.Err()
	}
	c.account = &account
	refused := func(reason string) error { return &payment.Refusal{Of: payment.ErrRefused, Reason: reason} }
	switch {
	case account.Used:
		return refused(x402.ReasonNonceAlreadyUsed)
	case !c.plain && !account.Code && !c.Payment.DeploysWallet():
		return refused(x402.ReasonInvalidSignature)
	case !account.Funded:
		return refused(x402.ReasonInsufficientFunds)
	}
	return nil
}

// settlementQueue is a queue of settlements that wait until others have ended.
type settlementQueue struct {
	mu    sync.Mutex
	queue []*waiter
}

type waiter struct {
	payer, client string
	// stranger reports that the payer is not known: strangers wait for each other too.
	stranger bool
	wake     chan struct{}
}

// queuePause is how long, up to twice that, a settlement in the queue waits between two looks
// whether it is first: it does not learn of those that end in other processes.
const queuePause = 200 * time.Millisecond

// firstOfClient is how many waiting settlements of one client may try again without being woken,
// and firstOfStrangers how many of payers who are not known. Of the latter, maxWaiting may wait.
const (
	firstOfClient    = 4
	firstOfStrangers = 8
	maxWaiting       = 256
)

// wait returns nil when Begin may be tried again, ErrInFlight when ctx ends before, and ErrLimit
// in a payment.LaterError when too many strangers wait. The first pause is short: one may have
// ended just before this one was queued.
func (c *settlementQueue) wait(ctx context.Context, w *waiter) error {
	w.wake = make(chan struct{}, 1)
	if !c.join(w) {
		return &payment.LaterError{Err: payment.ErrLimit, After: strangersPause}
	}
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.queue = slices.DeleteFunc(c.queue, func(other *waiter) bool { return other == w })
	}()
	for pause := queuePause / 10; ; pause = queuePause {
		select {
		case <-w.wake:
			return nil
		case <-time.After(pause + rand.N(pause)): //nolint:gosec // a pause, no secret
			if c.first(w) {
				return nil
			}
		case <-ctx.Done():
			return payment.ErrInFlight
		}
	}
}

// strangersPause is after how long a payer who is not known may try again when too many of them
// wait.
const strangersPause = 5 * time.Second

// join puts w into the queue and returns true, unless w is a stranger's and maxWaiting of those wait.
func (c *settlementQueue) join(w *waiter) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	strangers := 0
	for _, other := range c.queue {
		if other.stranger {
			strangers++
		}
	}
	if w.stranger && strangers >= maxWaiting {
		return false
	}
	c.queue = append(c.queue, w)
	return true
}

// first reports whether w may try again without being woken: it is the first of its payer in the
// queue, one of the first firstOfClient of its client and, if it is a stranger's, one of the first
// firstOfStrangers of strangers. Strangers of the same client do not count before a known payer. If
// all tried again, the ledger would do little else.
func (c *settlementQueue) first(w *waiter) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, strangers := 0, 0
	for _, other := range c.queue {
		if other == w {
			return true
		}
		if w.stranger && other.stranger {
			if strangers++; strangers == firstOfStrangers {
				return false
			}
		}
		switch {
		case other.payer == w.payer:
			return false
		case other.client == w.client:
			if !w.stranger && other.stranger {
				continue // the bound of a client is for those who are not known
			}
			if before++; before == firstOfClient {
				return false
			}
		}
	}
	return true
}

// wake takes the next n of the payer or the client from the queue, and ends their waiting.
func (c *settlementQueue) wake(n int, payer, client string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = slices.DeleteFunc(c.queue, func(w *waiter) bool {
		if n == 0 || (w.payer != payer && w.client != client) {
			return false
		}
		n--
		w.wake <- struct{}{}
		return true
	})
}

// spendAddress takes n attempts from the client's address, once in a call. A known payer has as many
// of their own there: hosted agents share an address.
func (w *Paywall) spendAddress(c *call, n int) (err error) {
	switch {
	case c.refundAddress != nil:
	case c.isKnown():
		c.refundAddress, err = w.known.spendMany(c.Payment.Key.Payer+" "+c.Address, w.AttemptsPerAddress, n)
	default:
		c.refundAddress, err = w.clients.spendMany(c.Address, w.AttemptsPerAddress, n)
	}
	return err
}

// CountFree takes an attempt from a client's address for a call that costs work and is
// never paid. It returns ErrTooMany when there is none left.
func (w *Paywall) CountFree(address string) error {
	_, err := w.clients.spend(address, w.AttemptsPerAddress)
	return err
}

// lookupsPerSecond and lookupsAtOnce bound the free questions about the state of transactions that nodes
// have to answer. A network has half of both: lookupsOfNetwork in a lookupWindow.
const (
	lookupsPerSecond, lookupsAtOnce = 2, 30

	lookupsOfNetwork = lookupsAtOnce / networkShare
	lookupWindow     = lookupsAtOnce / lookupsPerSecond * time.Second
)

// CountLookup takes one of the free questions that all clients share, and of those that the network around
// an address may ask. They are apart from attempts at buying. It returns ErrTooMany when there is none left.
func (w *Paywall) CountLookup(address string) error {
	refund, err := w.lookupsNear.spend(address, lookupsOfNetwork)
	if err == nil && w.lookups.spend() > 0 {
		refund() // others have taken it
		err = payment.ErrTooMany
	}
	return err
}

// spender names the payer where attempts and reuses are counted. Copies that are not plain are
// counted apart: a facilitator may call valid what anyone has made.
func (c *call) spender() string {
	if c.plain {
		return c.Payment.Key.Payer
	}
	return c.Payment.Key.Payer + "+"
}

// spendPayer takes an attempt for each question from the payer, once in a call. It is for payments
// that the payer's key signed or the facilitator has verified.
func (w *Paywall) spendPayer(c *call) (err error) {
	if c.refundPayer == nil {
		c.refundPayer, err = w.payers.spendMany(c.spender(), w.AttemptsPerPayer, c.Questions)
	}
	return err
}

func (c *call) refund() {
	for _, refund := range []*func(){&c.refundAddress, &c.refundPayer} {
		if *refund != nil {
			(*refund)()
			*refund = nil
		}
	}
	for _, refund := range c.refunds {
		refund()
	}
	c.refunds = nil
}

// attempts counts attempts that cost the service or the facilitator something and are not paid, in
// fixed windows. It lives in the memory of one process: each replica allows the whole number.
//
// Its memory is bounded. Where no more names can be counted one by one, newcomers are counted by a
// group around them, and at last in a bucket of many. So an attacker who fills the counts takes
// attempts only from newcomers.
type attempts struct {
	now    func() time.Time
	window time.Duration
	// groups names what is counted, then the groups around it, the narrower ones first.
	groups func(name string) []string
	seed   maphash.Seed

	mu    sync.Mutex
	index int64
	// counts are of the names that groups returns, by their place in its result. Those in
	// the last place are hashed into buckets. A count of zero is not kept.
	counts [3]map[string]int
}

// attemptWindow is the window of all attempts but free lookups (lookupWindow) and those that count
// for a day.
const attemptWindow = time.Minute

// How many names are counted at a time in attempts.counts: in the first place, in the
// second unless it is the last, and in the last.
const (
	maxCounted  = 100_000
	maxNetworks = 10_000
	maxBuckets  = 1024
)

// widerBy is the limit of a group as a multiple of that of a name in it.
const widerBy = 16

func newAttempts(now func() time.Time, window time.Duration, groups func(name string) []string) *attempts {
	a := &attempts{now: now, window: window, groups: groups, seed: maphash.MakeSeed()}
	for i := range a.counts {
		a.counts[i] = map[string]int{}
	}
	return a
}

// networksAround names an address, or the IPv6 /64 that package clientaddr takes for one, and two
// networks around it: IPv6 /48 and /32, IPv4 /16 and /8.
func networksAround(name string) []string {
	network, ok := networkOf(name)
	switch {
	case !ok:
		return []string{name, name, name}
	case network.Addr().Is6():
		return []string{name, widen(network, 48), widen(network, 32)}
	}
	return []string{name, widen(network, 16), widen(network, 8)}
}

// onePayer names a payer, who is in no group: anyone can make accounts, and their addresses do not
// show which belong together.
func onePayer(name string) []string { return []string{name, name} }

func (a *attempts) spend(name string, limit int) (refund func(), err error) {
	return a.spendMany(name, limit, 1)
}

// spendMany takes n of the limit attempts of a window in one step; where the limit is smaller than
// n, all of them. refund gives them back, and does nothing once the window is over. ErrTooMany in
// a payment.LaterError: too few are left.
func (a *attempts) spendMany(name string, limit, n int) (refund func(), err error) {
	groups := a.groups(name)
	a.mu.Lock()
	defer a.mu.Unlock()
	index := a.roll()
	counts, place, limit := a.place(groups, limit)
	if n = max(1, min(n, limit)); counts[place]+n > limit {
		next := time.Unix(0, (index+1)*int64(a.window))
		return nil, &payment.LaterError{Err: payment.ErrTooMany, After: next.Sub(a.now())}
	}
	counts[place] += n
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.roll() != index {
			return
		}
		if counts[place] -= n; counts[place] <= 0 {
			delete(counts, place)
		}
	}, nil
}

// place returns where an attempt is counted, and the limit there.
func (a *attempts) place(groups []string, limit int) (counts map[string]int, name string, most int) {
	last := len(groups) - 1
	bounds := [...]int{maxCounted, maxNetworks}
	for i, name := range groups[:last] {
		if _, known := a.counts[i][name]; known || len(a.counts[i]) < bounds[i] {
			return a.counts[i], name, limit
		}
		limit = min(limit, math.MaxInt/widerBy) * widerBy
	}
	return a.counts[last], a.bucket(groups[last]), limit
}

// bucket names the one of maxBuckets buckets that a group is in.
func (a *attempts) bucket(group string) string {
	return strconv.FormatUint(maphash.String(a.seed, group)%maxBuckets, 10)
}

// roll begins a new window when it is time, and returns the current one's number.
func (a *attempts) roll() int64 {
	index := a.now().UnixNano() / int64(a.window)
	if index != a.index {
		a.index = index
		for _, counts := range a.counts {
			clear(counts)
		}
	}
	return index
}
