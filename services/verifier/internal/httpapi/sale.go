package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

// resourceTags are how registries file what is sold.
var resourceTags = []string{"blockchain", "verification", "evidence", "receipt"}

// paidCall is a call of what is sold, as a transport received it.
type paidCall struct {
	// operation is an operation or a batch.
	operation interface{ name() string }
	// transport is the protocol, as in payment.Record; address is the client's, needed only with a payment.
	transport, address string
	offer              payment.Offer
	body               []byte
	// read reads the body. payment reads the payment; it is nil when none came with the call.
	read    func() (pricedRequest, error)
	payment func() (payment.Payment, error)
	// times is how many times its bytes the answer counts as: 1, or rewritten.
	times int
	// ended is closed when the answer is written or cannot be.
	ended <-chan struct{}
}

// sold is what a paid call led to.
type sold struct {
	// isUnpaid reports that the challenge is the answer, unless there is an error: no payment came with the call.
	isUnpaid bool
	payment  payment.Payment // as far as it was read
	answer   payment.Answer
	// settlement is what the buyer is told of the settlement, nil for nothing.
	settlement *x402.SettleResponse
}

// sell sells an answer, whichever transport received the call:
//
//  1. The request is read (400). Only a call without a payment may leave it out, as
//     registries do to learn the price.
//  2. A call without a payment ends here: with the challenge (402), or with an error (503) when
//     the month's or the facilitator's limit is reached or the ledger cannot be read.
//  3. The payment is read (402, or 503 as in step 2).
//  4. Package paywall claims it, has it verified, and has the evidence made and signed, in an
//     order that depends on the payer and on who signed; it settles the payment last.
//  5. What settlementOf returns is told beside the answer, and beside the error.
//
// The transports differ in where a call carries its request and its payment, and in how
// answer, challenge, settlement and error are written: see paidRoute and paidTool.
func (a *api) sell(ctx context.Context, c paidCall) (sold, error) {
	var request pricedRequest
	if c.payment != nil || !isPriceRequest(c.body) {
		var err error
		if request, err = c.read(); err != nil {
			return sold{}, err
		}
	}
	if c.payment == nil {
		return sold{isUnpaid: true}, a.Paywall.CheckQuota(ctx)
	}
	order := paywall.Order{Operation: c.operation.name(), Transport: c.transport, Offer: c.offer, Address: c.address}
	var err error
	if order.Payment, err = c.payment(); err != nil {
		return sold{payment: order.Payment}, a.Paywall.Refuse(ctx, order, err)
	}
	order.Request, order.Work = request.fingerprint(), request.work
	if one, ok := request.(asked); ok { // a payment may name another chain than the path
		order.Operation = one.operation.name()
	}
	order.Questions, order.AtOnce = request.questions(), min(request.questions(), batchAtOnce)
	order.Fits = func(answer payment.Answer) bool { return a.largeSold.fits(taken(answer.Size(), c.times)) }
	sale, err := a.Paywall.Buy(ctx, order)
	ended := settlementOf(sale, err)
	if ended != nil {
		ended.Payer, ended.Network = order.Payment.Payer, c.offer.Terms.Network
	}
	if err == nil {
		if sale.Answer, err = a.whole(ctx, sale.Answer, c); err != nil {
			return sold{payment: order.Payment}, err
		}
	}
	return sold{payment: order.Payment, answer: sale.Answer, settlement: ended}, err
}

// wholeTimeout bounds the reading of a large answer.
const wholeTimeout = 15 * time.Second

// whole returns an answer that is paid, in memory, where there is place for it.
func (a *api) whole(ctx context.Context, answer payment.Answer, c paidCall) (payment.Answer, error) {
	if !a.largeSold.hold(taken(answer.Size(), c.times), c.ended) {
		return answer, fmt.Errorf("%w: many large answers are read now", payment.ErrInFlight)
	}
	hash, unread := answer.Hash()
	if !unread {
		return answer, nil
	}
	ctx, cancel := context.WithTimeout(ctx, wholeTimeout)
	defer cancel()
	answer, err := a.Sold(ctx, hash)
	if err != nil { // perhaps it was pruned just now, and is made anew
		err = fmt.Errorf("%w: %w", payment.ErrInFlight, err)
	}
	return answer, err
}

// isPriceRequest reports whether a body is empty or an empty object, and so only requests the price.
func isPriceRequest(body []byte) bool {
	body = bytes.TrimSpace(body)
	inside, isObject := bytes.CutPrefix(body, []byte("{"))
	return len(body) == 0 || isObject && string(bytes.TrimSpace(inside)) == "}"
}

// settlementOf returns the outcome of a call's settlement, which may be pending or that of an earlier payment.
// It is nil where err tells of no settlement.
func settlementOf(sale paywall.Sale, err error) *x402.SettleResponse {
	var refusal *payment.Refusal
	var pending *payment.PendingError
	switch {
	case err == nil:
		settlement := &x402.SettleResponse{Success: new(true), Transaction: sale.Transaction}
		if sale.Reused {
			settlement.Extra = json.RawMessage(`{"repeated":true}`)
		}
		return settlement
	case errors.As(err, &pending):
		return &x402.SettleResponse{
			Success: new(false), ErrorReason: x402.ReasonSettlementPending,
			Transaction: pending.Transaction,
		}
	case errors.As(err, &refusal) && errors.Is(refusal, payment.ErrNotSettled):
		return &x402.SettleResponse{Success: new(false), ErrorReason: refusal.Reason, Transaction: refusal.Transaction}
	}
	return nil
}
