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

	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// quota is what this process knows of the month's free settlements: good for
// turning callers away early. The ledger alone decides.
type quota struct {
	mu     sync.Mutex
	month  string
	status payment.QuotaStatus
	readAt time.Time
	// reading tells that somebody is asking the ledger; changes counts what
	// makes such an answer old before it arrives.
	reading bool
	changes int
	// warned is the month that was warned of.
	warned string
	// closedUntil is when to try a facilitator again that said it has reached
	// its own limit.
	closedUntil time.Time
}

const (
	// quotaAge is how old the knowledge of other replicas' settlements may be.
	quotaAge = time.Second
	// facilitatorPause is how long a facilitator that is at its limit is left alone
	// when it does not say how long.
	facilitatorPause = time.Minute
)

// Free says whether a settlement may begin now: nil, ErrLimit, or ErrLedger.
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
		return &payment.PausedError{After: q.closedUntil.Sub(now)}
	}
	return nil
}

// refresh reads the month's standing when what is known is old. One caller
// reads; others go on with what is known.
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

// warn logs once a month that four fifths are used. q is locked.
func (w *Paywall) warn(q *quota) {
	if q.status.Reserved*5 < w.FreeSettlements*4 || q.warned == q.month {
		return
	}
	q.warned = q.month
	w.Log.Warn("four fifths of the month's free settlements are used",
		"month", q.month, "used", q.status.Reserved, "limit", w.FreeSettlements)
}

// Left tells how many settlements the month has left and how many payments wait
// for the truth, as last read.
func (w *Paywall) Left(ctx context.Context) (left, unknown int) {
	now := w.Now()
	_ = w.refresh(ctx, now, payment.Month(now)) // what cannot be read stays as it was
	q := &w.quota
	q.mu.Lock()
	defer q.mu.Unlock()
	return max(0, w.FreeSettlements-q.status.Reserved), q.status.Unknown
}

// Oldest tells for how long the oldest of the payments that wait for the truth
// has waited, as last read; zero without one.
func (w *Paywall) Oldest() time.Duration {
	q := &w.quota
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.status.Oldest.IsZero() {
		return 0
	}
	return w.Now().Sub(q.status.Oldest)
}

// Failed tells how many settlements of the month were made in vain, as last read.
func (w *Paywall) Failed() int {
	q := &w.quota
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.status.Failed
}

// reserved counts a settlement that this process has just reserved, so that the
// ledger need not be read for it.
func (w *Paywall) reserved(month string) {
	q := &w.quota
	q.mu.Lock()
	defer q.mu.Unlock()
	q.changes++
	if q.month == month {
		q.status.Reserved++
		w.warn(q)
	}
}

// reserved is how many settlements of the month are known to be reserved.
func (q *quota) reserved(month string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.month != month {
		return 0
	}
	return q.status.Reserved
}

// stale makes the next Free read the ledger.
func (q *quota) stale() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.changes++
	q.readAt = time.Time{}
}

// pause turns everybody away for a while, because the facilitator did with err, and
// returns for how long.
func (q *quota) pause(now time.Time, err error) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	until := now.Add(cmp.Or(pauseOf(err), facilitatorPause))
	if until.After(q.closedUntil) {
		q.closedUntil = until
	}
	return q.closedUntil.Sub(now)
}

// pauseOf returns how long the facilitator wants to be left alone, or zero.
func pauseOf(err error) time.Duration {
	var later *payment.LaterError
	if errors.As(err, &later) {
		return later.After
	}
	return 0
}

// keptShare is the part, in tenths, of the month's free settlements that is kept
// for payers who have paid before or sign with a key of their own.
const keptShare = 3

// kept is how many of the month's free settlements are not for strangers, rounded
// down: of one, two or three none is kept.
func (w *Paywall) kept() int { return w.FreeSettlements * keptShare / 10 }

// caps are today's bounds of settlements made in vain.
func (w *Paywall) caps() payment.Caps {
	return payment.Caps{Since: payment.Day(w.Now()), Payer: w.FailuresPerPayer, Client: w.FailuresPerAddress}
}

// failing fails for a payer or a client whose settlements of today have been made
// in vain too often, and for strangers when what is left of the month is not for
// them.
func (w *Paywall) failing(ctx context.Context, c *call) error {
	caps := w.caps()
	failed, err := w.Ledger.Failed(ctx, c.Payment.Key.Payer, c.client, caps.Since)
	if err != nil {
		return ledgerFault(err)
	}
	if failed.Payer >= caps.Payer || failed.Client >= caps.Client {
		return w.failingError()
	}
	if c.plain || w.quota.reserved(payment.Month(w.Now())) < w.FreeSettlements-w.kept() {
		return nil
	}
	paid, err := w.Ledger.Paid(ctx, c.Payment.Key.Payer)
	if err == nil && !paid {
		return payment.ErrLimit
	}
	return ledgerFault(err)
}

func (w *Paywall) failingError() error {
	now := w.Now()
	return &payment.FailingError{After: payment.Day(now).Add(24 * time.Hour).Sub(now)}
}

