package verification_test

import (
	"context"
	"sync"

	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// scriptedReader is a verification.Reader that returns what was added to it. It is safe for
// concurrent use.
type scriptedReader struct {
	Chain chain.Identity

	mu        sync.Mutex
	snapshots map[chain.Hash]chain.Snapshot
	failures  map[chain.Hash]error
	heads     chain.Heads
}

// newReader returns a reader without transactions.
func newReader(identity chain.Identity, heads chain.Heads) *scriptedReader {
	return &scriptedReader{
		Chain: identity, heads: heads,
		snapshots: map[chain.Hash]chain.Snapshot{}, failures: map[chain.Hash]error{},
	}
}

// Add adds a transaction; its chain and heads are the reader's.
func (r *scriptedReader) Add(s chain.Snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.snapshots[s.Transaction.Hash] = s
}

// Fail makes reading a transaction fail; nil makes it work again.
func (r *scriptedReader) Fail(transaction chain.Hash, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures[transaction] = err
}

// Read implements verification.Reader: ErrTransactionNotFound for what was not added,
// ErrNotFinalized for what lies beyond the finalized head.
func (r *scriptedReader) Read(_ context.Context, transaction chain.Hash) (chain.Snapshot, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.failures[transaction]; err != nil {
		return chain.Snapshot{}, err
	}
	s, ok := r.snapshots[transaction]
	if !ok {
		return chain.Snapshot{}, chain.ErrTransactionNotFound
	}
	if s.Block.Number > r.heads.Finalized {
		return chain.Snapshot{}, chain.WithRetryAfter(chain.ErrNotFinalized, r.heads.Wait(s.Block.Number-r.heads.Finalized))
	}
	s.Chain, s.Heads = r.Chain, r.heads
	return s, nil
}
