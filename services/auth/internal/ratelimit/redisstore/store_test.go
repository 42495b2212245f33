package redisstore_test

import (
	"math"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/pkg/redistest"

	"github.com/pforte/pforte/services/auth/internal/ratelimit"
	"github.com/pforte/pforte/services/auth/internal/ratelimit/redisstore"
)

func TestStoreOnMiniredis(t *testing.T) {
	t.Parallel()
	testMeaning(t, func(t *testing.T) backend {
		server := miniredis.RunT(t)
		client := dial(t, server.Addr())
		return backend{Stores: stores(client), Advance: server.FastForward}
	})
}

func TestStoreOnRedis(t *testing.T) {
	t.Parallel()
	addr := redistest.Start(t)
	testMeaning(t, func(t *testing.T) backend {
		client := dial(t, addr)
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		return backend{Stores: stores(client, dial(t, addr))}
	})
}

func TestALimitThatWouldOverflowIsCapped(t *testing.T) {
	t.Parallel()
	l, err := ratelimit.New(redisstore.New(dial(t, redistest.Start(t)), "svc"), "login", math.MaxInt/2, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := l.Spend(t.Context(), "a", "b", "c"); err != nil || !d.Allowed {
		t.Errorf("got %+v, %v", d, err)
	}
}

func TestNothingIsLeftOfAWindow(t *testing.T) {
	t.Parallel()
	client := dial(t, redistest.Start(t))
	store := redisstore.New(client, "svc")
	for window, keys := range map[string][]ratelimit.Key{
		"svc:limit:login:a":           {{Name: "login:a", Limit: 5}},
		"svc:limit:{login:c}:login:b": {{Name: "login:b", Limit: 5}, {Name: "login:c", Limit: 20}},
	} {
		if _, err := store.Spend(t.Context(), "1", time.Minute, keys...); err != nil {
			t.Fatal(err)
		}
		if ttl := client.PTTL(t.Context(), window).Val(); ttl <= 0 || ttl > time.Minute {
			t.Errorf("the window %s lives for %v", window, ttl)
		}
		if _, err := store.Refund(t.Context(), "1", keys...); err != nil {
			t.Fatal(err)
		}
	}
	if n := client.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

func TestRedisDownIsAnError(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, "--save", "")
	limiter, err := ratelimit.New(redisstore.New(dial(t, server.Addr()), "svc"), "login", 5, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	server.Pause()
	start := time.Now()
	if d, err := limiter.Spend(t.Context(), "a"); err == nil || d.Allowed {
		t.Errorf("while Redis hangs: %+v", d)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	server.Resume()
	server.Kill()
	if d, err := limiter.Spend(t.Context(), "a"); err == nil || d.Allowed {
		t.Errorf("while Redis is away: %+v", d)
	}
	server.Restart()
	if d, err := limiter.Spend(t.Context(), "a"); err != nil || !d.Allowed {
		t.Errorf("after the restart: %+v, %v", d, err)
	}
}

func stores(clients ...redis.UniversalClient) []ratelimit.Store {
	var all []ratelimit.Store
	for _, client := range clients {
		all = append(all, redisstore.New(client, "svc"))
	}
	return all
}

func dial(t testing.TB, addr string) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr: addr, DialTimeout: time.Second, ReadTimeout: time.Second, WriteTimeout: time.Second,
		MaxRetries: 1, DialerRetries: 1, ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func BenchmarkSpendAndRefund(b *testing.B) {
	limiter, err := ratelimit.New(redisstore.New(dial(b, redistest.Start(b)), "svc"), "login", 5, time.Minute)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		d, err := limiter.Spend(b.Context(), "a")
		if err != nil {
			b.Fatal(err)
		}
		if _, err := limiter.Refund(b.Context(), d, "a"); err != nil {
			b.Fatal(err)
		}
	}
}
