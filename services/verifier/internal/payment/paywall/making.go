package paywall

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// An answer takes about madeTimes its bytes while it is made, signed and written, and waits in memory until its
// settlement has begun. So of answers that have payment.LargeAnswer bytes and more few are made at once: what they
// take is bounded by mostMade, in bytes, for known payers and for all others each (VERIFIER-6.13).
const (
	madeTimes = 4
	mostMade  = madeTimes * receipt.MaxSize
)

// making is what a call holds of mostMade.
type making struct {
	places *semaphore.Weighted

	mu          sync.Mutex // questions of a batch are worked on at the same time
	bytes, held int64
}

type makingKey struct{}

// Hold is called by the work of an order, with its context or one derived from it, before it makes so many bytes of
// its answer. The first call for a large answer waits for memory. A further one does not, so that no two orders wait
// for each other. payment.ErrInFlight: there is none. Outside of a work it does nothing.
func Hold(ctx context.Context, bytes int) error {
	m, ok := ctx.Value(makingKey{}).(*making)
	if !ok {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bytes += int64(bytes)
	missing := min(madeTimes*m.bytes, mostMade) - m.held // beyond mostMade an answer is too large, and is dropped
	switch {
	case m.bytes < payment.LargeAnswer, missing <= 0:
		return nil
	case m.held > 0 && !m.places.TryAcquire(missing):
		return payment.ErrInFlight
	case m.held == 0 && m.places.Acquire(ctx, missing) != nil:
		return payment.ErrInFlight
	}
	m.held += missing
	return nil
}

// written gives back what the call holds: its answer is written, or there will be none.
func (c *call) written() {
	if c.making == nil {
		return
	}
	c.making.mu.Lock()
	defer c.making.mu.Unlock()
	c.making.places.Release(c.making.held)
	c.making.bytes, c.making.held = 0, 0
}
