package verification

import (
	"encoding/json"
	"fmt"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/strictjson"
	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// Request is a VerificationRequest (contract section 2).
type Request struct {
	TransactionHash chain.Hash
	Expectations    Expectations
}

// Expectations are the caller's; nil, "" or 0 means that nothing is expected.
type Expectations struct {
	Status           chain.Status
	From             *chain.Address
	To               *chain.Address
	Selector         *chain.Selector
	MinConfirmations int
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

// ParseRequest reads the body of the verify operation. Unknown, repeated and
// case-variant names, null, trailing data and numbers that are not integers are
// faults. Every error is a *strictjson.Error that names the field.
func ParseRequest(body []byte) (Request, error) {
	var wire wireRequest
	if err := strictjson.Unmarshal(body, &wire, strictjson.Rules{}); err != nil {
		return Request{}, err
	}
	if wire.TransactionHash == nil {
		return Request{}, &strictjson.Error{Pointer: "/transactionHash", Reason: "is required"}
	}
	hash, err := chain.ParseHash(*wire.TransactionHash)
	if err != nil {
		return Request{}, &strictjson.Error{Pointer: "/transactionHash", Reason: err.Error()}
	}
	expectations, err := wire.expectations()
	if err != nil {
		return Request{}, err
	}
	return Request{TransactionHash: hash, Expectations: expectations}, nil
}

func (w *wireRequest) expectations() (e Expectations, err error) {
	in := &w.Expectations
	if in.Status != nil {
		e.Status = chain.Status(*in.Status)
		if e.Status != chain.StatusSuccess && e.Status != chain.StatusReverted {
			return e, &strictjson.Error{Pointer: "/expectations/status", Reason: "must be success or reverted"}
		}
	}
	if e.From, err = optional("from", in.From, chain.ParseAddress); err != nil {
		return e, err
	}
	if e.To, err = optional("to", in.To, chain.ParseAddress); err != nil {
		return e, err
	}
	if e.Selector, err = optional("selector", in.Selector, chain.ParseSelector); err != nil {
		return e, err
	}
	if n := in.MinConfirmations; n != nil {
		if *n < 1 || *n > receipt.MaxConfirmations {
			reason := fmt.Sprintf("must be an integer from 1 to %d", receipt.MaxConfirmations)
			return e, &strictjson.Error{Pointer: "/expectations/minConfirmations", Reason: reason}
		}
		e.MinConfirmations = int(*n)
	}
	return e, nil
}

func optional[T any](name string, text *string, parse func(string) (T, error)) (*T, error) {
	if text == nil {
		return nil, nil
	}
	value, err := parse(*text)
	if err != nil {
		return nil, &strictjson.Error{Pointer: "/expectations/" + name, Reason: err.Error()}
	}
	return &value, nil
}

// Canonical returns the request in one spelling: the same bytes for every body with
// the same meaning, whatever its letter case, order and white space. It suits a
// fingerprint, and is itself a valid body.
func (r Request) Canonical() []byte {
	text, err := json.Marshal(receipt.Request{
		TransactionHash: r.TransactionHash.String(),
		Expectations:    r.Expectations.normalized(),
	})
	if err != nil {
		panic(err) // only strings and a number: cannot happen
	}
	return text
}

func spelling[T fmt.Stringer](value *T) *string {
	if value == nil {
		return nil
	}
	text := (*value).String()
	return &text
}
