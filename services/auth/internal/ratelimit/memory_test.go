package ratelimit_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/ratelimit"
	"github.com/pforte/pforte/services/auth/internal/ratelimit/ratelimittest"
)

func TestMemoryStore(t *testing.T) {
	ratelimittest.Run(t, func(*testing.T) ratelimittest.Backend {
		var nanos atomic.Int64
		now := func() time.Time { return time.Unix(1_770_000_000, nanos.Load()) }
		return ratelimittest.Backend{
			Stores:  []ratelimit.Store{ratelimit.NewMemoryStore(now)},
			Advance: func(d time.Duration) { nanos.Add(int64(d)) },
		}
	})
}

func TestMemoryStoreForgetsWindowsThatAreOver(t *testing.T) {
	at := time.Unix(1_770_000_000, 0)
	store := ratelimit.NewMemoryStore(func() time.Time { return at })
	for i := range 20_000 {
		at = at.Add(time.Second)
		if _, err := store.Spend(t.Context(), "attempt", time.Minute, ratelimit.Key{Name: fmt.Sprint(i), Limit: 5}); err != nil {
			t.Fatal(err)
		}
	}
	if n := ratelimit.Windows(store); n > 4096 {
		t.Errorf("%d windows are kept where 60 are open", n)
	}
}
