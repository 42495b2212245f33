package payment

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/pforte/pforte/pkg/x402"
)

// Facilitator checks whether a payment is good, and carries it out. body is
// an x402.Request. An answer is returned whatever its content; an error means that
// there was no usable one: it holds ErrFacilitatorLimit when the free share is used up,
// ErrFacilitatorBusy when the facilitator wants a pause, ErrNoVerdict when it answers without
// a verdict, and a *LaterError when it is not to be called for a while.
type Facilitator interface {
	Verify(ctx context.Context, body []byte) (x402.VerifyResponse, error)
	// Settle may have moved the money whenever its error is not nil.
	Settle(ctx context.Context, body []byte) (x402.SettleResponse, error)
}

// ErrFacilitatorLimit means that the facilitator itself refuses to work on: its
// free share is used up. Only HTTP 402 means that. A word in a refusal does not, for a
// payer may choose it, nor does HTTP 429, which wants a pause; and no code is known
// that a facilitator, CDP among them, documents for it.
var ErrFacilitatorLimit = errors.New("facilitator's own limit is reached")

// ErrFacilitatorBusy means that the facilitator wants no calls for a while (HTTP 429).
var ErrFacilitatorBusy = errors.New("facilitator is busy")

// ErrNoVerdict means that the facilitator answers, but does not report whether a
// payment is good. That may be the payment's fault, so it counts as an attempt.
var ErrNoVerdict = errors.New("facilitator returned no verdict")

// CheckVerified turns the facilitator's answer about a payment into nil, a *Refusal of ErrRefused,
// ErrLimit or ErrFacilitator, which comes with ErrNoVerdict where the facilitator has not judged
// the payment.
func CheckVerified(answer x402.VerifyResponse, err error, p Payment) error {
	switch {
	case errors.Is(err, ErrFacilitatorLimit):
		return ErrLimit
	case err != nil:
		return errors.Join(ErrFacilitator, err)
	case answer.IsValid == nil:
		return errors.Join(ErrFacilitator, ErrNoVerdict)
	case !*answer.IsValid && (answer.InvalidReason == "" || isOpen(answer.InvalidReason)):
		return errors.Join(ErrFacilitator, ErrNoVerdict) // it could not decide
	case !*answer.IsValid:
		return &Refusal{Of: ErrRefused, Reason: word(answer.InvalidReason)}
	case answer.Payer != "" && !strings.EqualFold(answer.Payer, p.Key.Payer):
		return ErrFacilitator // it speaks of another payment
	}
	return nil
}

// CheckSettled turns the facilitator's answer to a settling into an outcome.
// Only a yes without any doubt is Settled; only a no whose reason is one of those
// that arise before a broadcast, and which names no transaction, is Dead; all else
// is Unknown.
func CheckSettled(answer x402.SettleResponse, err error, r Record) Outcome {
	if err != nil || answer.Success == nil {
		return Outcome{State: Unknown, Reason: reasonNoAnswer}
	}
	o := Outcome{Reason: word(answer.ErrorReason)}
	if IsTransaction(answer.Transaction) {
		o.Transaction = strings.ToLower(answer.Transaction)
	}
	switch {
	case *answer.Success && o.Transaction != "" && isAbout(answer, r):
		o.State, o.Reason = Settled, ""
	case *answer.Success:
		o.State, o.Reason, o.Transaction = Unknown, reasonDoubt, ""
	case answer.Transaction == "" && isBeforeBroadcast(answer.ErrorReason):
		o.State, o.Unsent = Dead, true
	default:
		o.State = Unknown
	}
	o.Echo = !*answer.Success && (o.Unsent || isEcho(answer.ErrorReason))
	return o
}

// Reasons of our own for an unknown outcome.
const (
	reasonNoAnswer = "no_answer"
	reasonDoubt    = "answer_in_doubt"
)

// isAbout reports whether a yes is about this payment.
func isAbout(answer x402.SettleResponse, r Record) bool {
	v1, ok := x402.V1Name(r.Key.Network)
	return strings.EqualFold(answer.Payer, r.Key.Payer) && (answer.Network == r.Key.Network ||
		ok && answer.Network == v1) &&
		(answer.Amount == "" || answer.Amount == r.Amount)
}

// maxWord bounds a facilitator's reason: it goes into headers, ledger and
// terminals.
const maxWord = 120

// word returns a facilitator's reason in at most so many printable characters.
func word(reason string) string {
	reason = strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, reason)
	return reason[:min(len(reason), maxWord)]
}

// isOpen reports whether the reason of a verification has nothing to do with the payment: the
// facilitator gave up, or still waits.
func isOpen(reason string) bool {
	if slices.Contains([]string{
		x402.ReasonSettlementPending, x402.ReasonUnexpectedSettle, x402.ReasonUnexpectedVerify, x402.ReasonUnknown,
		"duplicate_settlement",
	}, reason) {
		return true
	}
	for _, part := range []string{
		"timed_out", "timeout", "node_failure", "pending", "unexpected", "internal", "unavailable", "rpc", "connection",
		"confirmed",
	} {
		if strings.Contains(reason, part) {
			return true
		}
	}
	return false
}
