package ratelimit

import (
	"context"
	"time"
)

// Store counts attempts. Every method is one atomic step over all its keys and
// safe for concurrent use, by several processes too where the store is shared.
// Windows are counted by the store's clock.
//
// Keys that are given together are given together always, in the same order.
type Store interface {
	// Spend adds the attempt to the window of every key, which begins now if there
	// is none, or to no window when one of them holds as many attempts as its
	// limit already. The same attempt again changes nothing.
	Spend(ctx context.Context, attempt string, length time.Duration, keys ...Key) (Count, error)
	// Refund takes the attempt out of the windows; a window without attempts
	// ends. An attempt that is not there (given back before, or its window is
	// over) changes nothing: no other window gains from it.
	Refund(ctx context.Context, attempt string, keys ...Key) (Count, error)
}

// Key names a window and says how many attempts it has. Refund minds only the
// name.
type Key struct {
	Name  string
	Limit int
}

// Count is what the windows hold after a step.
type Count struct {
	// Taken says whether the attempt is in all windows.
	Taken bool
	// Windows has one entry for each key, in their order.
	Windows []Window
}

// Window is the state of one window.
type Window struct {
	// Attempts is how many are in the window.
	Attempts int
	// Left is the time until the window ends; meaningless without attempts.
	Left time.Duration
}
