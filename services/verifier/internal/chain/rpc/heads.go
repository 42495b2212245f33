package rpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// heads is what is remembered of the chain's heads beside the words of the
// endpoints, which each of them keeps for itself.
type heads struct {
	mu        sync.Mutex
	blockTime time.Duration
	asked     time.Time     // when a request last wanted to know; zero = never
	woken     chan struct{} // has a value when a request came after an idle time
}

// What a chain can do. A latest block from the future, or more new blocks than the
// time between them allows, are another chain's, or a fault.
const (
	future  = 2 * time.Minute // how far clocks may be apart
	fastest = 100             // blocks a second
	burst   = 1_000           // blocks that need no time, for development chains
)

// leaps reports whether to is further ahead of from than any chain runs.
func leaps(from, to head) bool {
	if to.latest <= from.latest {
		return false
	}
	seconds := uint64(0)
	if to.latestTime > from.latestTime {
		seconds = to.latestTime - from.latestTime
	}
	return (to.latest-from.latest)/fastest > seconds+burst/fastest
}

// Heads implements chain.Reader. It asks the nodes itself when their last word is
// older than the bound, once for all who wait.
//
// With a quorum of k, the heads are the k-th highest of what the endpoints said
// last. With a quorum of one they are the word of one endpoint, the best that
// answers, and not the highest of all: else every further endpoint were one more
// whose error counts.
func (r *Reader) Heads(ctx context.Context) (chain.Heads, error) {
	r.heads.touch(r.now())
	return r.Reached(ctx)
}

// Reached returns what Heads does, but does not count as a request: a probe that
// asks it keeps no node busy.
func (r *Reader) Reached(ctx context.Context) (chain.Heads, error) {
	if h, age := r.agreed(); age <= r.maxHeadAge {
		return h, nil
	}
	return r.refreshedHeads(ctx)
}

// refreshedHeads asks the nodes now.
func (r *Reader) refreshedHeads(ctx context.Context) (chain.Heads, error) {
	if err := r.look(ctx, nil); err != nil {
		return chain.Heads{}, err
	}
	if h, age := r.agreed(); age <= r.maxHeadAge {
		return h, nil
	}
	return chain.Heads{}, r.unheard()
}

// unheard is the error when too few endpoints say how far the chain is.
func (r *Reader) unheard() error {
	err := chain.ErrFinalityUnavailable
	if r.pool.allWrong() {
		err = chain.ErrWrongChain
	}
	return chain.WithRetryAfter(err, r.pollInterval())
}

// agreed returns the heads and the age of the word for them, which is above the
// bound when too few endpoints have a word within it.
func (r *Reader) agreed() (chain.Heads, time.Duration) {
	now := r.now()
	var words []head
	for _, e := range r.pool.byTrust() {
		if word, fresh := e.word(r.maxHeadAge); fresh {
			words = append(words, word)
		}
	}
	if len(words) < r.quorum {
		return chain.Heads{}, r.maxHeadAge + 1
	}
	if r.quorum == 1 {
		words = words[:1]
	}
	var latest, finalized []uint64
	var seen []time.Time
	for _, word := range words {
		latest, finalized, seen = append(latest, word.latest), append(finalized, word.finalized), append(seen, word.at)
	}
	slices.SortFunc(seen, func(a, b time.Time) int { return b.Compare(a) })
	return chain.Heads{
		Latest: kthHighest(latest, r.quorum), Finalized: kthHighest(finalized, r.quorum), BlockTime: r.heads.pace(),
	}, now.Sub(seen[r.quorum-1])
}

// Heard reports whether a quorum has lately said how far the chain is.
func (r *Reader) Heard() bool {
	_, age := r.agreed()
	return age <= r.maxHeadAge
}

func kthHighest(numbers []uint64, k int) uint64 {
	slices.Sort(numbers)
	return numbers[len(numbers)-k]
}

// errElsewhere marks an error that another endpoint may not have: it says that
// the block is final, or may say so.
var errElsewhere = errors.New("by this node's word")

// final is nil when a block of that height may be proven from the endpoint: its
// own word, and that of a quorum with it, is that the chain is finalized up to
// there. Before it says no, it asks again whoever was not asked within a second.
func (r *Reader) final(ctx context.Context, e *endpoint, number uint64) error {
	r.heads.touch(r.now())
	own, all := r.standing(e, number)
	if !own || all < r.quorum {
		if err := r.look(ctx, e); err != nil {
			return err
		}
		own, all = r.standing(e, number)
	}
	switch heads, age := r.agreed(); {
	case own && all >= r.quorum:
		return nil
	case all >= r.quorum:
		return fmt.Errorf("%w: %w", errElsewhere, chain.ErrNotFinalized)
	case age > r.maxHeadAge:
		return r.unheard()
	default:
		return r.notFinal(number, heads)
	}
}

// notFinal says when a block of that height will be final.
func (r *Reader) notFinal(number uint64, heads chain.Heads) error {
	missing := uint64(1)
	if number > heads.Finalized {
		missing = number - heads.Finalized
	}
	return chain.WithRetryAfter(chain.ErrNotFinalized, heads.Wait(missing))
}

// standing reports whether the endpoint lately said that the chain is finalized
// up to a height, and how many endpoints did.
func (r *Reader) standing(e *endpoint, number uint64) (own bool, all int) {
	for _, other := range r.pool.endpoints {
		if word, fresh := other.word(r.maxHeadAge); fresh && word.finalized >= number {
			all++
			own = own || other == e
		}
	}
	return own, all
}

// touch notes that a request wants to know; after an idle time it wakes the poller.
func (h *heads) touch(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.isIdle(now) {
		select {
		case h.woken <- struct{}{}:
		default: // it is awake
		}
	}
	h.asked = now
}

// idle reports whether no request came for a while.
func (h *heads) idle(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.isIdle(now)
}

func (h *heads) isIdle(now time.Time) bool { return h.asked.IsZero() || now.Sub(h.asked) > idleAfter }

// learn takes the time between blocks from a head's own timestamps.
func (h *heads) learn(one head) {
	if one.latest <= one.finalized || one.latestTime <= one.finalizedTime {
		return
	}
	span := time.Duration(one.latestTime-one.finalizedTime) * time.Second
	h.mu.Lock()
	defer h.mu.Unlock()
	h.blockTime = min(span/time.Duration(one.latest-one.finalized), time.Minute)
}

// pace is an estimate of the time between blocks; zero when it is not known.
func (h *heads) pace() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.blockTime
}
