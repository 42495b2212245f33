package verification

import (
	"context"

	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// Verifier sells evidence about the transactions of one chain.
type Verifier struct {
	Reader chain.Reader
}

// judge reads the transaction and judges it. A nil error means that everything
// holds; checks then says what was judged.
func (v Verifier) judge(ctx context.Context, r Request) (chain.Snapshot, []Check, error) {
	snapshot, err := v.Reader.Read(ctx, r.TransactionHash)
	if err != nil {
		return chain.Snapshot{}, nil, err
	}
	checks := evaluate(r.Expectations, snapshot)
	err = verdict(checks, snapshot)
	if mismatch, ok := err.(*MismatchError); ok && mismatch.Fault == ErrInsufficientConfirmations {
		missing := uint64(r.Expectations.MinConfirmations) - snapshot.Heads.Confirmations(snapshot.Block.Number)
		err = chain.WithRetryAfter(err, snapshot.Heads.Wait(missing))
	}
	return snapshot, checks, err
}