// client returns what stands for an address in the ledger, on one day. All of an
// IPv6 /56, which is what a line is given, is one client: its /64 cost nothing.
func (w *Paywall) client(address string) string {
	if address == "" {
		return ""
	}
	if group, err := netip.ParsePrefix(address); err == nil && group.Addr().Is6() && group.Bits() > 56 {
		address = netip.PrefixFrom(group.Addr(), 56).Masked().String()
	}
	mac := hmac.New(sha256.New, w.ClientKey)
	mac.Write([]byte(payment.Day(w.Now()).Format(time.DateOnly) + " " + address))
	return hex.EncodeToString(mac.Sum(nil)[:8])
}

// maxStrangers is how much work is done at one time for payers who neither sign
// with a key of their own nor have paid before: a quarter of what the chain's
// reader does at one time.
const maxStrangers = 4

// workForStranger does work for a payer who is not known here, in their share.
func (w *Paywall) workForStranger(ctx context.Context, c *call) ([]byte, error) {
	paid, err := w.Ledger.Paid(ctx, c.Payment.Key.Payer)
	if err != nil {
		return nil, ledgerFault(err)
	}
	if !paid {
		select {
		case w.strangers <- struct{}{}:
			defer func() { <-w.strangers }()
		case <-ctx.Done():
			return nil, payment.ErrInFlight
		}
	}
	return work(ctx, c.Order)
}

// maxBeside is how much work is done at one time beside the facilitator's check: half
// of what the chain's reader does. Keys are made for nothing, and whether there is
// money behind one only the check tells.
const maxBeside = 8

// mayWorkBeside reports whether work may begin before the facilitator has said yes:
// there is room, or the payer has paid before. done gives the room back.
func (w *Paywall) mayWorkBeside(ctx context.Context, c *call) (may bool, done func(), err error) {
	select {
	case w.beside <- struct{}{}:
		return true, func() { <-w.beside }, nil
	default:
		paid, err := w.Ledger.Paid(ctx, c.Payment.Key.Payer)
		return paid, func() {}, ledgerFault(err)
	}
}

// maxChecks is how many payments that cannot be judged here the facilitator is asked
// about at one time, a quarter of the connections to it. A contract may take as long
// over its answer as the facilitator waits, and anybody may write one.
const maxChecks = 64

// verifyStranger asks the facilitator about a payment that cannot be judged here, in
// the share of these.
func (w *Paywall) verifyStranger(ctx context.Context, c *call, request []byte) error {
	waiting, cancel := context.WithTimeout(ctx, w.VerifyTimeout)
	defer cancel()
	select {
	case w.checks <- struct{}{}:
		defer func() { <-w.checks }()
	case <-waiting.Done():
		return cmp.Or(ctx.Err(), payment.ErrInFlight)
	}
	return w.verify(ctx, c.Order, request)
}

// room lets settlements wait until others of their payer or client have ended.
type room struct {
	mu    sync.Mutex
	queue []*waiter
	// ends counts the settlements that have ended.
	ends int
}

type waiter struct {
	payer, client string
	turn          chan struct{}
}

// pauseForRoom is how long the first in the queue waits before it looks again:
// those that end in other processes are not told of here.
const pauseForRoom = 200 * time.Millisecond

// firstOfClient is how many of a client, of different payers, count as the first.
const firstOfClient = 4

// seen gives what wait is told, before one looks whether there is room.
func (r *room) seen() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ends
}

// wait returns when one may look again, or with ErrInFlight when ctx ends. When a
// settlement has ended since seen, that may have been the one to wait for.
func (r *room) wait(ctx context.Context, seen int, payer, client string) error {
	w := &waiter{payer: payer, client: client, turn: make(chan struct{}, 1)}
	r.mu.Lock()
	pause := pauseForRoom + rand.N(pauseForRoom) //nolint:gosec // a pause, no secret
	if r.ends != seen {
		pause /= 10
	}
	r.queue = append(r.queue, w)
	r.mu.Unlock()
	defer r.leave(w)
	again := time.NewTicker(pause)
	defer again.Stop()
	for {
		select {
		case <-w.turn:
			return nil
		case <-again.C:
			if r.first(w) {
				return nil
			}
			again.Reset(pauseForRoom + rand.N(pauseForRoom)) //nolint:gosec // a pause, no secret
		case <-ctx.Done():
			return payment.ErrInFlight
		}
	}
}

// first reports whether w is the first of its payer in the queue, and one of the
// first of its client. If all looked again, a ledger would do little else.
func (r *room) first(w *waiter) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := 0
	for _, other := range r.queue {
		switch {
		case other == w:
			return true
		case other.payer == w.payer:
			return false
		case other.client == w.client:
			if before++; before == firstOfClient {
				return false
			}
		}
	}
	return true
}

func (r *room) leave(w *waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = slices.DeleteFunc(r.queue, func(other *waiter) bool { return other == w })
}

// ended lets the next two of the payer or the client look again: a settlement
// that was paid leaves its place and adds one.
func (r *room) ended(payer, client string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends++
	r.wake(2, payer, client)
}

