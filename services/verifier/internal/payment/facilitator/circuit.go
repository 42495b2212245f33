package facilitator

import (
	"sync"
	"time"
)

// A circuit opens after openAfter failures without a success between them, and stays open for
// openFor; then one check in each openFor tries whether the facilitator is back. It is open too
// for as long as the pause that the facilitator has requested.
const (
	openAfter = 5
	openFor   = 5 * time.Second
)

type circuit struct {
	now func() time.Time
	// over is the circuit of known payers, if this one is of strangers: while it is open this one
	// is too, but not the other way round. A success of this one counts for both.
	over *circuit
	// never means that it does not open for its failures.
	never bool

	mu       sync.Mutex
	failures int
	retryAt  time.Time
	// busyUntil is when the pause ends that the facilitator has requested.
	busyUntil time.Time
}

// wait returns for how long no check may be sent, zero when one may be, and whether the
// facilitator has requested that. While the circuit is open for its failures it returns zero once
// in each openFor, for one attempt. Strangers take no attempt of known payers.
func (c *circuit) wait() (left time.Duration, busy bool) {
	if c.over != nil {
		if left, busy = c.over.pause(false); left > 0 {
			return left, busy
		}
	}
	return c.pause(true)
}

// pause is wait of this circuit alone. If attempts is false, it takes no attempt.
func (c *circuit) pause(attempts bool) (left time.Duration, busy bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if left := c.busyUntil.Sub(now); left > 0 {
		return left, true
	}
	if c.failures < openAfter {
		return 0, false
	}
	if left := c.retryAt.Sub(now); left > 0 {
		return left, false
	}
	if attempts {
		c.retryAt = now.Add(openFor)
	}
	return 0, false
}

// busy blocks checks for the pause that the facilitator has requested.
func (c *circuit) busy(pause time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if until := c.now().Add(pause); until.After(c.busyUntil) {
		c.busyUntil = until
	}
}

func (c *circuit) succeeded() {
	if c.over != nil {
		c.over.succeeded()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures = 0
}

func (c *circuit) failed() {
	if c.never {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failures++; c.failures >= openAfter {
		c.retryAt = c.now().Add(openFor)
	}
}
