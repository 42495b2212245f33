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
// the same bytes, and an expectation that once held still holds. So none expires.
type Receipts struct {
	key    *receipt.SigningKey
	looked func(hit bool)  // called with the result of each lookup
	kept   func(bytes int) // called with the bytes that are kept, after each new receipt

	mu          sync.Mutex
	limit, used int // bytes
	answers     lru.BasicLRU[string, []byte]
}

// NewReceipts returns Receipts that sign with key and keep at most about limit bytes.
func NewReceipts(key *receipt.SigningKey, limit int, looked func(hit bool), kept func(bytes int)) *Receipts {
	return &Receipts{
		key: key, looked: looked, kept: kept, limit: limit, answers: lru.NewBasicLRU[string, []byte](math.MaxInt),
	}
}

// Signed returns the signed receipt for a question about a chain, in JSON. Callers
// must not change it. ErrTooLarge, and the errors of the question's verification.
func (r *Receipts) Signed(ctx context.Context, chain string, v Verifier, q Question) ([]byte, error) {
	key := chain + "\n" + string(q.Canonical())
	answer, ok := r.get(key)
	r.looked(ok)
	if ok {
		return answer, nil
	}
	evidence, err := q.verify(ctx, v)
	if err != nil {
		return nil, err
	}
	signed, err := receipt.Sign(r.key, evidence.Receipt, &evidence.Proof)
	if err != nil {
		return nil, err
	}
	if answer, err = signed.JSON(); err != nil {
		return nil, err
	}
	if len(answer) > receipt.MaxSize {
		return nil, ErrTooLarge
	}
	r.kept(r.put(key, answer))
	return answer, nil
}

func (r *Receipts) get(key string) ([]byte, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.answers.Get(key)
}

// put keeps an answer, unless it alone is above the limit, and removes those that were not used
// for longest. It returns the bytes that are kept now.
func (r *Receipts) put(key string, answer []byte) (used int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.answers.Contains(key) || size(key, answer) > r.limit {
		return r.used
	}
	r.answers.Add(key, answer)
	r.used += size(key, answer)
	for r.used > r.limit {
		key, answer, _ := r.answers.RemoveOldest()
		r.used -= size(key, answer)
	}
	return r.used
}

// size returns about how many bytes an entry takes.
func size(key string, answer []byte) int { return len(key) + len(answer) + 200 }
