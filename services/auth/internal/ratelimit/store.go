package ratelimit

import (
	"context"
	"time"
)

// Store counts attempts. Every method is one atomic step and safe for
// concurrent use, by several processes too where the store is shared. Windows
// are counted by the store's clock.
type Store interface {
	// Spend adds the attempt to the key's window, which begins now if there is
	// none, unless it holds limit attempts already. The same attempt again
	// changes nothing.
	Spend(ctx context.Context, key, attempt string, limit int, window time.Duration) (Count, error)
	// Refund takes the attempt out of its window; a window without attempts
	// ends. An attempt that is not there (given back before, or its window is
	// over) changes nothing: no other window gains from it.
	Refund(ctx context.Context, key, attempt string) (Count, error)
}

// Count is what a window holds after a step.
type Count struct {
	// Taken says whether the attempt is in the window.
	Taken bool
	// Attempts is how many are in the window.
	Attempts int
	// Left is the time until the window ends; meaningless without attempts.
	Left time.Duration
}
