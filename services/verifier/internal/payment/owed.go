package payment

import (
	"context"
	"sync"
	"time"
)

// maxOwed bounds what is remembered while the ledger cannot be written.
const maxOwed = 10_000

// debts are ends of sales that the ledger could not be told: its disk was full,
// or it was away. The records look as if this process still worked on them, and
// would keep their buyers out until the deadline.
type debts struct {
	mu  sync.Mutex
	all map[Key]debt
}

// debt is one write. After until the record is anybody's, and is left alone.
type debt struct {
	until time.Time
	write func(context.Context) error
}

// owe remembers a write that has failed.
func (g *Gate) owe(key Key, d debt) {
	g.owed.mu.Lock()
	defer g.owed.mu.Unlock()
	if g.owed.all == nil {
		g.owed.all = map[Key]debt{}
	}
	if len(g.owed.all) < maxOwed {
		g.owed.all[key] = d
	}
}

// repay makes the write that is owed for a payment, if there is one, before
// anything else is done for it.
func (g *Gate) repay(ctx context.Context, key Key) error {
	g.owed.mu.Lock()
	d, owed := g.owed.all[key]
	delete(g.owed.all, key)
	g.owed.mu.Unlock()
	if !owed || !g.Now().Before(d.until) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ledgerTimeout)
	defer cancel()
	if err := d.write(ctx); err != nil {
		g.owe(key, d)
		return ledgerFault(err)
	}
	return nil
}

// repayAll makes the writes that are owed for payments that nobody comes back
// with, until one fails.
func (g *Gate) repayAll(ctx context.Context) {
	g.owed.mu.Lock()
	keys := make([]Key, 0, len(g.owed.all))
	for key := range g.owed.all {
		keys = append(keys, key)
	}
	g.owed.mu.Unlock()
	for _, key := range keys {
		if ctx.Err() != nil || g.repay(ctx, key) != nil {
			return
		}
	}
}