// looked lets others of the payer or the client look again after one that need not
// wait any more: the next one, or all when none of them will begin.
func (r *room) looked(err error, payer, client string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 1
	if errors.Is(err, payment.ErrLimit) || errors.Is(err, payment.ErrFailing) {
		n = len(r.queue)
	}
	r.wake(n, payer, client)
}

// wake takes the next n of the payer or the client from the queue. It is called
// with the lock held.
func (r *room) wake(n int, payer, client string) {
	r.queue = slices.DeleteFunc(r.queue, func(w *waiter) bool {
		if n == 0 || (w.payer != payer && w.client != client) {
			return false
		}
		n--
		w.turn <- struct{}{}
		return true
	})
}

// spendAddress takes an attempt from the client's address, once in a call.
func (w *Paywall) spendAddress(c *call) (err error) {
	if c.refundAddress == nil {
		c.refundAddress, err = w.clients.spend(c.Address, w.AttemptsPerAddress)
	}
	return err
}

// spendPayer takes an attempt from the payer. It is for payments that are
// certainly the payer's.
func (w *Paywall) spendPayer(c *call) (err error) {
	if c.refundPayer == nil {
		c.refundPayer, err = w.payers.spend(c.Payment.Key.Payer, w.AttemptsPerPayer)
	}
	return err
}

// refund gives back the attempts that the call has taken.
func (c *call) refund() {
	for _, refund := range []*func(){&c.refundAddress, &c.refundPayer} {
		if *refund != nil {
			(*refund)()
			*refund = nil
		}
	}
}

// attempts counts attempts that cost us or the facilitator something and are
// not paid, in fixed windows: those of payers, or those of client addresses. It
// lives in the memory of one process: each replica allows the whole number.
//
// Its memory is bounded. Where no more can be counted one by one, those who are
// new are counted by the group they are in, and where no more groups can be
// counted, by a wider group. So an attacker who fills the counts takes attempts
// only from newcomers of the same groups.
type attempts struct {
	now func() time.Time
	// groups names a client or payer, then the groups around it, the narrower ones first.
	groups func(who string) []string
	seed   maphash.Seed

	mu    sync.Mutex
	index int64
	// counts are of the names that groups returns, by their place in it. Those in
	// the last place are hashed into buckets. A count of zero is not kept.
	counts [3]map[string]int
}

// attemptWindow is how long attempts are counted together.
const attemptWindow = time.Minute

// How many are counted at a time: clients or payers, the networks around them, and
// what is wider than that.
const (
	maxCounted  = 100_000
	maxNetworks = 10_000
	maxBuckets  = 1024
)

// widerBy is how many times the limit of a group is that of what is in it.
const widerBy = 16

func newAttempts(now func() time.Time, groups func(who string) []string) *attempts {
	a := &attempts{now: now, groups: groups, seed: maphash.MakeSeed()}
	for i := range a.counts {
		a.counts[i] = map[string]int{}
	}
	return a
}

// networksAround names an address, or the IPv6 /64 that package clientaddr takes
// for one, the network that its owner may have all of, and that of its provider:
// IPv6 /48 and /32, IPv4 /16 and /8.
func networksAround(who string) []string {
	prefix, err := netip.ParsePrefix(who)
	if err != nil {
		addr, err := netip.ParseAddr(who)
		if err != nil {
			return []string{who, who, who}
		}
		prefix = netip.PrefixFrom(addr, addr.BitLen())
	}
	around := func(bits int) string {
		return netip.PrefixFrom(prefix.Addr(), min(bits, prefix.Bits())).Masked().String()
	}
	if prefix.Addr().Is6() {
		return []string{who, around(48), around(32)}
	}
	return []string{who, around(16), around(8)}
}

// onePayer names a payer, who is in no group: an account is anybody's to make.
func onePayer(who string) []string { return []string{who, who} }

// spend takes one attempt of who, of limit in a window, in one step. The refund
// that it returns gives it back; it does nothing once the window is over.
func (a *attempts) spend(who string, limit int) (refund func(), err error) {
	groups := a.groups(who)
	a.mu.Lock()
	defer a.mu.Unlock()
	index := a.roll()
	counts, name, limit := a.place(groups, limit)
	if counts[name] >= limit {
		next := time.Unix(0, (index+1)*int64(attemptWindow))
		return nil, &payment.TooManyError{After: next.Sub(a.now())}
	}
	counts[name]++
	return func() { a.give(counts, name, index) }, nil
}

// place returns where an attempt is counted, and the limit there.
func (a *attempts) place(groups []string, limit int) (counts map[string]int, name string, most int) {
	last := len(groups) - 1
	rooms := [...]int{maxCounted, maxNetworks}
	for i, name := range groups[:last] {
		if _, known := a.counts[i][name]; known || len(a.counts[i]) < rooms[i] {
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

func (a *attempts) give(counts map[string]int, name string, index int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.roll() != index {
		return
	}
	if counts[name]--; counts[name] <= 0 {
		delete(counts, name)
	}
}

// roll begins a new window when it is time, and returns the current one's number.
func (a *attempts) roll() int64 {
	index := a.now().UnixNano() / int64(attemptWindow)
	if index != a.index {
		a.index = index
		for _, counts := range a.counts {
			clear(counts)
		}
	}
	return index
}
