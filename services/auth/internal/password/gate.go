package password

import (
	"context"
	"sync/atomic"
)

// gate lets a number of callers in at a time, and a number wait, in order.
type gate struct {
	slots   chan struct{}
	waiting atomic.Int64
	queue   int64
	refused atomic.Uint64
}

func newGate(slots, queue int) *gate {
	return &gate{slots: make(chan struct{}, slots), queue: int64(queue)}
}

// enter returns nil when the caller is in; leave must follow.
func (g *gate) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case g.slots <- struct{}{}:
		return nil
	default:
	}
	defer g.waiting.Add(-1)
	if g.waiting.Add(1) > g.queue {
		g.refused.Add(1)
		return ErrBusy
	}
	select {
	case g.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *gate) leave() { <-g.slots }

func (g *gate) stats() Stats {
	waiting := min(g.waiting.Load(), g.queue)
	return Stats{Computing: len(g.slots), Waiting: int(waiting), Refused: g.refused.Load()}
}
