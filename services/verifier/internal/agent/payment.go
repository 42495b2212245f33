package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/strictjson"
	"github.com/pforte/pforte/services/verifier/internal/verification"
)

// readPayment returns the question whether the x402 payment in text was made, and the CAIP-2 id of its chain.
func readPayment(text []byte) (receipt.Request, string, error) {
	body, err := json.Marshal(map[string]json.RawMessage{"payment": text})
	if err != nil {
		return receipt.Request{}, "", errors.New("it is not JSON")
	}
	expanded, chain, err := verification.ExpandPayment(body)
	if err != nil {
		return receipt.Request{}, "", err
	}
	asked, err := verification.ParseTransferRequest(expanded)
	return asked.Request, chain, err
}

// findPath sets r.path to the seller's path for transfers on r.chain.
func (r *run) findPath(ctx context.Context) error {
	chains, err := r.chains(ctx)
	if err != nil {
		return fmt.Errorf("ask for the chains: %w", err)
	}
	for _, c := range chains {
		if c.ID == r.chain {
			r.path = "/v1/verify/" + c.Name + transferSuffix
			return nil
		}
	}
	return fmt.Errorf("the payment was made on %s, about which this verifier sells nothing", r.chain)
}

// expand replaces an x402 payment in the arguments of a call by the question about its transfer, and adds the
// chain of the payment. Arguments without a payment are returned as they are. When the payment can be read and its
// chain cannot be added, the question is returned beside the error.
func (t *toolbox) expand(ctx context.Context, asked arguments) (arguments, error) {
	body, id, err := verification.ExpandPayment(asked.body)
	if err != nil || id == "" {
		return asked, err
	}
	asked.body = body
	chains, err := t.chains(ctx)
	if err != nil {
		return asked, err
	}
	for _, c := range chains {
		if c.ID == id && (asked.chain == "" || asked.chain == c.Name) {
			asked.chain, asked.chainID = c.Name, id
			return asked, nil
		}
	}
	reason := "is of the chain " + id + ", about which this verifier sells nothing"
	if asked.chain != "" {
		reason = "is of the chain " + id + ", which is not " + asked.chain
	}
	return asked, &strictjson.Error{Pointer: "/payment/response", Reason: reason}
}
