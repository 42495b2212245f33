package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

// Budgets of a challenge: the buyer echoes it, and clients bound their headers.
const (
	maxChallenge   = 4 << 10
	maxDescription = 500
)

// challengeText is the problem of a call without a payment.
const challengeText = "Payment required"

// paidRoute is one paid path: its offer, and the answer to an unpaid call, which is
// always the same and so made once.
type paidRoute struct {
	offer     payment.Offer
	operation string
	unpaid    answer
}

func newPaidRoute(operation string, offer payment.Offer) (*paidRoute, error) {
	s := &paidRoute{offer: offer, operation: operation}
	if len(offer.Resource.Description) > maxDescription {
		return nil, fmt.Errorf("description of %s is longer than %d characters", operation, maxDescription)
	}
	header, size, err := s.challenge(challengeText)
	if err != nil {
		return nil, err
	}
	if size > maxChallenge {
		return nil, fmt.Errorf("challenge of %s has %d bytes, more than %d", operation, size, maxChallenge)
	}
	body, err := s.body(errorBody{
		Error: "Payment required: send the request again with an x402 payment", Code: http.StatusPaymentRequired, Reason: "payment_required",
	})
	s.unpaid = answer{status: http.StatusPaymentRequired, header: header, body: body}
	return s, err
}

// challenge returns the headers of a 402 answer, and the size of the offer in them.
// The protocol's headers are spelled as it spells them, although HTTP does not
// care.
func (s *paidRoute) challenge(problem string) (header http.Header, size int, err error) {
	value, err := x402.Encode(s.offer.Challenge(problem))
	return http.Header{
		x402.HeaderPaymentRequired: {value},
		"Cache-Control":            {"no-store"},
	}, len(value), err
}

// body returns the body of a 402 answer: ours, with the challenge of version 1 in
// the same object, whose "error" is the same text.
func (s *paidRoute) body(ours errorBody) ([]byte, error) {
	v1, ok := s.offer.ChallengeV1(ours.Error)
	if !ok {
		return jsonBody(ours)
	}
	merged := map[string]any{}
	for _, part := range []any{v1, ours} {
		text, err := json.Marshal(part)
		if err != nil {
			return nil, fmt.Errorf("encode challenge: %w", err)
		}
		if err := json.Unmarshal(text, &merged); err != nil {
			return nil, fmt.Errorf("encode challenge: %w", err)
		}
	}
	return jsonBody(merged)
}

// settled returns the header that reports the payment to the buyer.
func (s *paidRoute) settled(p payment.Payment, sale paywall.Sale) (http.Header, error) {
	yes := true
	return s.response(p, x402.SettleResponse{Success: &yes, Transaction: sale.Transaction})
}

// notSettled is the same for a settling that failed or is open.
func (s *paidRoute) notSettled(p payment.Payment, reason, transaction string) http.Header {
	no := false
	header, err := s.response(p, x402.SettleResponse{Success: &no, ErrorReason: reason, Transaction: transaction})
	if err != nil {
		return nil
	}
	return header
}

// response answers in kind: version 1 has its own header and network names.
func (s *paidRoute) response(p payment.Payment, r x402.SettleResponse) (http.Header, error) {
	name := x402.HeaderPaymentResponse
	r.Payer, r.Network = p.Payer, s.offer.Terms.Network
	if p.Version == x402.V1 {
		name = x402.HeaderPaymentResponseV1
		r.Network, _ = x402.V1Name(r.Network)
	}
	value, err := x402.Encode(r)
	return http.Header{name: {value}}, err
}

// challenge returns the answer to a payment that bought nothing and cannot: a
// fresh challenge beside the reason.
func (r *refused) challenge(ours errorBody) (answer, error) {
	problem := ours.Reason
	var refusal *payment.Refusal
	if errors.As(r.err, &refusal) {
		problem = refusal.Reason
	}
	header, _, err := r.route.challenge(problem)
	if err != nil {
		return answer{}, err
	}
	maps.Copy(header, r.response())
	body, err := r.route.body(ours)
	return answer{status: ours.Code, header: header, body: body}, err
}
