package verification

import (
	"fmt"

	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// Faults of an evaluation, like those of package chain, so that one table can answer
// both.
var (
	ErrExpectationMismatch = &chain.Fault{
		Code: "expectation_mismatch", Text: "the transaction is not as expected",
	}
	ErrInsufficientConfirmations = &chain.Fault{
		Code: "insufficient_confirmations", Text: "the transaction has fewer confirmations than expected", Retryable: true,
	}
	ErrStatusUnavailable = &chain.Fault{
		Code: "status_unavailable", Text: "the chain records no status for this transaction, which is older than the Byzantium fork",
	}
)

// Check is one evaluated expectation.
type Check struct {
	Name     string `json:"name"`     // the member of expectations
	Result   string `json:"result"`   // pass or fail
	Expected any    `json:"expected"` // as the request has it, in lower case
	Found    any    `json:"found"`    // nil when the transaction has no such thing
}

// Results of a check.
const (
	Pass = "pass"
	Fail = "fail"
)

// MismatchError means that not everything holds. Checks lists every expectation,
// those that hold too, in the fixed order.
type MismatchError struct {
	Fault  *chain.Fault // one of the reasons of this package
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

// Unwrap returns the reason.
func (e *MismatchError) Unwrap() error { return e.Fault }

// evaluate compares every expectation with the snapshot, in the order status,
// from, to, selector, minConfirmations. It depends on nothing else.
func evaluate(e Expectations, s chain.Snapshot) []Check {
	var checks []Check
	add := func(name string, expected, found any) {
		checks = append(checks, Check{name, result(expected == found), expected, found})
	}
	if e.Status != chain.StatusUnknown {
		var found any
		if s.Outcome.Status != chain.StatusUnknown {
			found = string(s.Outcome.Status)
		}
		add("status", string(e.Status), found)
	}
	if e.From != nil {
		add("from", e.From.String(), s.Transaction.From.String())
	}
	if e.To != nil {
		add("to", e.To.String(), text(s.Transaction.To))
	}
	if e.Selector != nil {
		add("selector", e.Selector.String(), text(s.Transaction.Selector))
	}
	if e.MinConfirmations > 0 {
		found := s.Heads.Confirmations(s.Block.Number)
		holds := found >= uint64(e.MinConfirmations)
		checks = append(checks, Check{"minConfirmations", result(holds), e.MinConfirmations, found})
	}
	return checks
}

func result(holds bool) string {
	if holds {
		return Pass
	}
	return Fail
}

func text[T fmt.Stringer](value *T) any {
	if value == nil {
		return nil
	}
	return (*value).String()
}

// verdict returns nil when every check passes. A mismatch that is final outweighs
// one that only time or another kind of chain could change.
func verdict(checks []Check, s chain.Snapshot) error {
	failed := map[string]bool{}
	for _, check := range checks {
		if check.Result == Fail {
			failed[check.Name] = true
		}
	}
	noStatus := failed["status"] && s.Outcome.Status == chain.StatusUnknown
	tooYoung := failed["minConfirmations"]
	switch {
	case len(failed) == 0:
		return nil
	case noStatus && len(failed) == count(noStatus, tooYoung):
		return &MismatchError{ErrStatusUnavailable, checks}
	case tooYoung && len(failed) == 1:
		return &MismatchError{ErrInsufficientConfirmations, checks}
	default:
		return &MismatchError{ErrExpectationMismatch, checks}
	}
}

func count(facts ...bool) (n int) {
	for _, fact := range facts {
		if fact {
			n++
		}
	}
	return n
}
