package payment

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"
)

// quota is what this process knows of the month's free settlements: good for
// turning callers away early. The ledger alone decides.
type quota struct {
	mu       sync.Mutex
	month    string
	standing Standing
	readAt   time.Time
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
func (g *Gate) Free(ctx context.Context) error {
	q := &g.quota
	now := g.Now()
	month := Month(now)
	if err := g.refresh(ctx, now, month); err != nil {
		return errors.Join(ErrLedger, err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.month == month && q.standing.Reserved >= g.FreeSettlements:
		return ErrLimit
	case now.Before(q.closedUntil):
		return &PausedError{After: q.closedUntil.Sub(now)}
	}
	return nil
}

// refresh reads the month's standing when what is known is old. One caller
// reads; others go on with what is known.
func (g *Gate) refresh(ctx context.Context, now time.Time, month string) error {
	q := &g.quota
	q.mu.Lock()
	if q.reading || (q.month == month && now.Sub(q.readAt) < quotaAge) {
		q.mu.Unlock()
		return nil
	}
	q.reading = true
	changes := q.changes
	q.mu.Unlock()

	standing, err := g.Ledger.Standing(ctx, month)

	q.mu.Lock()
	defer q.mu.Unlock()
	q.reading = false
	if err != nil {
		return err
	}
	q.month, q.standing = month, standing
	if q.readAt = now; q.changes != changes {
		q.readAt = time.Time{}
	}
	g.warn(q)
	return nil
}

// warn logs once a month that four fifths are used. q is locked.
func (g *Gate) warn(q *quota) {
	if q.standing.Reserved*5 < g.FreeSettlements*4 || q.warned == q.month {
		return
	}
	q.warned = q.month
	g.Log.Warn("four fifths of the month's free settlements are used",
		"month", q.month, "used", q.standing.Reserved, "limit", g.FreeSettlements)
}

// Left tells how many settlements the month has left and how many payments wait
// for the truth, as last read.
func (g *Gate) Left(ctx context.Context) (left, unknown int) {
	now := g.Now()
	_ = g.refresh(ctx, now, Month(now)) // what cannot be read stays as it was
	q := &g.quota
	q.mu.Lock()
	defer q.mu.Unlock()
	return max(0, g.FreeSettlements-q.standing.Reserved), q.standing.Unknown
}

// Oldest tells for how long the oldest of the payments that wait for the truth
// has waited, as last read; zero without one.
func (g *Gate) Oldest() time.Duration {
	q := &g.quota
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.standing.Oldest.IsZero() {
		return 0
	}
	return g.Now().Sub(q.standing.Oldest)
}

// reserved counts a settlement that this process has just reserved, so that the
// ledger need not be read for it.
func (g *Gate) reserved(month string) {
	q := &g.quota
	q.mu.Lock()
	defer q.mu.Unlock()
	q.changes++
	if q.month == month {
		q.standing.Reserved++
		g.warn(q)
	}
}

// reserved is how many settlements of the month are known to be reserved.
func (q *quota) reserved(month string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.month != month {
		return 0
	}
	return q.standing.Reserved
}

// Failed tells how many settlements of the month were made in vain, as last read.
func (g *Gate) Failed() int {
	q := &g.quota
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.standing.Failed
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
