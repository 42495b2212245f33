package redisstore_test

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/pkg/redistest"

	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/session/redisstore"
)

func TestStore_OnMiniredis(t *testing.T) {
	t.Parallel()
	testMeaning(t, func(t *testing.T) backend {
		server := miniredis.RunT(t)
		at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		server.SetTime(at)
		client := dial(t, server.Addr())
		return backend{Stores: stores(client, client), Advance: func(d time.Duration) {
			at = at.Add(d)
			server.SetTime(at)
			server.FastForward(d)
		}}
	})
}

func TestStore_OnRedis(t *testing.T) {
	t.Parallel()
	addr := redistest.Start(t)
	runBoth(t, func(t *testing.T) backend {
		client := dial(t, addr)
		flush(t, client)
		return backend{Stores: stores(client, dial(t, addr))}
	})
}

func TestStore_OnRedisCluster(t *testing.T) {
	t.Parallel()
	addrs := redistest.StartCluster(t, 3)
	runBoth(t, func(t *testing.T) backend {
		client := dialCluster(t, addrs)
		flushAll(t, client)
		return backend{Stores: stores(client, dialCluster(t, addrs[1:]))}
	})
}

func runBoth(t *testing.T, open opener) {
	t.Run("meaning", func(t *testing.T) { testMeaning(t, open) })
	t.Run("at once", func(t *testing.T) { testConcurrency(t, open) })
}

func stores(clients ...redis.UniversalClient) []session.Store {
	var all []session.Store
	for _, client := range clients {
		all = append(all, redisstore.New(client, "svc"))
	}
	return all
}

// timeout of one try of a client.
const timeout = time.Second

func dial(t testing.TB, addr string) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr: addr, DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout,
		MaxRetries: 1, DialerRetries: 1, ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func flush(t testing.TB, client redis.UniversalClient) {
	t.Helper()
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
}
