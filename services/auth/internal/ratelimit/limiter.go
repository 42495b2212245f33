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

// storeTimeout bounds one step of the store.
const storeTimeout = 1500 * time.Millisecond

// maxKey is the length in bytes above which a key is replaced by its hash.
const maxKey = 64

// widening is how many times more attempts a key has than the narrower one
// before it.
const widening = 4

// Limiter allows each key a number of attempts per window. The window begins
// with the first attempt that counts.
//
// An attempt may have several keys, from the narrowest to the widest that it
// belongs to (an address, its network, the network of that): it then counts in
// all of them, and each has 4 times the attempts of the one before.
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
	// Limit is how many attempts a window has, Window how long it lasts. Of
	// several windows the Decision tells about the one with the fewest attempts
	// left, and of those about the one that ends last.
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

// Spend takes one attempt of the keys, in all their windows or, when one has none
// left, in none. It goes on when ctx is cancelled: hanging up does not save an
// attempt. On an error nothing may be allowed.
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

// Refund gives the attempt of an allowed decision back, in the windows of the
// keys that it was taken from, and returns how things stand then. Again, or when
// a window is over, it changes nothing. Like Spend it goes on when ctx is
// cancelled, though not beyond ctx's deadline.
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
		return Decision{}, fmt.Errorf("give attempt back: %w", err)
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

// storeKeys names the windows of keys, with the limit of each.
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
