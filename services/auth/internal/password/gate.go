package password

import (
	"context"
	"slices"
	"sync"
)

// gate lets a number of callers in at a time, and a number wait. It is fair
// between the networks that they come from: those with somebody waiting are
// served in rotation, each in the order of arrival, and when the queue is full
// the network that has the most in it makes room for one that has fewer. So no
// network, however many it sends, keeps the others out.
type gate struct {
	slots, queue int

	mu      sync.Mutex
	inside  int
	waiting int
	refused uint64
	lines   []*line // of the networks with callers waiting, the next one first
}

// line is the queue of one network.
type line struct {
	network string
	callers []chan error // each gets nil when it is in, or ErrBusy
}

func newGate(slots, queue int) *gate {
	return &gate{slots: slots, queue: queue}
}

// enter returns nil when the caller is in; leave must follow.
func (g *gate) enter(ctx context.Context) error {
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
		g.leave() // its turn came in the same instant
	}
	return ctx.Err()
}

// join lets the caller in (nil, nil), refuses (nil, ErrBusy), or queues.
func (g *gate) join(network string) (chan error, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside < g.slots {
		g.inside++
		return nil, nil
	}
	own := g.find(network)
	if g.waiting >= g.queue && !g.makeRoom(own) {
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

// makeRoom refuses the last caller of the longest line if that is longer than
// own would become.
func (g *gate) makeRoom(own *line) bool {
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

// quit takes a caller out of the queue, and reports whether it was there.
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

// leave lets the next network's first caller in.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.lines) == 0 {
		g.inside--
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

// remove takes the i-th caller out of a line, and a line without callers away.
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
	return Stats{Computing: g.inside, Waiting: g.waiting, Refused: g.refused}
}

type networkKey struct{}

// From says for which network a password is computed: a Hasher is fair between
// networks. Without it, the network is the one without a name.
func From(ctx context.Context, network string) context.Context {
	return context.WithValue(ctx, networkKey{}, network)
}
