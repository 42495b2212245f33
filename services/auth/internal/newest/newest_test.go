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
		client.RPush(ctx, key, fmt.Sprint(time.Now().Add(-2*time.Minute).UnixMilli(), " svc:early", i))
	}
	client.RPush(ctx, key, fmt.Sprint(time.Now().UnixMilli(), " svc:later"))
	if err := l.Add(ctx, "svc:last", 0); err != nil {
		t.Fatal(err)
	}
	if n := client.LLen(ctx, key).Val(); n != 2 {
		t.Errorf("%d keys are listed, want 2", n)
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
