package ratelimit_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/pkg/redistest"
)

func TestLimiter_OnRedisCluster(t *testing.T) {
	t.Parallel()
	addrs := redistest.StartCluster(t, 3)
	open := func() *redis.ClusterClient {
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, DialTimeout: time.Second, ReadTimeout: time.Second, WriteTimeout: time.Second})
		t.Cleanup(func() { _ = client.Close() })
		return client
	}
	testMeaning(t, func(t *testing.T) backend {
		client := open()
		err := client.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error { return node.FlushAll(ctx).Err() })
		if err != nil {
			t.Fatal(err)
		}
		return backend{Clients: []redis.UniversalClient{client, open()}}
	})
}

// TestLimiter_OnSentinelsAcrossAFailover runs the suite with the same client before
// and after the replica took over, and holds a window across it.
func TestLimiter_OnSentinelsAcrossAFailover(t *testing.T) {
	t.Parallel()
	w := redistest.StartWatched(t, time.Second)
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: redistest.Master, SentinelAddrs: w.Sentinels, DialTimeout: time.Second, ReadTimeout: time.Second, WriteTimeout: time.Second,
		MaxRetries: 1, DialerRetries: 1, ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { _ = client.Close() })
	open := func(t *testing.T) backend {
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		return backend{Clients: []redis.UniversalClient{client}}
	}
	t.Run("before", func(t *testing.T) { testMeaning(t, open) })
	l := limiter(t, client, "failover", limit, time.Minute)
	if _, err := l.Spend(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	w.Master.Replicate()
	w.Master.Kill()
	killed := time.Now()
	for {
		d, err := l.Spend(t.Context(), "a")
		if err == nil {
			if d.Remaining != limit-2 {
				t.Errorf("after the failover %d attempts remain", d.Remaining)
			}
			break
		}
		if d.Allowed {
			t.Errorf("without a master: %+v", d)
		}
		if time.Since(killed) > 20*time.Second {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Run("after", func(t *testing.T) { testMeaning(t, open) })
}
