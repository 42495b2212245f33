package ratelimit_test

import (
	"math"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/pkg/redistest"
)

func TestLimiter_OnMiniredis(t *testing.T) {
	t.Parallel()
	testMeaning(t, func(t *testing.T) backend {
		server := miniredis.RunT(t)
		client := dial(t, server.Addr())
		return backend{Clients: []redis.UniversalClient{client}, Advance: server.FastForward}
	})
}

func TestLimiter_OnRedis(t *testing.T) {
	t.Parallel()
	addr := redistest.Start(t)
	testMeaning(t, func(t *testing.T) backend {
		client := dial(t, addr)
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		return backend{Clients: []redis.UniversalClient{client, dial(t, addr)}}
	})
}

func TestLimiter_ALimitThatWouldOverflowIsCapped(t *testing.T) {
	t.Parallel()
	l := limiter(t, dial(t, redistest.Start(t)), "login", math.MaxInt/2, time.Minute)
	if d, err := l.Spend(t.Context(), "a", "b", "c"); err != nil || !d.Allowed {
		t.Errorf("got %+v, %v", d, err)
	}
}

func TestLimiter_NothingIsLeftOfAWindow(t *testing.T) {
	t.Parallel()
	client := dial(t, redistest.Start(t))
	l := limiter(t, client, "login", limit, time.Minute)
	for window, keys := range map[string][]string{
		"svc:limit:login:a":           {"a"},
		"svc:limit:{login:c}:login:b": {"b", "c"},
	} {
		d, err := l.Spend(t.Context(), keys...)
		if err != nil {
			t.Fatal(err)
		}
		if ttl := client.PTTL(t.Context(), window).Val(); ttl <= 0 || ttl > time.Minute {
			t.Errorf("the window %s lives for %v", window, ttl)
		}
		if _, err := l.Refund(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	if n := client.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

func TestLimiter_RedisDownIsAnError(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, "--save", "")
	l := limiter(t, dial(t, server.Addr()), "login", limit, time.Minute)
	server.Pause()
	start := time.Now()
	if d, err := l.Spend(t.Context(), "a"); err == nil || d.Allowed {
		t.Errorf("while Redis hangs: %+v", d)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	server.Resume()
	server.Kill()
	if d, err := l.Spend(t.Context(), "a"); err == nil || d.Allowed {
		t.Errorf("while Redis is away: %+v", d)
	}
	server.Restart()
	if d, err := l.Spend(t.Context(), "a"); err != nil || !d.Allowed {
		t.Errorf("after the restart: %+v, %v", d, err)
	}
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
	l := limiter(b, dial(b, redistest.Start(b)), "login", limit, time.Minute)
	for b.Loop() {
		d, err := l.Spend(b.Context(), "a")
		if err != nil {
			b.Fatal(err)
		}
		if _, err := l.Refund(b.Context(), d); err != nil {
			b.Fatal(err)
		}
	}
}
