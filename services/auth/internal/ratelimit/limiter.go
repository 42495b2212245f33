package ratelimit

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// storeTimeout bounds one step of the store.
const storeTimeout = 1500 * time.Millisecond

// maxKey is the length in bytes above which a key is replaced by its hash.
const maxKey = 64

// Limiter allows each key a number of attempts per window. The window begins
// with the first attempt that counts.
type Limiter struct {
	store  Store
	name   string
	limit  int
	window time.Duration
}

// New returns a limiter. The name keeps its keys apart from those of other
// limiters in the same store. Limit and window (at least a millisecond) must be
// positive.
func New(store Store, name string, limit int, window time.Duration) (*Limiter, error) {
	if store == nil || name == "" || limit <= 0 || window < time.Millisecond {
		return nil, errors.New("limiter: store, name, limit or window is missing")
	}
	return &Limiter{store: store, name: name, limit: limit, window: window.Truncate(time.Millisecond)}, nil
}

// Decision is what a limiter says about an attempt.
type Decision struct {
	// Allowed says whether the attempt may be made. A refused one is not counted.
	Allowed bool
	// Limit is how many attempts a window has, Window how long it lasts.
	Limit  int
	Window time.Duration
	// Remaining is how many attempts are left now.
	Remaining int
	// Reset is the time until the window ends: the whole Window when none has begun.
	Reset time.Duration

	attempt string
}

// ResetSeconds is Reset in whole seconds, rounded up: who waits that long is
// let in.
func (d Decision) ResetSeconds() int { return ceilSeconds(d.Reset) }

// WindowSeconds is Window in whole seconds, rounded up.
func (d Decision) WindowSeconds() int { return ceilSeconds(d.Window) }

func ceilSeconds(d time.Duration) int {
	return int((d + time.Second - 1) / time.Second)
}

// Spend takes one attempt of the key. It goes on when ctx is cancelled: hanging
// up does not save an attempt. On an error nothing may be allowed.
func (l *Limiter) Spend(ctx context.Context, key string) (Decision, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	attempt := rand.Text()
	count, err := l.store.Spend(ctx, l.storeKey(key), attempt, l.limit, l.window)
	if err != nil {
		return Decision{}, fmt.Errorf("count attempt: %w", err)
	}
	return l.decision(count, attempt), nil
}

// Refund gives the attempt of an allowed decision back and returns how things
// stand then. Again, or when its window is over, it changes nothing. Like Spend
// it goes on when ctx is cancelled, though not beyond ctx's deadline.
func (l *Limiter) Refund(ctx context.Context, key string, d Decision) (Decision, error) {
	if !d.Allowed {
		return d, nil
	}
	bound := storeTimeout
	if deadline, ok := ctx.Deadline(); ok {
		bound = min(bound, time.Until(deadline))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bound)
	defer cancel()
	count, err := l.store.Refund(ctx, l.storeKey(key), d.attempt)
	if err != nil {
		return Decision{}, fmt.Errorf("give attempt back: %w", err)
	}
	count.Taken = true
	return l.decision(count, d.attempt), nil
}

func (l *Limiter) decision(c Count, attempt string) Decision {
	reset := c.Left
	if c.Attempts == 0 {
		reset = l.window
	}
	return Decision{
		Allowed: c.Taken, Limit: l.limit, Window: l.window,
		Remaining: max(0, l.limit-c.Attempts), Reset: reset, attempt: attempt,
	}
}

func (l *Limiter) storeKey(key string) string {
	if len(key) > maxKey {
		sum := sha256.Sum256([]byte(key))
		key = hex.EncodeToString(sum[:])
	}
	return l.name + ":" + key
}
