package ratelimit

import (
	"context"
	"time"
)

// Store counts attempts. Every method is one atomic step over all its keys and safe
// for concurrent use, also by several processes. Windows are timed by the store's
// clock. Keys that occur together always do, in the same order.
type Store interface {
	// Spend adds the attempt to the window of every key, which begins now if there
	// is none, or to no window when one of them is at its limit. It is idempotent.
	Spend(ctx context.Context, attempt string, length time.Duration, keys ...Key) (Count, error)
	// Refund removes the attempt from the windows; a window without attempts ends.
	// An attempt that is not in a window, as it was refunded or the window is over,
	// changes nothing there.
	Refund(ctx context.Context, attempt string, keys ...Key) (Count, error)
}

// Key names a window and its limit, which Refund ignores.
type Key struct {
	Name  string
	Limit int
}

// Count is the state of the windows after a step.
type Count struct {
	Taken   bool     // the attempt is in all windows
	Windows []Window // of each key, in order
}

// Window is the state of one window.
type Window struct {
	Attempts int
	Left     time.Duration // until the window ends; undefined without attempts
}
