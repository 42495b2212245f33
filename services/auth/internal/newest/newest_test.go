package newest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/pkg/redistest"
	"github.com/pforte/pforte/services/auth/internal/newest"
)

// A user whose applications renew their tokens all the time would have a list that only grows.
func TestAdd_ForgetsKeysBeyondTheirLife(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: redistest.New(t).Addr()})
	t.Cleanup(func() { _ = client.Close() })
	l, ctx, key := newest.New(client, "svc", "thing", time.Minute), t.Context(), "svc:newest:thing"
	for i := range 10 {
		early := float64(time.Now().Add(-2 * time.Minute).UnixMicro())
		client.ZAdd(ctx, key, redis.Z{Score: early, Member: fmt.Sprint("1 svc:early", i)})
	}
	client.ZAdd(ctx, key, redis.Z{Score: float64(time.Now().UnixMicro()), Member: "1 svc:later"})
	if err := l.Add(ctx, "svc:last", 0); err != nil {
		t.Fatal(err)
	}
	if n := client.ZCard(ctx, key).Val(); n != 2 {
		t.Errorf("%d keys are noted, want 2", n)
	}
	if ttl := client.PTTL(ctx, key).Val(); ttl <= 0 || ttl > time.Minute {
		t.Errorf("the set lives for %v", ttl)
	}
}

func TestAdd_RemovesTheOldestBeyondTheMost(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: redistest.New(t).Addr()})
	t.Cleanup(func() { _ = client.Close() })
	l, ctx := newest.New(client, "svc", "thing", time.Minute), t.Context()
	for i, places := range []int{1, newest.Most / 2, newest.Most/2 - 1, 1} {
		name := fmt.Sprint("svc:", i)
		if err := l.Add(ctx, name, (places-1)*newest.PlaceBytes); err != nil {
			t.Fatal(err)
		}
		client.Set(ctx, name, "", time.Minute)
	}
	for i, want := range []int64{0, 1, 1, 1} {
		if got := client.Exists(ctx, fmt.Sprint("svc:", i)).Val(); got != want {
			t.Errorf("key %d: %d, want %d", i, got, want)
		}
	}
}

func TestRemove_TakesBackWhatAddHasNoted(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: redistest.New(t).Addr()})
	t.Cleanup(func() { _ = client.Close() })
	l, ctx := newest.New(client, "svc", "thing", time.Minute), t.Context()
	for range 2 { // noted again it takes its places once
		for name, size := range map[string]int{"svc:stays": 0, "svc:goes": 3 * newest.PlaceBytes} {
			if err := l.Add(ctx, name, size); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := client.ZCard(ctx, "svc:newest:thing").Val(); n != 5 {
		t.Errorf("%d places are taken, want 5", n)
	}
	if err := l.Remove(ctx, "svc:goes", 3*newest.PlaceBytes); err != nil {
		t.Fatal(err)
	}
	if left := client.ZRange(ctx, "svc:newest:thing", 0, -1).Val(); len(left) != 1 || left[0] != "1 svc:stays" {
		t.Errorf("%q are left", left)
	}
}
