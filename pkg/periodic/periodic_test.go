package periodic_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pforte/pforte/pkg/periodic"
)

func TestRun_CallsEachIntervalUntilItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		var at []time.Duration
		periodic.Run(ctx, time.Second, func() {
			at = append(at, time.Since(began))
			switch len(at) {
			case 2:
				time.Sleep(3500 * time.Millisecond) // it misses those at 3, 4 and 5
			case 4:
				cancel()
			}
		})
		want := []time.Duration{time.Second, 2 * time.Second, 5500 * time.Millisecond, 6 * time.Second}
		for i := range want {
			if i >= len(at) || at[i] != want[i] {
				t.Fatalf("called at %v, want %v", at, want)
			}
		}
	})
}
