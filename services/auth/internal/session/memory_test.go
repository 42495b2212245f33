package session_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/session/sessiontest"
)

// clock is a time that a test moves.
type clock struct{ nanos atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.nanos.Store(time.Date(2026, 3, 1, 12, 0, 0, 500, time.UTC).UnixNano())
	return c
}

func (c *clock) now() time.Time          { return time.Unix(0, c.nanos.Load()).UTC() }
func (c *clock) advance(d time.Duration) { c.nanos.Add(int64(d)) }

func openMemory(*testing.T) sessiontest.Backend {
	c := newClock()
	return sessiontest.Backend{Stores: []session.Store{session.NewMemoryStore(c.now)}, Advance: c.advance}
}

func TestMemoryStore(t *testing.T)           { sessiontest.Run(t, openMemory) }
func TestMemoryStoreConcurrent(t *testing.T) { sessiontest.RunConcurrent(t, openMemory) }
