package paywall

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// knownChecks has, of each known payer, what became of the facilitator's checks. A few checks without an answer in
// time stop the checks of all for a moment, and anyone who has paid once may give their account code over which the
// facilitator waits in vain (EIP-7702). So that no payer alone stops the checks of others, of each one check at a time
// counts, and none for countsAgain after one that got no answer. Until one gets an answer again, one of the payer's is
// under way at a time.
type knownChecks struct {
	now func() time.Time
	mu  sync.Mutex
	of  map[string]knownCheck // by payer
}

func newKnownChecks(now func() time.Time) *knownChecks {
	return &knownChecks{now: now, of: map[string]knownCheck{}}
}

type knownCheck struct {
	underWay   int
	unanswered bool // the last one got no answer
	countsFrom time.Time
}

const (
	countsAgain = time.Hour
	// maxKnownChecks is beyond how many payers those are forgotten of whom nothing matters any more.
	maxKnownChecks = 10_000
)

// begin notes that a check of a payer begins, and reports whether it counts. The check ends by a call of end with what
// the facilitator's client returned. payment.ErrFacilitator in a payment.LaterError: one is under way.
func (k *knownChecks) begin(payer string) (counts bool, end func(error), err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	if len(k.of) >= maxKnownChecks {
		for payer, c := range k.of {
			if c.underWay == 0 && now.After(c.countsFrom) {
				delete(k.of, payer)
			}
		}
	}
	c := k.of[payer]
	if c.unanswered && c.underWay > 0 {
		later := &payment.LaterError{Err: errUnanswered, After: time.Second}
		return false, nil, errors.Join(payment.ErrFacilitator, later)
	}
	counts = c.underWay == 0 && !now.Before(c.countsFrom)
	c.underWay++
	k.of[payer] = c
	return counts, func(err error) { k.end(payer, err) }, nil
}

var errUnanswered = errors.New("the payer's last check got no answer, and another one is under way")

func (k *knownChecks) end(payer string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	c := k.of[payer]
	c.underWay--
	var later *payment.LaterError
	switch {
	case err == nil:
		c.unanswered = false
	case errors.As(err, &later), errors.Is(err, payment.ErrNoVerdict), errors.Is(err, context.Canceled):
		// The facilitator was not asked, or answered something, or the buyer left.
	default:
		c.unanswered, c.countsFrom = true, now.Add(countsAgain)
	}
	if k.of[payer] = c; c.underWay == 0 && !c.unanswered && !now.Before(c.countsFrom) {
		delete(k.of, payer)
	}
}
