package verification

import (
	"context"
	"errors"
	"fmt"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// Verifier creates evidence about the transactions of one chain.
type Verifier struct {
	Reader chain.Reader
}

// Evidence is what a verification yields: the unsigned receipt, and the Merkle
// bundle that stands beside it.
type Evidence struct {
	Receipt receipt.Receipt
	Proof   receipt.Proof
}

// Verify reads the transaction, evaluates it and returns the evidence that everything
// holds. The same request about the same chain has the same evidence, whatever the
// replica, the nodes and the heads. The evidence is checked as a buyer will check it,
// by pkg/receipt, which shares no code with the reader: what the proof does not show
// is not signed.
//
// Every error holds a *chain.Fault (errors.As), of package chain or of this
// package; chain.RetryAfter returns when to retry, and a *MismatchError what was
// evaluated.
func (v Verifier) Verify(ctx context.Context, r Request) (Evidence, error) {
	snapshot, err := v.Reader.Read(ctx, r.TransactionHash)
	if err != nil {
		return Evidence{}, err
	}
	e, err := judged(r, snapshot)
	if err != nil {
		return Evidence{}, err
	}
	if _, _, err := receipt.VerifyProof(e.Receipt, e.Proof); err != nil {
		return Evidence{}, fmt.Errorf("%w: %w", chain.ErrIntegrity, err)
	}
	return e, nil
}

// judged returns the evidence that the snapshot is as expected.
func judged(r Request, s chain.Snapshot) (Evidence, error) {
	if err := judge(r.Expectations, s); err != nil {
		return Evidence{}, err
	}
	return evidence(r, s), nil
}

// judge adds to missing confirmations the time after which they will be there.
func judge(e Expectations, s chain.Snapshot) error {
	err := verdict(evaluate(e, s), s)
	if !errors.Is(err, ErrInsufficientConfirmations) {
		return err
	}
	missing := uint64(e.MinConfirmations) - s.Heads.Confirmations(s.Block.Number)
	return chain.WithRetryAfter(err, s.Heads.Wait(missing))
}
