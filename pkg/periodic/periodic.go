// Package periodic repeats work.
package periodic

import (
	"context"
	"time"
)

// Run calls do each interval until ctx ends, for the first time after one interval. No call
// begins before the one before it has ended: the next one comes late then, and those that it
// misses do not come.
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
