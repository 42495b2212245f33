package ratelimit

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"time"
)

const (
	storeTimeout = 1500 * time.Millisecond // of one step of the store
	maxKey       = 64                      // bytes; a longer key is replaced by its hash
	widening     = 4                       // factor between the limits of a key and the next wider one
)

// Limiter allows each key a number of attempts per window. The window begins with
// the first attempt that counts.
//
// An attempt may have several keys, from the narrowest to the widest (an address, its
// network, the network of that). It counts in all of them, and each has 4 times the
// attempts of the one before.
type Limiter struct {
	store  Store
	name   string
	limit  int
	window time.Duration
}

// New returns a limiter. The name separates its keys from those of other limiters in
// the store. limit must be positive and window at least a millisecond.
func New(store Store, name string, limit int, window time.Duration) (*Limiter, error) {
	if store == nil || name == "" || limit <= 0 || window < time.Millisecond {
		return nil, errors.New("limiter: store, name, limit or window is not set")
	}
	return &Limiter{store: store, name: name, limit: limit, window: window.Truncate(time.Millisecond)}, nil
}

// Decision is the result for an attempt. With several keys the numbers are of the
// window with the fewest attempts left, and of those of the one that ends last.
type Decision struct {
	Allowed   bool // a refused attempt is not counted
	Limit     int  // attempts of a window
	Window    time.Duration
	Remaining int
	Reset     time.Duration // until the window ends; the whole Window when none has begun

	attempt string
}

// ResetSeconds is Reset in whole seconds, rounded up: an attempt after it is allowed.
func (d Decision) ResetSeconds() int { return ceilSeconds(d.Reset) }

// WindowSeconds is Window in whole seconds, rounded up.
func (d Decision) WindowSeconds() int { return ceilSeconds(d.Window) }

func ceilSeconds(d time.Duration) int {
	return int((d + time.Second - 1) / time.Second)
}

// Spend counts one attempt, in the windows of all keys or, when one has none left, in
// none. It goes on when ctx is cancelled, so that a client cannot avoid the count by
// hanging up. On an error the attempt must not be made.
func (l *Limiter) Spend(ctx context.Context, keys ...string) (Decision, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	attempt, stored := rand.Text(), l.storeKeys(keys)
	count, err := l.store.Spend(ctx, attempt, l.window, stored...)
	if err != nil {
		return Decision{}, fmt.Errorf("count attempt: %w", err)
	}
	return l.decision(count, stored, attempt), nil
}

// Refund removes the attempt of an allowed decision from the windows of the keys and
// returns the new state. It is idempotent and changes no later window. Like Spend it
// goes on when ctx is cancelled, but not beyond ctx's deadline.
func (l *Limiter) Refund(ctx context.Context, d Decision, keys ...string) (Decision, error) {
	if !d.Allowed {
		return d, nil
	}
	bound := storeTimeout
	if deadline, ok := ctx.Deadline(); ok {
		bound = min(bound, time.Until(deadline))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bound)
	defer cancel()
	stored := l.storeKeys(keys)
	count, err := l.store.Refund(ctx, d.attempt, stored...)
	if err != nil {
		return Decision{}, fmt.Errorf("refund attempt: %w", err)
	}
	count.Taken = true
	return l.decision(count, stored, d.attempt), nil
}

func (l *Limiter) decision(c Count, keys []Key, attempt string) Decision {
	var tightest Decision
	for i, w := range c.Windows {
		d := Decision{
			Allowed: c.Taken, Limit: keys[i].Limit, Window: l.window,
			Remaining: max(0, keys[i].Limit-w.Attempts), Reset: w.Left, attempt: attempt,
		}
		if w.Attempts == 0 {
			d.Reset = l.window
		}
		if i == 0 || cmp.Or(cmp.Compare(d.Remaining, tightest.Remaining), cmp.Compare(tightest.Reset, d.Reset)) < 0 {
			tightest = d
		}
	}
	return tightest
}

// storeKeys returns the windows of keys, each with its limit.
func (l *Limiter) storeKeys(keys []string) []Key {
	stored, limit := make([]Key, len(keys)), l.limit
	for i, key := range keys {
		if len(key) > maxKey {
			sum := sha256.Sum256([]byte(key))
			key = hex.EncodeToString(sum[:])
		}
		stored[i] = Key{Name: l.name + ":" + key, Limit: limit}
		limit = min(limit, math.MaxInt/widening) * widening
	}
	return stored
}
