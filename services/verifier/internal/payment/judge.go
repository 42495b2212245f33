package payment

import (
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/x402"
)

// Judge holds a payment against the offer: everything that can be known without
// the chain and the clock. A signature is the facilitator's to judge, because a
// wallet may be a contract. The payment that comes back carries its whole Key,
// also with an error.
func (o Offer) Judge(p Payment) (Payment, error) {
	t, a := o.Terms, p.exact.Authorization
	p.Key.Network, p.Key.Asset = p.accepted.Network, strings.ToLower(p.accepted.Asset)
	if p.Version == x402.V1 { // it names no token, and its network by another name
		p.Key.Network, p.Key.Asset = t.Network, strings.ToLower(t.Asset)
	}
	network := t.Network
	if p.Version == x402.V1 {
		v1, ok := o.RequirementsV1()
		if !ok {
			return p, invalid(x402.ReasonInvalidVersion)
		}
		network = v1.Network
	} else if reason := o.judgeAccepted(p.accepted); reason != "" {
		return p, invalid(reason)
	}
	switch {
	case p.accepted.Scheme != x402.SchemeExact:
		return p, invalid(x402.ReasonUnsupportedScheme)
	case p.accepted.Network != network:
		return p, invalid(x402.ReasonInvalidNetwork)
	case !strings.EqualFold(a.To, t.PayTo):
		return p, invalid(x402.ReasonRecipientMismatch)
	case a.Value != t.Amount:
		return p, invalid(x402.ReasonValueMismatch)
	case strings.EqualFold(a.From, t.PayTo):
		return p, invalid(reasonSelfSend)
	}
	return p, nil
}

// Reasons beyond those of package x402.
const (
	reasonSelfSend = "self_send_not_allowed"
	reasonTooFar   = "invalid_exact_evm_payload_authorization_valid_before_too_far"
)

// judgeAccepted compares the entry that a version 2 buyer chose with ours. Its
// maxTimeoutSeconds and the members he added to extra do not matter: what counts
// is signed, or ours.
func (o Offer) judgeAccepted(accepted x402.Requirements) string {
	t := o.Terms
	switch {
	case accepted.Amount != t.Amount, !strings.EqualFold(accepted.Asset, t.Asset):
		return x402.ReasonInvalidRequirement
	case !strings.EqualFold(accepted.PayTo, t.PayTo):
		return x402.ReasonRecipientMismatch
	}
	for name, ours := range t.domain() {
		if theirs, ok := accepted.Extra[name]; ok && theirs != ours {
			return x402.ReasonInvalidRequirement
		}
	}
	return ""
}

// Margins of an authorization's window.
const (
	// workMargin must be left when the work begins, settleMargin when the
	// facilitator is asked to settle; official ones want six seconds.
	workMargin   = 10 * time.Second
	settleMargin = 6 * time.Second
	// clockSkew is how far ahead of ours a buyer's clock may be.
	clockSkew = time.Minute
)

// judgeWindow says whether the authorization can be settled now with the margin
// left, and ends in due time.
func (o Offer) judgeWindow(p Payment, now time.Time, margin time.Duration) error {
	switch {
	case p.validAfter.After(now):
		return invalid(x402.ReasonValidAfter)
	case p.validBefore.Before(now.Add(margin)):
		return invalid(x402.ReasonValidBefore)
	case p.validBefore.After(now.Add(o.Terms.MaxTimeout + clockSkew)):
		return invalid(reasonTooFar)
	}
	return nil
}
