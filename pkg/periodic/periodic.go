// Package periodic repeats work.
package periodic

import (
	"context"
	"time"
)

// Run calls do each interval until ctx ends, for the first time after one interval. Calls do not
// overlap: when one takes longer than the interval, the next begins as it ends, and others that
// were due meanwhile are left out.
func Run(ctx context.Context, interval time.Duration, do func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do()
		}
	}
}
