package payment

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/receipt/strictjson"
	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/eip3009"
)

// maxSignature bounds a signature in bytes: ERC-6492 wraps the creation of a
// wallet, which may take some thousands.
const maxSignature = 8 << 10

// Payment is what a buyer sent, read and checked for its form.
type Payment struct {
	// Version is that of the protocol, x402.V1 or x402.V2.
	Version int
	// Key is whole after Offer.Judge: before, Asset is "", and Network in version 1 is that version's name.
	Key Key
	// Digest is that of the authorization and the signature, whatever the version.
	Digest Digest
	// Payer is the address as the buyer spelled it.
	Payer string
	// Identifier is the buyer's idempotency key, or "".
	Identifier string

	exact       x402.ExactPayload
	accepted    x402.Requirements // in version 1 only Scheme, and Network by its name there
	extensions  Extensions
	validAfter  time.Time
	validBefore time.Time
}

// Read reads a payment header: x402.HeaderPaymentSignature for version 2, x402.HeaderPaymentV1 for
// version 1. Every fault is a *Refusal of ErrInvalid.
func Read(version int, header string) (Payment, error) {
	return read(version, func(payload any) error { return x402.Decode(header, payload) })
}

// ReadObject reads a payment that is sent as a JSON object, without base64, as the
// MCP transport of version 2 sends it (x402 specs/transports-v2/mcp.md). Its faults are Read's.
func ReadObject(object []byte) (Payment, error) {
	return read(x402.V2, func(payload any) error { return x402.DecodeObject(object, payload) })
}

func read(version int, decode func(payload any) error) (Payment, error) {
	p := Payment{Version: version}
	var claimed int
	var err error
	if version == x402.V1 {
		var v1 x402.PayloadV1
		err = decode(&v1)
		claimed, p.exact, p.accepted = v1.X402Version, v1.Payload, x402.Requirements{
			Scheme: v1.Scheme, Network: v1.Network,
		}
	} else {
		var v2 x402.Payload
		err = decode(&v2)
		claimed, p.exact, p.accepted, p.extensions = v2.X402Version, v2.Payload, v2.Accepted, v2.Extensions
	}
	if err != nil {
		return p, invalid(x402.ReasonInvalidPayload)
	}
	if claimed != version {
		return p, invalid(x402.ReasonInvalidVersion)
	}
	if err := p.check(); err != nil {
		return p, err
	}
	p.exact.Signature = strings.ToLower(p.exact.Signature)
	a := p.exact.Authorization
	p.Payer = a.From
	p.Key = Key{Network: p.accepted.Network, Payer: strings.ToLower(a.From), Nonce: strings.ToLower(a.Nonce)}
	p.Digest = digest(p.exact)
	return p, nil
}

// check judges the parts by themselves, forms and ranges, and sets the window and the identifier.
func (p *Payment) check() (err error) {
	a := p.exact.Authorization
	if !isHex(a.From, 20) || !isHex(a.To, 20) || !isHex(a.Nonce, 32) || isZero(a.From) {
		return invalid(x402.ReasonInvalidPayload)
	}
	if _, ok := parseAmount(a.Value); !ok {
		return invalid(x402.ReasonInvalidPayload)
	}
	if strings.ContainsRune(p.accepted.Network+p.accepted.Asset, 0) { // no text of a database
		return invalid(x402.ReasonInvalidPayload)
	}
	if s := p.exact.Signature; !isHexData(s) || len(s) < 2+2*65 || len(s) > 2+2*maxSignature {
		return invalid(x402.ReasonInvalidSignature)
	}
	var okAfter, okBefore bool
	p.validAfter, okAfter = parseMoment(a.ValidAfter)
	p.validBefore, okBefore = parseMoment(a.ValidBefore)
	if !okAfter || !okBefore {
		return invalid(x402.ReasonInvalidPayload)
	}
	p.Identifier, err = p.extensions.identifier()
	return err
}

