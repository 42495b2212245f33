package payment

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/x402"
)

// maxSignature bounds a signature in bytes: ERC-6492 wraps the creation of a
// wallet, which may take some thousands.
const maxSignature = 8 << 10

// Payment is what a buyer sent, read and judged in itself. Everything that goes
// to the facilitator is made from it, never from the buyer's bytes.
type Payment struct {
	// Version is the protocol's.
	Version int
	Key     Key
	// Digest covers what was signed and the signature, whatever the version.
	Digest Digest
	// Payer is the address as the buyer spelled it.
	Payer string
	// Identifier is the buyer's idempotency key, or "".
	Identifier string

	exact       x402.ExactPayload
	accepted    x402.Requirements // version 1's scheme and network in version 2's words
	extensions  Extensions
	validAfter  time.Time
	validBefore time.Time
}

// Read reads a payment header: HeaderPaymentSignature for version 2,
// HeaderPaymentV1 for version 1. Every fault is a *Refusal of ErrInvalid.
func Read(version int, header string) (Payment, error) {
	p := Payment{Version: version}
	claimed, err := p.decode(header)
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

func (p *Payment) decode(header string) (version int, err error) {
	if p.Version == x402.V1 {
		var v1 x402.PayloadV1
		if err := x402.Decode(header, &v1); err != nil {
			return 0, fmt.Errorf("read payment: %w", err)
		}
		p.exact = v1.Payload
		p.accepted = x402.Requirements{Scheme: v1.Scheme, Network: v1.Network}
		return v1.X402Version, nil
	}
	var v2 x402.Payload
	if err := x402.Decode(header, &v2); err != nil {
		return 0, fmt.Errorf("read payment: %w", err)
	}
	p.exact, p.accepted, p.extensions = v2.Payload, v2.Accepted, v2.Extensions
	return v2.X402Version, nil
}

// check judges the parts by themselves: forms and ranges.
func (p *Payment) check() (err error) {
	a := p.exact.Authorization
	if !isHex(a.From, 20) || !isHex(a.To, 20) || !isHex(a.Nonce, 32) || isZero(a.From) {
		return invalid(x402.ReasonInvalidPayload)
	}
	if _, ok := parseAmount(a.Value); !ok {
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

// parseMoment reads Unix seconds. What lies beyond the year 9999 is for ever.
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

// digest is the same for every encoding of one payment in either version.
func digest(p x402.ExactPayload) Digest {
	a := p.Authorization
	return sha256.Sum256([]byte(strings.ToLower(strings.Join(
		[]string{a.From, a.To, a.Value, a.ValidAfter, a.ValidBefore, a.Nonce, p.Signature}, " "))))
}

// ValidBefore is when the authorization ends.
func (p Payment) ValidBefore() time.Time { return p.validBefore }

// call makes what the facilitator is asked with: our requirements and the
// payment as it was judged. Resource and our extensions are ours, because a
// facilitator may index what the payment says about them.
func (o Offer) call(p Payment) ([]byte, error) {
	request := struct { // x402.Request, encoded in one piece
		X402Version         int `json:"x402Version"`
		PaymentPayload      any `json:"paymentPayload"`
		PaymentRequirements any `json:"paymentRequirements"`
	}{X402Version: p.Version}
	if p.Version == x402.V1 {
		v1, _ := o.RequirementsV1()
		request.PaymentPayload = x402.PayloadV1{X402Version: x402.V1, Scheme: x402.SchemeExact, Network: v1.Network, Payload: p.exact}
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
