package payment

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// keptShare is the part, in tenths, of the month's free settlements that is kept
// for payers who have paid before or sign with a key of their own.
const keptShare = 3

// kept is how many of the month's free settlements are not for strangers, rounded
// down: of one, two or three none is kept.
func (g *Gate) kept() int { return g.FreeSettlements * keptShare / 10 }

// maxStrangers is how much work is done at one time for payers who neither sign
// with a key of their own nor have paid before: a quarter of what the chain's
// reader does at one time.
const maxStrangers = 4

// maxBeside is how much work is done at one time beside the facilitator's check: half
// of what the chain's reader does. Keys are made for nothing, and whether there is
// money behind one only the check tells.
const maxBeside = 8

// mayWorkBeside reports whether work may begin before the facilitator has said yes:
// there is room, or the payer has paid before. done gives the room back.
func (g *Gate) mayWorkBeside(ctx context.Context, c *call) (may bool, done func(), err error) {
	select {
	case g.beside <- struct{}{}:
		return true, func() { <-g.beside }, nil
	default:
		paid, err := g.Ledger.Paid(ctx, c.Payment.Key.Payer)
		return paid, func() {}, ledgerFault(err)
	}
}

// caps are today's bounds of settlements made in vain.
func (g *Gate) caps() Caps {
	return Caps{Since: Day(g.Now()), Payer: g.FailuresPerPayer, Client: g.FailuresPerAddress}
}

// failing fails for a payer or a client whose settlements of today have been made
// in vain too often, and for strangers when what is left of the month is not for
// them.
func (g *Gate) failing(ctx context.Context, c *call) error {
	caps := g.caps()
	failed, err := g.Ledger.Failed(ctx, c.Payment.Key.Payer, c.client, caps.Since)
	if err != nil {
		return ledgerFault(err)
	}
	if failed.Payer >= caps.Payer || failed.Client >= caps.Client {
		return g.failingError()
	}
	if c.plain || g.quota.reserved(Month(g.Now())) < g.FreeSettlements-g.kept() {
		return nil
	}
	paid, err := g.Ledger.Paid(ctx, c.Payment.Key.Payer)
	if err == nil && !paid {
		return ErrLimit
	}
	return ledgerFault(err)
}

func (g *Gate) failingError() error {
	now := g.Now()
	return &FailingError{After: Day(now).Add(24 * time.Hour).Sub(now)}
}

// client returns what stands for an address in the ledger, on one day. All of an
// IPv6 /56, which is what a line is given, is one client: its /64 cost nothing.
func (g *Gate) client(address string) string {
	if address == "" {
		return ""
	}
	if group, err := netip.ParsePrefix(address); err == nil && group.Addr().Is6() && group.Bits() > 56 {
		address = netip.PrefixFrom(group.Addr(), 56).Masked().String()
	}
	mac := hmac.New(sha256.New, g.ClientKey)
	mac.Write([]byte(Day(g.Now()).Format(time.DateOnly) + " " + address))
	return hex.EncodeToString(mac.Sum(nil)[:8])
}

// workForStranger does work for a payer who is not known here, in their share.
func (g *Gate) workForStranger(ctx context.Context, c *call) ([]byte, error) {
	paid, err := g.Ledger.Paid(ctx, c.Payment.Key.Payer)
	if err != nil {
		return nil, ledgerFault(err)
	}
	if !paid {
		select {
		case g.strangers <- struct{}{}:
			defer func() { <-g.strangers }()
		case <-ctx.Done():
			return nil, ErrInFlight
		}
	}
	return work(ctx, c.Order)
}

// maxChecks is how many payments that cannot be judged here the facilitator is asked
// about at one time, a quarter of the connections to it. A contract may take as long
// over its answer as the facilitator waits, and anybody may write one.
const maxChecks = 64

// verifyStranger asks the facilitator about a payment that cannot be judged here, in
// the share of these.
func (g *Gate) verifyStranger(ctx context.Context, c *call, request []byte) error {
	waiting, cancel := context.WithTimeout(ctx, g.VerifyTimeout)
	defer cancel()
	select {
	case g.checks <- struct{}{}:
		defer func() { <-g.checks }()
	case <-waiting.Done():
		return cmp.Or(ctx.Err(), ErrInFlight)
	}
	return g.verify(ctx, c.Order, request)
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
			return ErrInFlight
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
	if errors.Is(err, ErrLimit) || errors.Is(err, ErrFailing) {
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
