// Package ratelimit counts attempts per key (a client address, a user) in fixed
// windows and refuses those above a limit. The counts are in Redis (6 or later;
// alone, with Sentinel or as a Cluster).
//
// An attempt is counted *before* the work that it is for and refunded when it does
// not count after all, each in one Lua script, so that any number of concurrent
// attempts get exactly the limit.
//
// A window is one key, "<app>:limit:<limiter>:<key>": the set of its attempts,
// which holds at most the limit, expires with the window, and is gone when it
// is empty. Where an attempt counts in several windows, from the narrowest to
// the widest, each is "<app>:limit:{<limiter>:<widest>}:<limiter>:<key>": the
// hash tag puts them into one slot of a Cluster. A refund removes its own attempt,
// so it can be repeated and does not change a later window. A failover may lose the
// attempts of the second before it.
//
// Networks of IPv6 are so many that their windows could fill Redis, and nobody could log in. So of each limiter the
// newest are kept of the windows of attempts that count in several. A window that a refund has ended is none of them.
package ratelimit

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed" // the Lua scripts
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/services/auth/internal/newest"
	"github.com/pforte/pforte/services/auth/internal/secrets"
)

const (
	stepTimeout = 1500 * time.Millisecond // of one step in Redis
	maxKey      = 64                      // bytes; a longer key is replaced by its hash
	widening    = 4                       // factor between the limits of a key and the next wider one
	attemptSize = 80                      // bytes of an attempt in a window, roughly
	windowSize  = 64 * newest.PlaceBytes  // the most that a window counts for, whatever its limit
)

var (
	//go:embed lua/spend.lua
	luaSpend string
	//go:embed lua/refund.lua
	luaRefund string
)

// errReply is returned for a reply that the script cannot produce.
var errReply = errors.New("redis: unexpected reply of the script")

// Options configure a Limiter. All fields are required.
type Options struct {
	Client redis.UniversalClient
	// App begins all keys in Redis; it has no braces. Name separates the keys of
	// this limiter from those of others.
	App, Name string
	Limit     int           // attempts of the first key in a window, at least 1
	Window    time.Duration // at least a millisecond
}

// LimitedError says that an attempt was refused because of those before it.
type LimitedError struct {
	Limit Decision
	Err   error // what there were too many of
}

func (e *LimitedError) Error() string { return e.Err.Error() }
func (e *LimitedError) Unwrap() error { return e.Err }

// Create returns a Limiter with the Name, Limit and Window that it is called with.
type Create func(name string, limit int, window time.Duration) (*Limiter, error)

// Limiter allows each key a number of attempts per window. A window begins with an attempt where none has begun.
//
// An attempt may have several keys, from the narrowest to the widest (an address, its network, the network of that).
// It counts in all of them, and each has 4 times the attempts of the one before. Keys that occur together must always
// do so, in the same order.
type Limiter struct {
	options       Options
	spend, refund *redis.Script
	kept          *newest.List // the windows of attempts that count in several
}

// New checks the options and returns a Limiter.
func New(o Options) (*Limiter, error) {
	if o.Client == nil || o.App == "" || o.Name == "" || o.Limit <= 0 || o.Window < time.Millisecond {
		return nil, errors.New("limiter: client, app, name, limit or window is not set")
	}
	o.Window = o.Window.Truncate(time.Millisecond)
	return &Limiter{
		options: o, spend: redis.NewScript(luaSpend), refund: redis.NewScript(luaRefund),
		kept: newest.New(o.Client, o.App, "limit:"+o.Name, o.Window),
	}, nil
}

// Decision is the result for an attempt. With several keys the numbers are those of the window with
// the fewest attempts left; of several such windows, of the one that ends last.
type Decision struct {
	Allowed   bool // a refused attempt is not counted
	Limit     int  // how many attempts the window permits
	Window    time.Duration
	Remaining int
	Reset     time.Duration // until the window ends; the whole Window when none has begun

	attempt attempt
}

// attempt is what Redis counts: an id in the windows, each with its limit.
type attempt struct {
	id      string
	windows []string
	limits  []int
}

// ResetSeconds returns Reset in whole seconds, rounded up: the window has ended by then.
func (d Decision) ResetSeconds() int { return ceilSeconds(d.Reset) }

// WindowSeconds returns Window in whole seconds, rounded up.
func (d Decision) WindowSeconds() int { return ceilSeconds(d.Window) }

func ceilSeconds(d time.Duration) int {
	return int((d + time.Second - 1) / time.Second)
}

