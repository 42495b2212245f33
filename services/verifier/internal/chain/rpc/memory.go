package rpc

import (
	"bytes"
	"container/list"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"golang.org/x/sync/semaphore"

	"github.com/pforte/pforte/services/verifier/internal/evm"
)

// Memory bounds the proven blocks that are kept and the responses under way. Several
// readers may share one.
type Memory struct {
	cache  *cache
	budget *semaphore.Weighted // bytes of responses
}

// Defaults of Memory, in bytes.
const (
	DefaultCacheBytes    = 64 << 20
	DefaultResponseBytes = 128 << 20
)

// NewMemory returns a Memory for cacheBytes of proven blocks and responseBytes of
// responses that are being read. Zero means the defaults.
func NewMemory(cacheBytes, responseBytes int64) *Memory {
	if cacheBytes <= 0 {
		cacheBytes = DefaultCacheBytes
	}
	if responseBytes <= 0 {
		responseBytes = DefaultResponseBytes
	}
	return &Memory{cache: newCache(cacheBytes), budget: semaphore.NewWeighted(max(responseBytes, blockBytes))}
}

// Cached returns how many bytes and blocks are kept now.
func (m *Memory) Cached() (bytes int64, blocks int) { return m.cache.size() }

// Sizes of JSON bodies.
const (
	maxBody     = 64 << 20 // one response
	blockBytes  = 8 << 20  // reserved for the responses about one block
	lookupBytes = 1 << 20  // reserved for those about one transaction
	maxHeadBody = 6 << 20  // a response about heads, which reserves nothing: three blocks of 25,000 transaction hashes
)

// reservation is a part of the budget. What it reserves at first it waits for;
// beyond that it takes what is free and never waits, so that no two wait for each
// other.
type reservation struct {
	budget   *semaphore.Weighted
	mu       sync.Mutex // calls may run at the same time
	reserved int64
	used     int64
}

func reserve(ctx context.Context, budget *semaphore.Weighted, bytes int64) (*reservation, error) {
	if err := budget.Acquire(ctx, bytes); err != nil {
		return nil, errNoMemory
	}
	return &reservation{budget: budget, reserved: bytes}, nil
}

func (r *reservation) release() { r.budget.Release(r.reserved) }

// take accounts for n more bytes.
func (r *reservation) take(n int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	missing := r.used + n - r.reserved
	if missing > 0 {
		if !r.budget.TryAcquire(missing) {
			return errNoMemory
		}
		r.reserved += missing
	}
	r.used += n
	return nil
}

// readBody reads a response piece by piece, so that no more memory is taken than was
// accounted for.
func readBody(from io.Reader, r *reservation) ([]byte, error) {
	limit := maxBody
	if r == nil {
		limit = maxHeadBody
	}
	var body bytes.Buffer
	for {
		n, err := io.CopyN(&body, from, 64<<10)
		if r != nil {
			if err := r.take(n); err != nil {
				return nil, err
			}
		}
		switch {
		case body.Len() > limit:
			return nil, errTooLarge
		case errors.Is(err, io.EOF):
			return body.Bytes(), nil
		case err != nil:
			return nil, err
		}
	}
}

// cache keeps proven blocks, the least recently used ones only as far as a limit on
// memory allows. A proven, finalized block never changes, so nothing expires.
type cache struct {
	mu           sync.Mutex
	limit        int64
	used         int64
	recent       *list.List // of *evm.ProvenBlock, most recently used first
	blocks       map[cacheKey]*list.Element
	transactions map[cacheKey]*list.Element
}

// cacheKey names a block or a transaction. The chain is part of it: the same
// unprotected transaction can exist on several.
type cacheKey struct {
	chainID uint64
	hash    common.Hash
}

func newCache(limit int64) *cache {
	return &cache{
		limit: limit, recent: list.New(),
		blocks: map[cacheKey]*list.Element{}, transactions: map[cacheKey]*list.Element{},
	}
}

// byTransaction returns the block that holds a transaction.
func (c *cache) byTransaction(chainID uint64, hash common.Hash) (*evm.ProvenBlock, bool) {
	return c.get(c.transactions, cacheKey{chainID, hash})
}

// byHash returns a block.
func (c *cache) byHash(chainID uint64, hash common.Hash) (*evm.ProvenBlock, bool) {
	return c.get(c.blocks, cacheKey{chainID, hash})
}

func (c *cache) get(from map[cacheKey]*list.Element, key cacheKey) (*evm.ProvenBlock, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, ok := from[key]
	if !ok {
		return nil, false
	}
	c.recent.MoveToFront(element)
	return element.Value.(*evm.ProvenBlock), true
}

// add keeps a block and drops what no longer fits. A block above the whole limit is
// not kept.
func (c *cache) add(b *evm.ProvenBlock) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := cacheKey{b.ChainID(), b.Hash()}
	if _, ok := c.blocks[key]; ok || b.Memory() > c.limit {
		return
	}
	element := c.recent.PushFront(b)
	c.blocks[key] = element
	for hash := range b.Transactions() {
		c.transactions[cacheKey{b.ChainID(), hash}] = element
	}
	c.used += b.Memory()
	for c.used > c.limit {
		c.drop(c.recent.Back())
	}
}

func (c *cache) drop(element *list.Element) {
	b := c.recent.Remove(element).(*evm.ProvenBlock)
	c.used -= b.Memory()
	delete(c.blocks, cacheKey{b.ChainID(), b.Hash()})
	for hash := range b.Transactions() {
		key := cacheKey{b.ChainID(), hash}
		if c.transactions[key] == element {
			delete(c.transactions, key)
		}
	}
}

// size returns how many bytes and blocks are kept.
func (c *cache) size() (bytes int64, blocks int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used, c.recent.Len()
}
