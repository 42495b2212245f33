package rpc

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// Options are what a Reader needs. Zero values mean the defaults named.
type Options struct {
	Chain chain.Config

	// Memory bounds what all readers that share it hold; nil means one of its
	// own with the default bounds.
	Memory *Memory

	Log   *slog.Logger     // default: nothing is logged
	Hooks Hooks            // default: nothing is counted
	Now   func() time.Time // default: time.Now
}

// Defaults of chain.Config's bounds and of Memory.
const (
	DefaultRPCTimeout  = 5 * time.Second
	DefaultMaxHeadAge  = time.Minute
	DefaultCacheBytes  = 64 << 20
	DefaultFlightBytes = 128 << 20
)

// Memory is the proven blocks that are kept and the budget for answers under
// way. Several readers may share one.
type Memory struct {
	cache  *cache
	budget *budget
}

// NewMemory gives room for cacheBytes of proven blocks and about flightBytes of
// node answers being read at once (the largest ones add up to 128 MiB, one at a
// time). Zero means the defaults.
func NewMemory(cacheBytes, flightBytes int64) *Memory {
	if cacheBytes <= 0 {
		cacheBytes = DefaultCacheBytes
	}
	if flightBytes <= 0 {
		flightBytes = DefaultFlightBytes
	}
	return &Memory{cache: newCache(cacheBytes), budget: newBudget(flightBytes)}
}

// Cached tells how many bytes and blocks are kept now.
func (m *Memory) Cached() (bytes int64, blocks int) { return m.cache.size() }

// Hooks are told what happens, for metrics. They must be quick and safe for
// concurrent use; nil ones are skipped.
type Hooks struct {
	// RPC is one exchange with a node: its host, the method or "batch".
	RPC func(node, method string, took time.Duration, err error)
	// Cache is a look for a proven transaction.
	Cache func(hit bool)
	// Proof is a block proven, or not.
	Proof func(transactions int, took time.Duration, err error)
	// Heads is how far the chain has come.
	Heads func(chain.Heads)
}

func (h Hooks) filled() Hooks {
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

func (o Options) filled() Options {
	if o.Memory == nil {
		o.Memory = NewMemory(0, 0)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Chain.RPCTimeout <= 0 {
		o.Chain.RPCTimeout = DefaultRPCTimeout
	}
	if o.Chain.MaxHeadAge <= 0 {
		o.Chain.MaxHeadAge = DefaultMaxHeadAge
	}
	o.Hooks = o.Hooks.filled()
	return o
}

// endpoints makes one for each URL. An error never holds the URL itself.
func (o Options) endpoints() ([]*endpoint, error) {
	client := newHTTPClient()
	var list []*endpoint
	var faults []error
	for i, raw := range o.Chain.RPCURLs {
		u, err := url.Parse(raw)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			faults = append(faults, fmt.Errorf("RPC URL %d is not an http or https URL", i+1))
			continue
		}
		name := u.Host
		if slices.ContainsFunc(list, func(e *endpoint) bool { return e.name == name }) {
			name = fmt.Sprintf("%s#%d", u.Host, i+1) // a second key at the same provider
		}
		list = append(list, &endpoint{
			name: name, url: raw, timeout: o.Chain.RPCTimeout, client: client, hooks: o.Hooks, log: o.Log, now: o.Now,
		})
	}
	return list, errors.Join(faults...)
}
