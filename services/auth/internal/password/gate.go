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
	waiting int
	refused uint64
	lines   []*line // of the networks with waiting callers, the next one first
}

// line is the queue of one network.
type line struct {
	network string
	callers []chan error // each receives nil when it holds a slot, or ErrBusy
}

func newGate(slots, queue int) *gate {
	return &gate{slots: slots, queue: queue}
}

// acquire returns nil when the caller holds a slot; release must follow.
func (g *gate) acquire(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	network, _ := ctx.Value(networkKey{}).(string)
	caller, err := g.join(network)
	if caller == nil {
		return err
	}
	select {
	case err := <-caller:
		return err
	case <-ctx.Done():
	}
	if !g.quit(network, caller) && <-caller == nil {
		g.release() // the slot was assigned in the same instant
	}
	return ctx.Err()
}

// join assigns a slot (nil, nil), refuses (nil, ErrBusy), or queues the caller.
func (g *gate) join(network string) (chan error, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running < g.slots {
		g.running++
		return nil, nil
	}
	own := g.find(network)
	if g.waiting >= g.queue && !g.evict(own) {
		g.refused++
		return nil, ErrBusy
	}
	if own == nil {
		own = &line{network: network}
		g.lines = append(g.lines, own)
	}
	caller := make(chan error, 1)
	own.callers = append(own.callers, caller)
	g.waiting++
	return caller, nil
}

// evict refuses the last caller of the longest line if that is longer than own would
// become, and reports whether it did.
func (g *gate) evict(own *line) bool {
	longest := slices.MaxFunc(g.lines, func(a, b *line) int { return len(a.callers) - len(b.callers) })
	length := 1
	if own != nil {
		length += len(own.callers)
	}
	if len(longest.callers) <= length {
		return false
	}
	g.remove(longest, len(longest.callers)-1) <- ErrBusy
	g.refused++
	return true
}

// quit removes a caller from the queue, and reports whether it was there.
func (g *gate) quit(network string, caller chan error) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	own := g.find(network)
	if own == nil {
		return false
	}
	i := slices.Index(own.callers, caller)
	if i < 0 {
		return false
	}
	g.remove(own, i)
	return true
}

// release passes the slot on to the next network's first caller.
func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.lines) == 0 {
		g.running--
		return
	}
	next := g.lines[0]
	g.lines = append(g.lines[1:], next)
	g.remove(next, 0) <- nil
}

func (g *gate) find(network string) *line {
	for _, l := range g.lines {
		if l.network == network {
			return l
		}
	}
	return nil
}

// remove removes the i-th caller of a line, and the line with its last caller.
func (g *gate) remove(l *line, i int) chan error {
	caller := l.callers[i]
	l.callers = slices.Delete(l.callers, i, i+1)
	g.waiting--
	if len(l.callers) == 0 {
		g.lines = slices.DeleteFunc(g.lines, func(other *line) bool { return other == l })
	}
	return caller
}

func (g *gate) stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	return Stats{Computing: g.running, Waiting: g.waiting, Refused: g.refused}
}

type networkKey struct{}

// From returns a context with the client's network: a Hasher is fair between
// networks. Without it the network is "".
func From(ctx context.Context, network string) context.Context {
	return context.WithValue(ctx, networkKey{}, network)
}
