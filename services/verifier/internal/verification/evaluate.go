package verification

import (
	"fmt"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// Faults of an evaluation, of the same type as those of package chain, so that both are answered
// alike.
var (
	ErrExpectationMismatch = &chain.Fault{
		Code: "expectation_mismatch", Text: "the transaction is not as expected",
	}
	ErrInsufficientConfirmations = &chain.Fault{
		Code: "insufficient_confirmations", Text: "the transaction has fewer confirmations than expected",
		Retryable: true,
	}
	ErrStatusUnavailable = &chain.Fault{
		Code: "status_unavailable", Text: "the chain records no status for this transaction, which is older than the " +
			"Byzantium fork",
	}
	// ErrTooLarge means that the answer would be larger than receipt.MaxSize. Programs that check receipts read
	// no more.
	ErrTooLarge = &chain.Fault{
		Code: "proof_too_large", Text: "the answer with its proof would be larger than the 16 MB that can be checked",
	}
)

// Check is one evaluated expectation.
type Check struct {
	Name     string `json:"name"`     // what was compared, such as "status"
	Result   string `json:"result"`   // pass or fail
	Expected any    `json:"expected"` // what has to hold
	Found    any    `json:"found"`    // nil, or an empty list, when there is no such thing
	// Hint is one of the Hint constants, where one says why the check fails; else "".
	Hint string `json:"hint,omitempty"`
}

// Results of a check.
const (
	Pass = "pass"
	Fail = "fail"
)

// MismatchError means that not everything holds. Checks lists every expectation,
// those that hold too, in a fixed order.
type MismatchError struct {
	Fault  *chain.Fault // one of the Err variables of this package
	Checks []Check
}

func (e *MismatchError) Error() string {
	failed := 0
	for _, check := range e.Checks {
		if check.Result == Fail {
			failed++
		}
	}
	return fmt.Sprintf("%s (%d of %d expectations fail)", e.Fault.Text, failed, len(e.Checks))
}

// Unwrap returns Fault.
func (e *MismatchError) Unwrap() error { return e.Fault }

// evaluate compares every expectation with the snapshot, in the order status, from, to, selector,
// minConfirmations, and returns nil when all hold, else an error that holds a *MismatchError. Of
// several faults ErrExpectationMismatch counts first, then ErrStatusUnavailable.
func evaluate(e receipt.Expectations, s chain.Snapshot) error {
	var checks []Check
	failed := map[string]bool{}
	add := func(name string, holds bool, expected, found any) {
		result := Pass
		if !holds {
			result, failed[name] = Fail, true
		}
		checks = append(checks, Check{Name: name, Result: result, Expected: expected, Found: found})
	}
	for _, c := range []struct {
		name, expected string
		found          *string
	}{
		{"status", e.Status, status(s.Outcome)},
		{"from", e.From, spelling(&s.Transaction.From)},
		{"to", e.To, spelling(s.Transaction.To)},
		{"selector", e.Selector, spelling(s.Transaction.Selector)},
	} {
		switch {
		case c.expected == "":
		case c.found == nil:
			add(c.name, false, c.expected, nil)
		default:
			add(c.name, c.expected == *c.found, c.expected, *c.found)
		}
	}
	confirmations := s.Heads.Confirmations(s.Block.Number)
	if e.MinConfirmations > 0 {
		add("minConfirmations", confirmations >= uint64(e.MinConfirmations), e.MinConfirmations, confirmations)
	}
	noStatus := failed["status"] && s.Outcome.Status == chain.StatusUnknown
	switch {
	case len(failed) == 0:
		return nil
	case failed["status"] && !noStatus, failed["from"], failed["to"], failed["selector"]:
		return &MismatchError{ErrExpectationMismatch, checks}
	case noStatus:
		return &MismatchError{ErrStatusUnavailable, checks}
	default:
		missing := uint64(e.MinConfirmations) - confirmations
		return chain.WithRetryAfter(&MismatchError{ErrInsufficientConfirmations, checks}, s.Heads.Wait(missing))
	}
}

// status returns how the execution ended; nil where the chain does not record it.
func status(o chain.Outcome) *string {
	if o.Status == chain.StatusUnknown {
		return nil
	}
	return new(string(o.Status))
}

func spelling[T fmt.Stringer](value *T) *string {
	if value == nil {
		return nil
	}
	return new((*value).String())
}
