package rpc

import (
	"errors"
	"sync"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// When a circuit opens, and for how long.
const (
	circuitFailures = 3
	circuitShortest = 2 * time.Second
	circuitLongest  = time.Minute
)

// circuit keeps requests away from an endpoint that fails. It opens after three
// exchanges in a row that broke off or were refused, for a time that doubles
// with every further one; then a single exchange may try. A rate limit opens it
// at once for as long as the endpoint says.
//
// Answers that are wrong do not open it: whoever asks for a block that cannot be
// proven must not be able to shut the service for others.
type circuit struct {
	mu       sync.Mutex
	failures int
	until    time.Time
	limited  bool // open because of a rate limit
}

// record counts an exchange.
func (c *circuit) record(now time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case isAny(err, errGone, errBusy), c.limited && now.Before(c.until): // an answer from before the limit lifts nothing
	case err == nil, errors.Is(err, errTooLarge), errors.Is(err, errBatchRefused):
		c.failures, c.until, c.limited = 0, time.Time{}, false
	case errors.Is(err, chain.ErrRateLimited):
		seconds, _ := chain.RetryAfter(err)
		c.until, c.limited = now.Add(time.Duration(max(seconds, 1))*time.Second), true
	default:
		if c.failures++; c.failures < circuitFailures {
			return
		}
		pause := circuitLongest
		if doublings := c.failures - circuitFailures; doublings < 5 {
			pause = circuitShortest << doublings
		}
		c.until, c.limited = now.Add(pause), false
	}
}

// admit tells whether an exchange may go out. After an open circuit's time it
// lets one pass, and the next only when that has had time to end.
func (c *circuit) admit(now time.Time, trial time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Before(c.until) {
		return false
	}
	if c.failures >= circuitFailures {
		c.until = now.Add(trial)
	}
	return true
}

// closed tells, without counting as a trial, whether an exchange would go out.
func (c *circuit) closed(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !now.Before(c.until)
}

// opens tells when the next exchange may go out, and whether a rate limit is why.
func (c *circuit) opens() (at time.Time, limited bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.until, c.limited
}
