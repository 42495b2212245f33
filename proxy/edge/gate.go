package edge

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// gate bounds the requests of one kind that a service has. While there is no free place, requests wait
// in a queue; a place that gets free is for the waiting network with the fewest places, and within it for
// the oldest. When the queue is full too, the network with the most requests loses its newest one there,
// which may be the one that comes.
type gate struct {
	places, queue int
	wait          time.Duration
	refused       *refusalCounter

	mu sync.Mutex
	// taken is how many places are taken, and waiting how many requests are in the queue.
	taken, waiting int
	// clients counts requests with a place and in the queue; only those in the queue can be lost.
	clients shares[*waiter]
}

// waiter is a request in the queue.
type waiter struct {
	network *network[*waiter]
	// decided gets nil with a place, or why there is none.
	decided chan error
}

func newGate(places, queue int, wait time.Duration, count *refusalCounter) *gate {
	return &gate{places: places, queue: queue, wait: wait, refused: count}
}

// full reports whether a request of a client would be refused at once.
func (g *gate) full(client netip.Addr) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.taken < g.places || g.waiting < g.queue {
		return false
	}
	_, found := g.clients.loser(client, 1)
	return !found
}

// enter waits for a place, and returns it; leave gives it back. An error says that there is none:
// errBusy, or one with statusCanceled when ctx ends.
func (g *gate) enter(ctx context.Context, client netip.Addr) (place *network[*waiter], err error) {
	g.mu.Lock()
	if g.taken < g.places {
		g.taken++
		place = g.clients.enter(client)
		g.mu.Unlock()
		return place, nil
	}
	if g.waiting >= g.queue {
		loser, found := g.clients.loser(client, 1)
		if !found {
			g.mu.Unlock()
			g.refused.add()
			return nil, errBusy
		}
		g.remove(loser)
		loser.decided <- errBusy
	}
	w := &waiter{network: g.clients.enter(client), decided: make(chan error, 1)}
	g.clients.canLose(w.network, w)
	g.waiting++
	g.mu.Unlock()

	timeout := time.NewTimer(g.wait)
	defer timeout.Stop()
	select {
	case err = <-w.decided:
	case <-timeout.C:
		err = g.giveUp(w, errBusy)
	case <-ctx.Done():
		err = g.giveUp(w, caddyhttp.Error(statusCanceled, ctx.Err()))
	}
	if err == errBusy { //nolint:errorlint // no other is it
		g.refused.add()
	}
	return w.network, err
}

// giveUp takes a request out of the queue and returns why, or what was decided about it before.
func (g *gate) giveUp(w *waiter, why error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if slices.Contains(w.network.lose, w) {
		g.remove(w)
		return why
	}
	return <-w.decided
}

func (g *gate) remove(w *waiter) {
	g.waiting--
	g.clients.lost(w.network, w)
	g.clients.add(w.network, -1)
}

// leave gives a place back, or on to a request in the queue.
func (g *gate) leave(place *network[*waiter]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.clients.add(place, -1)
	if g.waiting == 0 {
		g.taken--
		return
	}
	next := g.clients.next()
	g.waiting--
	g.clients.lost(next.network, next)
	next.decided <- nil
}