// Spend counts one attempt, in the windows of all keys or, when one has none left, in
// none. It goes on when ctx is cancelled, so that a client cannot avoid the count by
// hanging up. On an error the attempt must not be made.
func (l *Limiter) Spend(ctx context.Context, keys ...string) (Decision, error) {
	d, err := l.count(ctx, l.newAttempt(keys))
	if err != nil {
		return Decision{}, fmt.Errorf("count attempt: %w", err)
	}
	return d, nil
}

// count does what Spend does for an attempt. It may be repeated: one attempt counts once.
func (l *Limiter) count(ctx context.Context, a attempt) (Decision, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepTimeout)
	defer cancel()
	args := []any{a.id, l.options.Window.Milliseconds()}
	for _, limit := range a.limits {
		args = append(args, limit)
	}
	d, counts, err := l.run(ctx, l.spend, a, args...)
	if err != nil || !d.Allowed || len(a.windows) == 1 {
		return d, err
	}
	for i, window := range a.windows {
		if counts[i] != 1 { // it has begun before
			continue
		}
		if err := l.kept.Add(ctx, window, sizeOf(a.limits[i])); err != nil {
			return Decision{}, err
		}
	}
	return d, nil
}

// sizeOf returns what a window of a limit counts for, in bytes.
func sizeOf(limit int) int { return min(limit, windowSize/attemptSize) * attemptSize }

// Refund removes the attempt of an allowed decision from its windows and returns the
// new state. It is idempotent and changes no later window. Like Spend it goes on when
// ctx is cancelled, but not beyond ctx's deadline.
func (l *Limiter) Refund(ctx context.Context, d Decision) (Decision, error) {
	if !d.Allowed {
		return d, nil
	}
	bound := stepTimeout
	if deadline, ok := ctx.Deadline(); ok {
		bound = min(bound, time.Until(deadline))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bound)
	defer cancel()
	refunded, counts, err := l.run(ctx, l.refund, d.attempt, d.attempt.id)
	for i, window := range d.attempt.windows {
		if err != nil || len(counts) == 1 {
			break
		}
		if counts[i] == 0 { // else attempts that do not count would have the windows of others forgotten
			err = l.kept.Remove(ctx, window, sizeOf(d.attempt.limits[i]))
		}
	}
	if err != nil {
		return Decision{}, fmt.Errorf("refund attempt: %w", err)
	}
	refunded.Allowed = true
	return refunded, nil
}

// run runs a script, which returns whether the attempt is counted and, for each window,
// its attempts and the milliseconds to its end. It also returns the attempts of each window.
func (l *Limiter) run(
	ctx context.Context, script *redis.Script, a attempt, args ...any,
) (tightest Decision, counts []int, err error) {
	reply, err := script.Run(ctx, l.options.Client, a.windows, args...).Int64Slice()
	if err != nil {
		return Decision{}, nil, fmt.Errorf("redis: %w", err)
	}
	if len(reply) != 1+2*len(a.windows) {
		return Decision{}, nil, errReply
	}
	for i, limit := range a.limits {
		attempts, left := int(reply[1+2*i]), time.Duration(reply[2+2*i])*time.Millisecond
		counts = append(counts, attempts)
		if attempts == 0 {
			left = l.options.Window
		}
		d := Decision{
			Allowed: reply[0] == 1, Limit: limit, Window: l.options.Window,
			Remaining: max(0, limit-attempts), Reset: max(0, left), attempt: a,
		}
		if i == 0 || cmp.Or(cmp.Compare(d.Remaining, tightest.Remaining), cmp.Compare(tightest.Reset, d.Reset)) < 0 {
			tightest = d
		}
	}
	return tightest, counts, nil
}

// newAttempt returns an attempt in the windows of keys. Several share the last one as
// hash tag, and so a slot.
func (l *Limiter) newAttempt(keys []string) attempt {
	a, limit := attempt{id: rand.Text()}, l.options.Limit
	for _, key := range keys {
		if len(key) > maxKey {
			key = secrets.Hash(key)
		}
		a.windows, a.limits = append(a.windows, l.options.Name+":"+key), append(a.limits, limit)
		limit = min(limit, math.MaxInt/widening) * widening
	}
	prefix := l.options.App + ":limit:"
	if len(keys) > 1 {
		prefix += "{" + a.windows[len(keys)-1] + "}:"
	}
	for i := range a.windows {
		a.windows[i] = prefix + a.windows[i]
	}
	return a
}