// parseMoment reads Unix seconds. What lies beyond the year 9999 becomes its end.
func parseMoment(text string) (time.Time, bool) {
	const forever = 253402300799
	n, ok := parseAmount(text)
	if !ok {
		return time.Time{}, false
	}
	if !n.IsInt64() || n.Int64() > forever {
		return time.Unix(forever, 0).UTC(), true
	}
	return time.Unix(n.Int64(), 0).UTC(), true
}

// digest returns the digest of a payment, the same for every encoding of it in either version.
func digest(p x402.ExactPayload) Digest {
	a := p.Authorization
	return sha256.Sum256([]byte(strings.ToLower(strings.Join(
		[]string{a.From, a.To, a.Value, a.ValidAfter, a.ValidBefore, a.Nonce, p.Signature}, " "))))
}

// ValidBefore returns when the authorization ends.
func (p Payment) ValidBefore() time.Time { return p.validBefore }

// FacilitatorRequest returns what the facilitator is sent: our requirements and the payment. In
// version 2 the payment has the offer's resource and, in the extensions that the buyer echoed, the
// offer's content (see Extensions.over), because a facilitator may index them.
func (o Offer) FacilitatorRequest(p Payment) ([]byte, error) {
	request := struct { // x402.Request, encoded in one piece
		X402Version         int `json:"x402Version"`
		PaymentPayload      any `json:"paymentPayload"`
		PaymentRequirements any `json:"paymentRequirements"`
	}{X402Version: p.Version}
	if p.Version == x402.V1 {
		v1, _ := o.RequirementsV1()
		request.PaymentPayload = x402.PayloadV1{
			X402Version: x402.V1, Scheme: x402.SchemeExact, Network: v1.Network, Payload: p.exact,
		}
		request.PaymentRequirements = v1
	} else {
		accepted := o.Requirements() // what the buyer accepted, in our words
		request.PaymentPayload = x402.Payload{
			X402Version: x402.V2, Resource: &o.Resource, Accepted: accepted, Payload: p.exact,
			Extensions: o.Extensions.over(p.extensions),
		}
		request.PaymentRequirements = accepted
	}
	body, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("encode the facilitator's request: %w", err)
	}
	return body, nil
}

// Extensions are protocol extensions by name.
type Extensions map[string]json.RawMessage

// ExtensionIdentifier is the name of the extension by which a buyer names what they pay for, so
// that paying again for the same name returns the first answer (x402 payment-identifier).
const ExtensionIdentifier = "payment-identifier"

// identifierForm is the form that the extension's schema demands of an identifier.
var identifierForm = regexp.MustCompile(`^[A-Za-z0-9_-]{16,128}$`)

const reasonIdentifier = "invalid_payment_identifier"

// IdentifierExtension returns the extension as a challenge has it: identifiers are understood and
// optional.
func IdentifierExtension() json.RawMessage {
	return json.RawMessage(`{"info":{"required":false},` +
		`"schema":{"$schema":"https://json-schema.org/draft/2020-12/schema",` +
		`"type":"object","properties":{"required":{"type":"boolean"},` +
		`"id":{"type":"string","minLength":16,"maxLength":128,"pattern":"^[a-zA-Z0-9_-]+$"}},"required":["required"]}}`)
}

func (e Extensions) identifier() (string, error) {
	raw, ok := e[ExtensionIdentifier]
	if !ok {
		return "", nil
	}
	var extension struct {
		Info struct {
			ID *string `json:"id"`
		} `json:"info"`
	}
	if err := strictjson.Unmarshal(raw, &extension, strictjson.Rules{AllowUnknown: true, AllowNull: true}); err != nil {
		return "", invalid(reasonIdentifier)
	}
	id := extension.Info.ID
	if id == nil {
		return "", nil
	}
	if !identifierForm.MatchString(*id) {
		return "", invalid(reasonIdentifier)
	}
	return *id, nil
}

// over returns the extensions that the buyer echoed, with the content of e where e has them, but for
// the identifier, which is the buyer's; nil if they echoed none.
func (e Extensions) over(echoed Extensions) Extensions {
	if len(echoed) == 0 {
		return nil
	}
	result := make(Extensions, len(echoed))
	for name, theirs := range echoed {
		if ours, ok := e[name]; ok && name != ExtensionIdentifier {
			theirs = ours
		}
		result[name] = theirs
	}
	return result
}

