package payment

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/pforte/pforte/pkg/x402"
)

// Facilitator is asked whether a payment is good, and to carry it out. body is
// an x402.Request. An answer is given whatever it says; an error means that
// there was no usable one: it holds ErrFacilitatorLimit when the facilitator
// says that it will not work for free any more, and nothing else is known of it.
type Facilitator interface {
	Verify(ctx context.Context, body []byte) (x402.VerifyResponse, error)
	// Settle may have moved the money whenever its error is not nil.
	Settle(ctx context.Context, body []byte) (x402.SettleResponse, error)
}

// ErrFacilitatorLimit means that the facilitator itself refuses to work on: its
// free share is used up.
var ErrFacilitatorLimit = errors.New("facilitator's own limit is reached")

// ErrNoVerdict means that the facilitator is there, but does not say whether a
// payment is good. That may be the payment's fault, so it counts as an attempt.
var ErrNoVerdict = errors.New("facilitator gives no verdict")

// checkVerified turns the facilitator's answer about a payment into nil, a
// *Refusal of ErrRefused, ErrLimit or ErrFacilitator.
func checkVerified(answer x402.VerifyResponse, err error, p Payment) error {
	switch {
	case errors.Is(err, ErrFacilitatorLimit), answer.IsValid != nil && !*answer.IsValid && isLimit(answer.InvalidReason):
		return ErrLimit
	case err != nil:
		return errors.Join(ErrFacilitator, err)
	case answer.IsValid == nil:
		return errors.Join(ErrFacilitator, ErrNoVerdict)
	case !*answer.IsValid && (answer.InvalidReason == "" || isOpen(answer.InvalidReason)):
		return errors.Join(ErrFacilitator, ErrNoVerdict) // it could not tell
	case !*answer.IsValid:
		return &Refusal{Of: ErrRefused, Reason: word(answer.InvalidReason)}
	case answer.Payer != "" && !strings.EqualFold(answer.Payer, p.Key.Payer):
		return ErrFacilitator // it speaks of another payment
	}
	return nil
}

// checkSettled turns the facilitator's answer to a settling into an outcome.
// Only a yes without any doubt is Settled, only a no with a definite reason
// Dead; all else is Unknown. limited tells that the free share is used up.
func checkSettled(answer x402.SettleResponse, err error, r Record) (o Outcome, limited bool) {
	if err != nil || answer.Success == nil {
		return Outcome{State: Unknown, Reason: reasonNoAnswer}, errors.Is(err, ErrFacilitatorLimit)
	}
	o = Outcome{Reason: word(answer.ErrorReason)}
	if isHex(answer.Transaction, 32) && !isZero(answer.Transaction) {
		o.Transaction = strings.ToLower(answer.Transaction)
	}
	switch {
	case *answer.Success && o.Transaction != "" && isAbout(answer, r):
		o.State, o.Reason = Settled, ""
	case *answer.Success:
		o.State, o.Reason, o.Transaction = Unknown, reasonDoubt, ""
	case answer.ErrorReason == "" || isOpen(answer.ErrorReason) || isSpent(answer.ErrorReason):
		o.State = Unknown
	default:
		o.State = Dead
	}
	return o, !*answer.Success && isLimit(answer.ErrorReason)
}

// Reasons of our own for an unknown outcome.
const (
	reasonNoAnswer = "no_answer"
	reasonDoubt    = "answer_in_doubt"
)

// isAbout tells whether a yes speaks of this payment.
func isAbout(answer x402.SettleResponse, r Record) bool {
	return strings.EqualFold(answer.Payer, r.Key.Payer) && sameNetwork(answer.Network, r.Key.Network) &&
		(answer.Amount == "" || answer.Amount == r.Amount)
}

// maxWord bounds a facilitator's reason: it goes into headers, ledger and
// terminals.
const maxWord = 120

// word gives a facilitator's reason in at most so many printable characters.
func word(reason string) string {
	var b strings.Builder
	for _, c := range reason {
		if c < ' ' || c > '~' {
			c = '?'
		}
		if b.WriteRune(c); b.Len() == maxWord {
			break
		}
	}
	return b.String()
}

func sameNetwork(answered, network string) bool {
	v1, ok := x402.V1Name(network)
	return answered == network || (ok && answered == v1)
}

// isOpen tells reasons that say neither that the money moved nor that it will
// not: the facilitator gave up, still waits, or found the nonce spent, which
// may have been by this very payment.
func isOpen(reason string) bool {
	if slices.Contains([]string{
		x402.ReasonSettlementPending, x402.ReasonUnexpectedSettle, x402.ReasonUnexpectedVerify, x402.ReasonUnknown,
		"duplicate_settlement",
	}, reason) {
		return true
	}
	for _, part := range []string{
		"timed_out", "timeout", "node_failure", "pending", "unexpected", "internal", "unavailable", "rpc", "connection", "confirmed",
	} {
		if strings.Contains(reason, part) {
			return true
		}
	}
	return false
}

// isSpent tells reasons that say that the authorization was spent.
func isSpent(reason string) bool { return strings.Contains(reason, "nonce") }

// isLimit tells reasons that say that the facilitator's free share is used up.
func isLimit(reason string) bool {
	for _, part := range []string{"free_tier", "quota", "limit_exceeded", "limit_reached", "rate_limit", "billing", "payment_method"} {
		if strings.Contains(reason, part) {
			return true
		}
	}
	return false
}
