package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/services/verifier/internal/beaconchain"
	"github.com/pforte/pforte/services/verifier/internal/beaconchain/bundlesql"
	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/chain/beacon"
	"github.com/pforte/pforte/services/verifier/internal/chain/rpc"
	"github.com/pforte/pforte/services/verifier/internal/httpapi"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
)

// caip2 returns the CAIP-2 id of a chain.
func caip2(id uint64) string { return fmt.Sprintf("eip155:%d", id) }

// loadNetwork returns the beacon network of a chain; nil where it has no beacon nodes.
func loadNetwork(c chain.Config) (n *finality.Network, err error) {
	if len(c.BeaconURLs) == 0 {
		return nil, nil //nolint:nilnil // see above
	}
	id := caip2(c.ID)
	known := false
	if c.BeaconNetwork == "" {
		n, known = finality.NetworkOf(id)
	} else {
		n, known = finality.NetworkByName(c.BeaconNetwork)
	}
	switch {
	case known:
	case c.BeaconNetwork == "":
		return nil, fmt.Errorf("no network of %s is known; name a file that describes it", id)
	default:
		text, err := os.ReadFile(c.BeaconNetwork)
		if err != nil {
			return nil, fmt.Errorf("neither mainnet, sepolia or hoodi, nor a file: %w", err)
		}
		if n, err = finality.ParseNetwork(text); err != nil {
			return nil, err
		}
	}
	if n.ChainID != id {
		return nil, fmt.Errorf("%s is the network of %s, not of %s", n.Name, n.ChainID, id)
	}
	return n, nil
}

// withFinality returns the CAIP-2 ids of the chains that have proofs of finality.
func (s *settings) withFinality() (ids []string) {
	for i, c := range s.chains {
		if s.networks[i] != nil {
			ids = append(ids, caip2(c.ID))
		}
	}
	return ids
}

// openFinality opens the proofs of finality of the chains that have beacon nodes, and adds
// them to the chains that are served. It asks no beacon node: a chain whose beacon nodes do
// not answer sells all the same.
func (s *server) openFinality(ctx context.Context, memory *rpc.Memory, m *rpc.Metrics, served []httpapi.Chain) error {
	if len(s.withFinality()) == 0 {
		return nil
	}
	failures, err := beaconchain.NewFailures(s.Registry)
	if err != nil {
		return err
	}
	for i, c := range s.chains {
		if s.networks[i] == nil {
			continue
		}
		var nodes []chain.BeaconNode
		for _, url := range c.BeaconURLs {
			node, err := beacon.Open(url, cmp.Or(s.Chain.BeaconTimeout, beacon.DefaultTimeout))
			if err != nil {
				return fmt.Errorf("chain %s: %w", c.Name, err)
			}
			nodes = append(nodes, node)
		}
		// A reader of its own: what a node refuses here must not open the circuit of sales.
		blocks, err := rpc.Open(ctx, rpc.Options{
			Chain: c, Memory: memory, Log: s.Log, Hooks: rpc.Hooks{RPC: m.Hooks(c.Name).RPC},
		})
		if err != nil {
			return fmt.Errorf("open the chain %s: %w", c.Name, err)
		}
		opened, err := beaconchain.New(beaconchain.Options{
			Name: c.Name, Network: s.networks[i], Nodes: nodes, Blocks: blocks, Store: s.bundles(),
			Failed: failures.Of(c.Name), Log: s.Log, Now: time.Now,
		})
		if err != nil {
			return err
		}
		if err := opened.Register(s.Registry); err != nil {
			return err
		}
		served[i].Finality = opened
		s.finality = append(s.finality, opened)
	}
	return nil
}

// bundles returns the store of proofs of finality in the ledger's database.
func (s *server) bundles() *bundlesql.Store { return bundlesql.New(s.ledger.DB(), time.Now) }

// sold is the ledger with the proofs of finality of what was sold, which are kept as long as the answers.
type sold struct {
	*ledger.Ledger
	bundles *bundlesql.Store
}

// Prune implements payment.Upkeep.
func (s sold) Prune(ctx context.Context, before time.Time) error {
	return errors.Join(s.Ledger.Prune(ctx, before), s.bundles.Prune(ctx, before))
}

// runFinality makes proofs of finality until ctx ends.
func (s *server) runFinality(ctx context.Context) {
	var all sync.WaitGroup
	for _, c := range s.finality {
		all.Go(func() { c.Run(ctx) })
	}
	all.Wait()
}