// Judge compares a payment with the terms of the offer, but not its window, nor its signature,
// which may be a contract's. Every fault is a *Refusal of ErrInvalid. The payment that comes back
// carries its whole Key, also with an error.
func (o Offer) Judge(p Payment) (Payment, error) {
	t, a := o.Terms, p.exact.Authorization
	network := t.Network
	if p.Version == x402.V1 { // it names no token, and its network by another name
		p.Key.Network, p.Key.Asset = t.Network, strings.ToLower(t.Asset)
		v1, ok := o.RequirementsV1()
		if !ok {
			return p, invalid(x402.ReasonInvalidVersion)
		}
		network = v1.Network
	} else {
		p.Key.Asset = strings.ToLower(p.accepted.Asset)
		if reason := o.judgeAccepted(p.accepted); reason != "" {
			return p, invalid(reason)
		}
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

// Reasons that package x402 does not have.
const (
	reasonSelfSend = "self_send_not_allowed"
	reasonTooFar   = "invalid_exact_evm_payload_authorization_valid_before_too_far"
)

// judgeAccepted compares the terms that a version 2 buyer accepted with ours, except scheme and
// network, and returns the reason of a difference, or "". maxTimeoutSeconds and further members of
// extra do not matter: what counts is signed, or ours.
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
	// WorkMargin must be left when a sale begins, SettleMargin when its settlement does; official
	// facilitators want six seconds.
	WorkMargin   = 10 * time.Second
	SettleMargin = 6 * time.Second
	// clockSkew is how far ahead of ours a buyer's clock may be.
	clockSkew = time.Minute
	// LongestWindow is how long before its end an authorization is accepted at most, at any terms.
	LongestWindow = maxTimeout + clockSkew
)

// JudgeWindow returns a *Refusal of ErrInvalid unless the authorization is valid now, stays so for
// the margin, and ends within MaxTimeout and a minute.
func (o Offer) JudgeWindow(p Payment, now time.Time, margin time.Duration) error {
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

// magic6492 ends a signature of a wallet that is not deployed yet (ERC-6492).
var magic6492 = strings.Repeat("6492", 16)

// DeploysWallet reports whether the signature says that its wallet is to be deployed first.
func (p Payment) DeploysWallet() bool {
	return strings.HasSuffix(p.exact.Signature, magic6492)
}

// IsOfWindow reports whether an error is one of JudgeWindow.
func IsOfWindow(err error) bool {
	var refusal *Refusal
	return errors.Is(err, ErrInvalid) && errors.As(err, &refusal) &&
		slices.Contains([]string{x402.ReasonValidAfter, x402.ReasonValidBefore, reasonTooFar}, refusal.Reason)
}

// Since returns a moment before which JudgeWindow cannot have allowed the payment. One whose window
// ends later than these terms allow counts as if it ended now.
func (o Offer) Since(p Payment, now time.Time) time.Time {
	end := p.validBefore
	if latest := now.Add(o.Terms.MaxTimeout + clockSkew); end.After(latest) {
		end = now
	}
	return end.Add(-o.Terms.MaxTimeout - clockSkew)
}

// SignedByPayer reports whether the payer's own key signed the authorization for the
// token of the terms: 65 bytes that recover to the payer, with v 27 or 28 and s
// in the lower half, as the token's contract demands of an ordinary account. A
// payment that is not signed so may still be good: a wallet may be a contract.
func (t Terms) SignedByPayer(p Payment) bool {
	if len(p.exact.Signature) != 2+2*65 {
		return false
	}
	domain, ok := t.tokenDomain()
	if !ok {
		return false
	}
	authorization, err := eip3009.Parse(p.exact.Authorization)
	if err != nil {
		return false
	}
	signature, err := eip3009.Signature(p.exact.Signature)
	if err != nil {
		return false
	}
	signer, err := eip3009.Recover(authorization.Digest(domain), signature)
	return err == nil && strings.EqualFold(signer.Hex(), p.Key.Payer)
}
