package session_test

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/session/redisstore"
)

// clock is a time that a test moves, with the Redis that follows it.
type clock struct {
	at     time.Time
	server *miniredis.Miniredis
}

func (c *clock) now() time.Time { return c.at }

func (c *clock) advance(d time.Duration) {
	c.at = c.at.Add(d)
	c.server.SetTime(c.at)
	if d > 0 {
		c.server.FastForward(d)
	}
}

// openStore returns an empty store and its clock.
func openStore(t testing.TB) (session.Store, *clock) {
	t.Helper()
	c := &clock{at: time.Date(2026, 3, 1, 12, 0, 0, 500, time.UTC), server: miniredis.RunT(t)}
	c.server.SetTime(c.at)
	client := redis.NewClient(&redis.Options{Addr: c.server.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	return redisstore.New(client, "svc"), c
}
