package payment

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/pforte/pforte/pkg/x402"
)

// Facilitator checks whether a payment is good, and settles it. body is the JSON of an
// x402.Request. A refusal is an answer. An error means that there was no usable answer: it may
// hold ErrFacilitatorLimit, ErrFacilitatorBusy or ErrNoVerdict, and a *LaterError when the
// facilitator is not to be called for a while.
type Facilitator interface {
	Verify(ctx context.Context, body []byte) (x402.VerifyResponse, error)
	// Settle may have moved the money whenever its error is not nil.
	Settle(ctx context.Context, body []byte) (x402.SettleResponse, error)
}

// ErrFacilitatorLimit means that the facilitator's free share is used up: it answers HTTP 402 and
// no refusal. No word in an answer means that, because a payer may choose it, nor does HTTP 429,
// which is ErrFacilitatorBusy.
var ErrFacilitatorLimit = errors.New("facilitator's own limit is reached")

// ErrFacilitatorBusy means that the facilitator wants no calls for a while (HTTP 429).
var ErrFacilitatorBusy = errors.New("facilitator is busy")

// ErrNoVerdict means that the facilitator answers, but without a verdict on the payment. That may
// be the payment's fault, so its attempts are not refunded.
var ErrNoVerdict = errors.New("facilitator returned no verdict")

// CheckVerified turns the facilitator's answer about a payment into nil, ErrLimit, ErrFacilitator or
// a *Refusal of ErrRefused. ErrFacilitator is joined with err, or with ErrNoVerdict where the answer
// does not decide about the payment; it stands alone where the answer is about another payer.
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

// CheckSettled turns the facilitator's answer to a settling into an outcome. A yes about this
// payment that names a transaction is Settled. A no that names none is Dead, if its reason is one
// of those that arise only before a broadcast. All else is Unknown.
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

// Reasons of our own why CheckSettled returns Unknown.
const (
	reasonNoAnswer = "no_answer"
	reasonDoubt    = "answer_in_doubt"
)

// isAbout reports whether an answer names the payer and network of a record and, if any amount,
// its amount.
func isAbout(answer x402.SettleResponse, r Record) bool {
	v1, ok := x402.V1Name(r.Key.Network)
	return strings.EqualFold(answer.Payer, r.Key.Payer) && (answer.Network == r.Key.Network ||
		ok && answer.Network == v1) &&
		(answer.Amount == "" || answer.Amount == r.Amount)
}

// maxWord bounds a reason in bytes: it goes into headers, ledger and terminals.
const maxWord = 120

// word returns a reason in at most maxWord printable ASCII characters, with ? for each other one.
func word(reason string) string {
	reason = strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, reason)
	return reason[:min(len(reason), maxWord)]
}

// isOpen reports whether the reason of a refused verification does not decide about the payment:
// the facilitator gave up, or still waits.
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
