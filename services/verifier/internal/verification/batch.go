package verification

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/pforte/pforte/pkg/flight"
	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// maxTogether bounds the receipts of a batch in bytes, each with a comma: receipt.MaxSize without what stands
// around them.
const maxTogether = receipt.MaxSize - 64

// Asked is a question about one chain.
type Asked struct {
	// Chain is the chain's name in paths, and Verifier creates the evidence about that chain.
	Chain    string
	Verifier Verifier
	Question Question
}

// BatchError means that not all questions of a batch hold. Faults has an element for each
// question, nil where it holds; all others hold a *chain.Fault (errors.As).
type BatchError struct{ Faults []error }

func (e *BatchError) Error() string {
	at, _ := e.Decisive()
	return fmt.Sprintf("question %d of %d: %v", at, len(e.Faults), e.Faults[at])
}

// Unwrap returns the fault that Decisive does.
func (e *BatchError) Unwrap() error {
	_, err := e.Decisive()
	return err
}

// Decisive returns the fault that stands for the batch, and the place of its question: the first
// that is not Retryable, else the first.
func (e *BatchError) Decisive() (at int, err error) {
	at = -1
	for i, err := range e.Faults {
		var fault *chain.Fault
		switch {
		case err == nil:
		case errors.As(err, &fault) && !fault.Retryable:
			return i, err
		case at < 0:
			at = i
		}
	}
	return at, e.Faults[at]
}

// SignedAll returns the signed receipts for many questions, in their order, each as Signed does.
// It looks at all of them, at most atOnce at a time, whatever the others have come to. It returns
// all receipts or none: where a question fails without a *chain.Fault, that error; else, where
// questions do not hold, a *BatchError; else, where their receipts are too large together, ErrTooLarge.
func (r *Receipts) SignedAll(ctx context.Context, asked []Asked, atOnce int) ([][]byte, error) {
	answers, faults := make([][]byte, len(asked)), make([]error, len(asked))
	var size atomic.Int64
	places := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i, a := range asked {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			answers[i], faults[i] = flight.Guard(func() ([]byte, error) {
				return r.Signed(ctx, a.Chain, a.Verifier, a.Question)
			})
			if size.Add(int64(len(answers[i])+1)) > maxTogether {
				answers[i] = nil // so that they do not fill the memory while the others are made
			}
		})
	}
	all.Wait()
	failed := false
	for i, err := range faults {
		var fault *chain.Fault
		if err != nil && !errors.As(err, &fault) {
			return nil, fmt.Errorf("question %d: %w", i, err)
		}
		failed = failed || err != nil
	}
	if failed {
		return nil, &BatchError{Faults: faults}
	}
	if size.Load() > maxTogether {
		return nil, ErrTooLarge
	}
	return answers, nil
}
