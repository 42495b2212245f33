package verification

import (
	"context"
	"math"
	"sync"

	"github.com/ethereum/go-ethereum/common/lru"

	"github.com/pforte/pforte/pkg/receipt"
)

// Receipts makes signed receipts, and keeps the latest used ones by request. A receipt
// that was once right stays right: it is about a final block, the same request has
// the same bytes, and each condition only ever comes to hold. So none expires.
type Receipts struct {
	key *receipt.SigningKey
	// looked is called with the result of each lookup, kept with the bytes that
	// are kept.
	looked func(hit bool)
	kept   func(bytes int)
	cache  *cache
}

// NewReceipts returns receipts signed with a key, of which limit bytes are kept.
func NewReceipts(key *receipt.SigningKey, limit int, looked func(hit bool), kept func(bytes int)) *Receipts {
	return &Receipts{key: key, looked: looked, kept: kept, cache: newCache(limit)}
}

// Signed returns the signed receipt for a request about a chain, in JSON. Callers
// must not change it.
func (r *Receipts) Signed(ctx context.Context, chain string, v Verifier, request Request) ([]byte, error) {
	key := chain + "\n" + string(request.Canonical())
	answer, ok := r.cache.get(key)
	r.looked(ok)
	if ok {
		return answer, nil
	}
	evidence, err := v.Verify(ctx, request)
	if err != nil {
		return nil, err
	}
	signed, err := receipt.Sign(r.key, evidence.Receipt, &evidence.Proof)
	if err != nil {
		return nil, err
	}
	if answer, err = signed.JSON(); err == nil {
		r.kept(r.cache.put(key, answer))
	}
	return answer, err
}

// cache keeps answers by request, the latest used ones.
type cache struct {
	mu          sync.Mutex
	limit, used int // bytes
	answers     lru.BasicLRU[string, []byte]
}

func newCache(limit int) *cache {
	return &cache{limit: limit, answers: lru.NewBasicLRU[string, []byte](math.MaxInt)}
}

// get returns the answer to a request, or false.
func (c *cache) get(key string) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answers.Get(key)
}

// put keeps an answer, and removes those that were not used for longest. It returns
// the bytes that are kept now.
func (c *cache) put(key string, answer []byte) (used int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answers.Contains(key) || size(key, answer) > c.limit {
		return c.used
	}
	c.answers.Add(key, answer)
	c.used += size(key, answer)
	for c.used > c.limit {
		key, answer, _ := c.answers.RemoveOldest()
		c.used -= size(key, answer)
	}
	return c.used
}

// size returns about how many bytes an entry takes.
func size(key string, answer []byte) int { return len(key) + len(answer) + 200 }
