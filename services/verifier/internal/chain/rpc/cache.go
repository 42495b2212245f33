package rpc

import (
	"container/list"
	"sync"

	"github.com/ethereum/go-ethereum/common"

	"github.com/pforte/pforte/services/verifier/internal/evm"
)

// cache keeps proven blocks, the least recently used ones only as far as a limit
// on memory allows. A proven, finalized block never changes, so nothing expires.
type cache struct {
	mu           sync.Mutex
	limit        int64
	used         int64
	recent       *list.List // of *cached, most recently used first
	blocks       map[cacheKey]*list.Element
	transactions map[cacheKey]*list.Element
}

// cacheKey names a block or a transaction. The chain is part of it: the same
// unprotected transaction can exist on several.
type cacheKey struct {
	chainID uint64
	hash    common.Hash
}

type cached struct {
	block  *evm.ProvenBlock
	memory int64
}

func newCache(limit int64) *cache {
	return &cache{
		limit: limit, recent: list.New(),
		blocks: map[cacheKey]*list.Element{}, transactions: map[cacheKey]*list.Element{},
	}
}

// transaction finds the block that holds a transaction.
func (c *cache) transaction(chainID uint64, hash common.Hash) (*evm.ProvenBlock, bool) {
	return c.get(c.transactions, cacheKey{chainID, hash})
}

// block finds a block by its hash.
func (c *cache) block(chainID uint64, hash common.Hash) (*evm.ProvenBlock, bool) {
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
	return element.Value.(*cached).block, true
}

// add keeps a block and drops what no longer fits. A block above the whole limit
// is not kept.
func (c *cache) add(b *evm.ProvenBlock) {
	memory := b.Memory()
	c.mu.Lock()
	defer c.mu.Unlock()
	key := cacheKey{b.ChainID(), b.Hash()}
	if _, ok := c.blocks[key]; ok || memory > c.limit {
		return
	}
	element := c.recent.PushFront(&cached{b, memory})
	c.blocks[key] = element
	for hash := range b.Transactions() {
		c.transactions[cacheKey{b.ChainID(), hash}] = element
	}
	c.used += memory
	for c.used > c.limit {
		c.drop(c.recent.Back())
	}
}

func (c *cache) drop(element *list.Element) {
	entry := c.recent.Remove(element).(*cached)
	c.used -= entry.memory
	b := entry.block
	delete(c.blocks, cacheKey{b.ChainID(), b.Hash()})
	for hash := range b.Transactions() {
		key := cacheKey{b.ChainID(), hash}
		if c.transactions[key] == element {
			delete(c.transactions, key)
		}
	}
}

// size tells how many bytes and blocks are kept.
func (c *cache) size() (bytes int64, blocks int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used, c.recent.Len()
}
