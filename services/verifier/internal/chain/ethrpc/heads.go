package ethrpc

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// heads is how far the chain has come by the word of a quorum: with a quorum of
// k, the k-th highest of what the endpoints say. Both numbers only grow, so that
// an answer that was given once stays true, whatever node a balancer picks next.
type heads struct {
	mu                sync.Mutex
	latest, finalized uint64
	blockTime         time.Duration
	raised            time.Time // when a quorum last told them; zero = never
	asked             time.Time // when somebody last wanted to know
}

// A head that is further ahead of what is known than any chain runs is another
// chain's, or a fault. As heads only grow, believing it once would make every
// block final for ever.
const (
	fastest = 100       // blocks a second
	leap    = 1_000_000 // blocks that are always believed, for development chains
)

// believable tells whether the chain can have come as far as that.
func (h *heads) believable(latest uint64, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.raised.IsZero() || latest <= h.latest {
		return true
	}
	return latest-h.latest <= leap+fastest*uint64(max(now.Sub(h.raised)/time.Second, 0))
}

// Heads implements chain.Reader. It asks the nodes itself when the poller's last
// word is older than the bound, once for all who wait.
func (r *Reader) Heads(ctx context.Context) (chain.Heads, error) {
	r.heads.touch(r.now())
	if h, age := r.agreed(); age <= r.maxHeadAge {
		return h, nil
	}
	return r.refreshedHeads(ctx)
}

// refreshedHeads asks the nodes now.
func (r *Reader) refreshedHeads(ctx context.Context) (chain.Heads, error) {
	done := r.flights.DoChan("heads", func() (any, error) {
		r.poll(context.WithoutCancel(ctx))
		return nil, nil
	})
	select {
	case <-done:
	case <-ctx.Done():
		return chain.Heads{}, fmt.Errorf("%w: %w", errGone, chain.ErrUnavailable)
	}
	if h, age := r.agreed(); age <= r.maxHeadAge {
		return h, nil
	}
	err := chain.ErrFinalityUnavailable
	if r.pool.allWrong() {
		err = chain.ErrWrongChain
	}
	return chain.Heads{}, chain.WithRetryAfter(err, r.pollInterval())
}

// agreed gives the heads and the age of the quorum's word for them.
func (r *Reader) agreed() (chain.Heads, time.Duration) {
	now := r.now()
	var latest, finalized []uint64
	var seen []time.Time
	for _, e := range r.pool.endpoints {
		h := e.lastHead()
		if h.at.IsZero() || now.Sub(h.at) > r.maxHeadAge || e.isWrongChain() {
			continue
		}
		latest, finalized, seen = append(latest, h.latest), append(finalized, h.finalized), append(seen, h.at)
	}
	age := r.maxHeadAge + 1
	if len(seen) >= r.quorum {
		slices.SortFunc(seen, func(a, b time.Time) int { return b.Compare(a) })
		age = now.Sub(seen[r.quorum-1])
		r.heads.raise(kthHighest(latest, r.quorum), kthHighest(finalized, r.quorum), seen[r.quorum-1])
	}
	return r.heads.current(), age
}

// Heard tells whether a quorum has lately said how far the chain is.
func (r *Reader) Heard() bool {
	_, age := r.agreed()
	return age <= r.maxHeadAge
}

func kthHighest(numbers []uint64, k int) uint64 {
	slices.Sort(numbers)
	return numbers[len(numbers)-k]
}

func (h *heads) raise(latest, finalized uint64, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.raised = at
	h.finalized = max(h.finalized, finalized)
	h.latest = max(h.latest, latest, h.finalized)
}

func (h *heads) current() chain.Heads {
	h.mu.Lock()
	defer h.mu.Unlock()
	return chain.Heads{Latest: h.latest, Finalized: h.finalized, BlockTime: h.blockTime}
}

// touch notes that somebody wants to know; idle tells for how long nobody did.
func (h *heads) touch(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = now
}

func (h *heads) idle(now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return now.Sub(h.asked)
}

// pace learns the time between blocks from the two heads' own timestamps.
func (h *heads) pace(one head) {
	if one.latest <= one.finalized || one.latestTime <= one.finalizedTime {
		return
	}
	span := time.Duration(one.latestTime-one.finalizedTime) * time.Second
	h.mu.Lock()
	defer h.mu.Unlock()
	h.blockTime = min(span/time.Duration(one.latest-one.finalized), time.Minute)
}
