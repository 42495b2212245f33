package facilitator

import (
	"sync"
	"time"
)

// A circuit opens after so many failures in a row and stays open so long; then
// one question at a time tries whether the facilitator is back.
const (
	openAfter = 5
	openFor   = 5 * time.Second
)

type circuit struct {
	now func() time.Time

	mu       sync.Mutex
	failures int
	retryAt  time.Time
}

// closed tells whether a question may be asked. While the circuit is open it is
// true once an interval, for the one who tries.
func (c *circuit) closed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failures < openAfter {
		return true
	}
	if now := c.now(); !now.Before(c.retryAt) {
		c.retryAt = now.Add(openFor)
		return true
	}
	return false
}

func (c *circuit) succeeded() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures = 0
}

func (c *circuit) failed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failures++; c.failures >= openAfter {
		c.retryAt = c.now().Add(openFor)
	}
}
