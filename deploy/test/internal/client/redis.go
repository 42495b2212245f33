package client

import (
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis returns a client of the Redis at addr, host:port, that tries once, and does
// not wait longer than within to connect, nor for the answer: a Redis that hangs
// is a fault that the caller goes on from. It connects at the first command; close
// it.
func Redis(addr string, within time.Duration) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: addr, DialTimeout: within, ReadTimeout: within, WriteTimeout: within, PoolTimeout: within,
		MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, DisableIdentity: true,
	})
}
