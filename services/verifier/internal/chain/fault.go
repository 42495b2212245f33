package chain

import (
	"errors"
	"time"
)

// Fault is a reason why there is no evidence: that a chain cannot be read (the variables below), or
// one of package verification. Its code is part of the public interface; compare with errors.Is.
type Fault struct {
	Code      string // stable, for machines
	Text      string // one plain sentence for the caller
	Retryable bool   // whether the same request may succeed later
}

// Error returns Text.
func (f *Fault) Error() string { return f.Text }

// The reasons why a chain cannot be read.
var (
	ErrTransactionNotFound = &Fault{"transaction_not_found", "no node knows this transaction", true}
	ErrTransactionPending  = &Fault{"transaction_pending", "the transaction is not in a block yet", true}
	ErrReceiptUnavailable  = &Fault{"receipt_unavailable", "the node does not have the transaction's receipt yet", true}
	ErrNotFinalized        = &Fault{"not_finalized", "the transaction's block is not finalized yet", true}
	ErrFinalityUnavailable = &Fault{"finality_unavailable", "it is not known how far the chain is finalized", true}
	ErrNotCanonical        = &Fault{
		"not_canonical", "the transaction's block is not the canonical one at its height", true,
	}
	ErrInconsistent       = &Fault{"upstream_inconsistent", "the node's answers contradict one another", true}
	ErrIntegrity          = &Fault{"integrity_failure", "the node's data does not match its own hashes", true}
	ErrQuorum             = &Fault{"quorum_disagreement", "too few nodes agree on the block", true}
	ErrWrongChain         = &Fault{"wrong_chain", "the node serves another chain", true}
	ErrUnavailable        = &Fault{"upstream_unavailable", "no node could be asked", true}
	ErrRateLimited        = &Fault{"upstream_rate_limited", "the node refuses more requests for now", true}
	ErrHistoryPruned      = &Fault{"history_pruned", "the node no longer has this part of the chain", false}
	ErrHeaderUnverifiable = &Fault{
		"header_unverifiable", "the block's header has a form whose hash cannot be recomputed", false,
	}
	ErrUnsupportedType = &Fault{
		"unsupported_transaction_type",
		"the transaction, or another one in its block, has a type that cannot be proven", false,
	}
)

// Faults lists every Fault of this package.
func Faults() []*Fault {
	return []*Fault{
		ErrTransactionNotFound, ErrTransactionPending, ErrReceiptUnavailable, ErrNotFinalized,
		ErrFinalityUnavailable, ErrNotCanonical, ErrInconsistent, ErrIntegrity, ErrQuorum, ErrWrongChain,
		ErrUnavailable, ErrRateLimited, ErrHistoryPruned, ErrHeaderUnverifiable, ErrUnsupportedType,
	}
}

// waiting is an error with the time after which a retry makes sense.
type waiting struct {
	error
	after time.Duration
}

func (w waiting) Unwrap() error { return w.error }

// WithRetryAfter adds to err the time after which a retry makes sense.
func WithRetryAfter(err error, after time.Duration) error { return waiting{err, after} }

// RetryAfter returns the time after which a retry makes sense, in whole seconds
// rounded up, at least 1; ok is false when the error has none.
func RetryAfter(err error) (seconds int, ok bool) {
	var w waiting
	if !errors.As(err, &w) {
		return 0, false
	}
	return max(1, int((w.after+time.Second-1)/time.Second)), true
}
