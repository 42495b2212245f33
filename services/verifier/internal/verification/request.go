package verification

import (
	"encoding/json"
	"fmt"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/strictjson"
	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// Request is a VerificationRequest (VERIFIER-2) in the receipt's spelling: in
// lower case. What is empty or 0 is not expected.
type Request struct {
	receipt.Request
	hash chain.Hash
}

type wireRequest struct {
	TransactionHash *string `json:"transactionHash"`
	Expectations    struct {
		Status           *string `json:"status"`
		From             *string `json:"from"`
		To               *string `json:"to"`
		Selector         *string `json:"selector"`
		MinConfirmations *int64  `json:"minConfirmations"`
	} `json:"expectations"`
}

// ParseRequest reads the body of the verify operation. Unknown, repeated and case-variant names,
// null, trailing data and numbers that are not integers are faults. Every error is a
// *strictjson.Error, which names the field where there is one.
func ParseRequest(body []byte) (Request, error) {
	var wire wireRequest
	if err := strictjson.Unmarshal(body, &wire, strictjson.Rules{}); err != nil {
		return Request{}, err
	}
	hash, err := required("/transactionHash", wire.TransactionHash, chain.ParseHash)
	if err != nil {
		return Request{}, err
	}
	expectations, err := wire.expectations()
	return Request{receipt.Request{TransactionHash: hash.String(), Expectations: expectations}, hash}, err
}

func (w *wireRequest) expectations() (e receipt.Expectations, err error) {
	in := &w.Expectations
	if in.Status != nil {
		e.Status = *in.Status
		if e.Status != receipt.StatusSuccess && e.Status != receipt.StatusReverted {
			return e, &strictjson.Error{Pointer: "/expectations/status", Reason: "must be success or reverted"}
		}
	}
	if e.From, err = normalized("from", in.From, chain.ParseAddress); err != nil {
		return e, err
	}
	if e.To, err = normalized("to", in.To, chain.ParseAddress); err != nil {
		return e, err
	}
	if e.Selector, err = normalized("selector", in.Selector, chain.ParseSelector); err != nil {
		return e, err
	}
	if n := in.MinConfirmations; n != nil {
		e.MinConfirmations, err = minConfirmations(*n)
	}
	return e, err
}

func minConfirmations(n int64) (int, error) {
	if n < 1 || n > receipt.MaxConfirmations {
		reason := fmt.Sprintf("must be an integer from 1 to %d", receipt.MaxConfirmations)
		return 0, &strictjson.Error{Pointer: "/expectations/minConfirmations", Reason: reason}
	}
	return int(n), nil
}

// normalized returns the text in lower case, "" for nil.
func normalized[T fmt.Stringer](name string, text *string, parse func(string) (T, error)) (string, error) {
	if text == nil {
		return "", nil
	}
	value, err := required("/expectations/"+name, text, parse)
	return value.String(), err
}

// Canonical returns the request in one spelling: the same bytes whatever the letter case, order
// and white space of its body. It suits a fingerprint, and is itself a valid body.
func (r Request) Canonical() []byte {
	text, err := json.Marshal(r.Request)
	if err != nil {
		panic(err) // only strings and numbers: cannot happen
	}
	return text
}
