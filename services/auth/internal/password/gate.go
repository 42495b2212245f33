package password

import (
	"context"
	"slices"
	"sync"
)

// gate is a semaphore with a bounded queue that is fair between client networks:
// networks with waiting callers are served in rotation, each in the order of arrival,
// and when the queue is full the last caller of the network with the most is refused
// in favour of one with fewer. So no network can exclude the others.
type gate struct {
	slots, queue int

	mu      sync.Mutex
	running int
	refused uint64
	round   int       // of the caller that last got a slot from the queue
	waiting []*caller // by round, then by arrival
}

// caller waits for a slot. A network's callers are in successive rounds of the rotation; the
// first one joins the round that begins next.
type caller struct {
	network string
	round   int
	turn    chan error // receives nil when the caller holds a slot, or ErrBusy
}

// acquire returns nil when the caller holds a slot; release must follow. ErrBusy, or ctx's error.
func (g *gate) acquire(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	network, _ := ctx.Value(networkKey{}).(string)
	c, err := g.join(network)
	if c == nil {
		return err
	}
	select {
	case err := <-c.turn:
		return err
	case <-ctx.Done():
	}
	if !g.quit(c) && <-c.turn == nil {
		g.release() // the slot was assigned in the same instant
	}
	return ctx.Err()
}

// join assigns a slot and returns nil, nil, refuses and returns ErrBusy, or queues a caller and returns it.
func (g *gate) join(network string) (*caller, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running < g.slots {
		g.running++
		return nil, nil
	}
	c := &caller{network: network, round: g.round + 1, turn: make(chan error, 1)}
	callers, longest := map[string]int{network: 1}, network
	for _, other := range g.waiting {
		callers[other.network]++
		if callers[other.network] > callers[longest] {
			longest = other.network
		}
		if other.network == network {
			c.round = other.round + 1
		}
	}
	if len(g.waiting) >= g.queue {
		g.refused++
		if callers[longest] == callers[network] {
			return nil, ErrBusy
		}
		last := len(g.waiting) - 1
		for g.waiting[last].network != longest {
			last--
		}
		g.waiting[last].turn <- ErrBusy
		g.waiting = slices.Delete(g.waiting, last, last+1)
	}
	place, _ := slices.BinarySearchFunc(g.waiting, c.round, func(other *caller, round int) int {
		if other.round <= round {
			return -1
		}
		return 1
	})
	g.waiting = slices.Insert(g.waiting, place, c)
	return c, nil
}

// quit removes a caller from the queue, and reports whether it was there.
func (g *gate) quit(c *caller) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.waiting, c)
	if i < 0 {
		return false
	}
	g.waiting = slices.Delete(g.waiting, i, i+1)
	return true
}

// release passes the slot on to the first caller of the queue, if there is one.
func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		g.running--
		return
	}
	next := g.waiting[0]
	g.waiting, g.round = slices.Delete(g.waiting, 0, 1), next.round
	next.turn <- nil
}

func (g *gate) stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	return Stats{Computing: g.running, Waiting: len(g.waiting), Refused: g.refused}
}

type networkKey struct{}

// From returns a context with the client's network: a Hasher is fair between
// networks. Without it the network is "".
func From(ctx context.Context, network string) context.Context {
	return context.WithValue(ctx, networkKey{}, network)
}
