package rpc

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/lru"
	"golang.org/x/sync/semaphore"

	"github.com/pforte/pforte/services/verifier/internal/evm"
)

// Memory bounds the proven blocks that are kept and the responses under way, except those
// about heads, of votes, or with an error status. Several readers may share one. A proven, finalized block
// never changes, so none expires: the least recently used ones are dropped when the limit is reached.
type Memory struct {
	budget *semaphore.Weighted // bytes of responses

	mu           sync.Mutex
	limit, used  int64 // bytes of blocks
	blocks       lru.BasicLRU[chainHash, *evm.ProvenBlock]
	transactions map[chainHash]chainHash // the block that holds a transaction
}

// chainHash names a block or a transaction. The chain is part of it: the same
// unprotected transaction can exist on several.
type chainHash struct {
	chainID uint64
	hash    common.Hash
}

// Defaults of Memory, in bytes.
const (
	DefaultCacheBytes    = 64 << 20
	DefaultResponseBytes = 128 << 20
)

// NewMemory returns a Memory for cacheBytes of proven blocks and responseBytes of
// responses that are being read, at least blockBytes. Zero means the default of each.
func NewMemory(cacheBytes, responseBytes int64) *Memory {
	return &Memory{
		budget:       semaphore.NewWeighted(max(cmp.Or(responseBytes, DefaultResponseBytes), blockBytes)),
		limit:        cmp.Or(cacheBytes, DefaultCacheBytes),
		blocks:       lru.NewBasicLRU[chainHash, *evm.ProvenBlock](math.MaxInt),
		transactions: map[chainHash]chainHash{},
	}
}

// Cached returns how many bytes and blocks are kept now.
func (m *Memory) Cached() (bytes int64, blocks int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used, m.blocks.Len()
}

func (m *Memory) block(of chainHash) (*evm.ProvenBlock, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.blocks.Get(of)
}

// blockWith returns the kept block that holds a transaction; false: none does.
func (m *Memory) blockWith(transaction chainHash) (*evm.ProvenBlock, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.blocks.Get(m.transactions[transaction])
}

// numberWith returns the number of the kept block that holds a transaction; false: none does. It does not
// count as a use, for which the block would be kept longer.
func (m *Memory) numberWith(transaction chainHash) (number uint64, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	block, ok := m.blocks.Peek(m.transactions[transaction])
	if !ok {
		return 0, false
	}
	return block.Number(), true
}

// add keeps a block and drops what no longer fits. A block above the whole limit is
// not kept.
func (m *Memory) add(b *evm.ProvenBlock) {
	m.mu.Lock()
	defer m.mu.Unlock()
	block := chainHash{b.ChainID(), b.Hash()}
	if m.blocks.Contains(block) || b.Memory() > m.limit {
		return
	}
	m.blocks.Add(block, b)
	for hash := range b.Transactions() {
		m.transactions[chainHash{b.ChainID(), hash}] = block
	}
	m.used += b.Memory()
	for m.used > m.limit {
		block, b, _ = m.blocks.RemoveOldest()
		m.used -= b.Memory()
		for hash := range b.Transactions() {
			if transaction := (chainHash{b.ChainID(), hash}); m.transactions[transaction] == block {
				delete(m.transactions, transaction)
			}
		}
	}
}

// Sizes of JSON bodies.
const (
	maxBody     = 64 << 20 // one response
	blockBytes  = 8 << 20  // reserved for the responses about one block
	lookupBytes = 1 << 20  // reserved for the responses of any other lookup, as of one transaction
	maxHeadBody = 6 << 20  // one without a reservation: to a poll, a vote (three blocks of 25,000 hashes), or an error
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

// take accounts for n more bytes and takes what is missing from the budget. It never waits: errNoMemory if the budget
// has too little left.
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

// readBody reads a response of at most maxBody into memory that is accounted for in r before it is taken, or of at
// most maxHeadBody where r is nil.
func readBody(from io.Reader, r *reservation) ([]byte, error) {
	limit := maxBody
	if r == nil {
		limit = maxHeadBody
	}
	var body []byte
	for {
		if len(body) == cap(body) {
			more := max(cap(body)/2, 4<<10)
			if r != nil {
				if err := r.take(int64(more)); err != nil {
					return nil, err
				}
			}
			body = append(make([]byte, 0, cap(body)+more), body...)
		}
		n, err := from.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case len(body) > limit:
			return nil, errTooLarge
		case errors.Is(err, io.EOF):
			return body, nil
		case err != nil:
			return nil, err
		}
	}
}
