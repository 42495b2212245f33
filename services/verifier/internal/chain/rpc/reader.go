package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/pforte/pforte/pkg/flight"
	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/evm"
)

// Options are what a Reader needs. Only Chain is required.
type Options struct {
	Chain chain.Config // as config.ValidateChain accepts it

	// Memory bounds what all readers that share it hold; nil means one of its own
	// with the default bounds.
	Memory *Memory

	Log   *slog.Logger     // nil: nothing is logged
	Hooks Hooks            // nil ones are skipped
	Now   func() time.Time // nil: time.Now
}

// Defaults of chain.Config's bounds.
const (
	DefaultRPCTimeout = 5 * time.Second
	DefaultMaxHeadAge = time.Minute
)

// Hooks are called for metrics. They must be quick and safe for concurrent use.
type Hooks struct {
	// RPC is called after an exchange with a node: the node's name, the method or "batch".
	RPC func(node, method string, took time.Duration, err error)
	// Cache is called when Read has looked whether the block of the transaction is kept as proven.
	Cache func(hit bool)
	// Proof is called after an attempt to prove a block; err is nil if it is proven.
	Proof func(transactions int, took time.Duration, err error)
	// Heads is called after each poll of Run with how far the chain is, if that is known.
	Heads func(chain.Heads)
}

// complete returns the hooks with one that does nothing for each that is nil.
func (h Hooks) complete() Hooks {
	if h.RPC == nil {
		h.RPC = func(string, string, time.Duration, error) {}
	}
	if h.Cache == nil {
		h.Cache = func(bool) {}
	}
	if h.Proof == nil {
		h.Proof = func(int, time.Duration, error) {}
	}
	if h.Heads == nil {
		h.Heads = func(chain.Heads) {}
	}
	return h
}

// Reader reads transactions over the JSON-RPC endpoints of one chain.
type Reader struct {
	identity   chain.Identity
	quorum     int
	timeout    time.Duration
	maxHeadAge time.Duration
	client     *http.Client
	endpoints  []*endpoint // best first
	memory     *Memory
	usage      usage
	sightings  *sightings
	polls      flight.Group[*endpoint, struct{}]
	reads      flight.Group[common.Hash, reading]
	blocks     flight.Group[blockKey, *evm.ProvenBlock]
	hooks      Hooks
	log        *slog.Logger
	now        func() time.Time
}

// Open reads chain id and heads of every endpoint. An endpoint that serves another
// chain is an error, and so is a URL that cannot be parsed. One that does not answer is
// no error: it may do so later.
func Open(ctx context.Context, o Options) (*Reader, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	r := &Reader{
		identity:   o.Chain.Identity(),
		quorum:     o.Chain.Agreeing(),
		timeout:    cmp.Or(o.Chain.RPCTimeout, DefaultRPCTimeout),
		maxHeadAge: cmp.Or(o.Chain.MaxHeadAge, DefaultMaxHeadAge),
		client:     newHTTPClient(),
		memory:     cmp.Or(o.Memory, NewMemory(0, 0)),
		hooks:      o.Hooks.complete(),
		log:        cmp.Or(o.Log, slog.New(slog.DiscardHandler)),
		now:        o.Now,
		sightings:  newSightings(),
		usage:      usage{resumed: make(chan struct{}, 1)},
	}
	for i, raw := range o.Chain.RPCURLs {
		u, err := url.Parse(raw)
		if err != nil {
			return nil, fmt.Errorf("RPC URL %d cannot be parsed", i+1) // the URL may hold a key
		}
		name := u.Host
		if slices.ContainsFunc(r.endpoints, func(e *endpoint) bool { return e.name == name }) {
			name = fmt.Sprintf("%s#%d", u.Host, i+1) // a second key at the same provider
		}
		r.endpoints = append(r.endpoints, &endpoint{Reader: r, name: name, url: raw})
	}
	if r.quorum == 1 && len(r.endpoints) > 1 {
		r.log.Warn("a single node decides that a block is final, and any of the nodes may be that one: set "+
			"CHAIN_RPC_QUORUM, or the quorum in CHAINS_FILE, to 2 or more",
			"chain", r.identity.Name, "nodes", len(r.endpoints))
	}
	return r, r.firstPoll(ctx)
}

// firstPoll polls all endpoints and returns an error for those of another chain.
func (r *Reader) firstPoll(ctx context.Context) error {
	faults := make([]error, len(r.endpoints))
	var all sync.WaitGroup
	for i, e := range r.endpoints {
		all.Go(func() {
			err := guarded(r.log, func() error { return r.pollEndpoint(ctx, e) })
			switch {
			case errors.Is(err, chain.ErrWrongChain):
				faults[i] = fmt.Errorf("chain %s is %d: %s: %w", r.identity.Name, r.identity.ID, e.name, err)
			case err != nil:
				r.log.Warn("node does not answer yet", "chain", r.identity.Name, "error",
					fmt.Errorf("%s: %w", e.name, err))
			}
		})
	}
	all.Wait()
	return errors.Join(faults...)
}

// Identity returns name and id of the chain.
func (r *Reader) Identity() chain.Identity { return r.identity }
