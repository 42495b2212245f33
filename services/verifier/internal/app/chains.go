package app

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/chain/rpc"
	"github.com/pforte/pforte/services/verifier/internal/httpapi"
	"github.com/pforte/pforte/services/verifier/internal/verification"
)

// chains are the readers of all chains.
type chains struct {
	readers []*rpc.Reader
	// seen is set once all chains have been reached.
	seen atomic.Bool
}

func openChains(ctx context.Context, s settings, registry *prometheus.Registry, log *slog.Logger) (*chains, error) {
	all := &chains{}
	memory := rpc.NewMemory(int64(s.Chain.CacheBytes), 0)
	metrics, err := httpapi.NewChainMetrics(registry, memory.Cached)
	if err != nil {
		return nil, err
	}
	for _, c := range s.chains {
		reader, err := rpc.Open(ctx, rpc.Options{Chain: c, Memory: memory, Hooks: hooks(c.Name, metrics), Log: log})
		if err != nil {
			return nil, fmt.Errorf("open the chain %s: %w", c.Name, err)
		}
		if err := httpapi.RegisterQuorum(registry, c.Name, reader.HasHeads); err != nil {
			return nil, err
		}
		all.readers = append(all.readers, reader)
	}
	return all, nil
}

// hooks count what one chain's reader does.
func hooks(name string, m *httpapi.ChainMetrics) rpc.Hooks {
	return rpc.Hooks{
		RPC:   func(node, method string, took time.Duration, err error) { m.Exchanged(name, node, method, took, err) },
		Cache: func(hit bool) { m.LookedUp(name, hit) },
		Proof: func(_ int, took time.Duration, err error) { m.Proved(name, took, err) },
		Heads: func(heads chain.Heads) { m.Reached(name, heads) },
	}
}

// run watches the heads of all chains until ctx ends.
func (c *chains) run(ctx context.Context) {
	var all sync.WaitGroup
	for _, reader := range c.readers {
		all.Go(func() { reader.Run(ctx) })
	}
	all.Wait()
}

// reached fails until the heads of every chain have been read once. Later a chain
// that cannot be reached is an error of the requests for it (422), because other
// chains, documents and paid answers can still be served.
func (c *chains) reached(ctx context.Context) error {
	if c.seen.Load() {
		return nil
	}
	for _, reader := range c.readers {
		if _, err := reader.Reached(ctx); err != nil {
			return fmt.Errorf("chain %s: %w", reader.Identity().Name, err)
		}
	}
	c.seen.Store(true)
	return nil
}

// api returns the chains as they are served.
func (c *chains) api() []httpapi.Chain {
	var list []httpapi.Chain
	for _, reader := range c.readers {
		list = append(list, httpapi.Chain{Name: reader.Identity().Name, Verifier: verification.Verifier{Reader: reader}})
	}
	return list
}
