package payment

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/x402"
)

// Terms is what a call costs and how it may be paid.
type Terms struct {
	// Network is the CAIP-2 chain that money moves on.
	Network string
	// Asset is the token's address; AssetName and AssetVersion are its EIP-712
	// domain, which signatures are made for.
	Asset, AssetName, AssetVersion string
	// PayTo is the address that is paid.
	PayTo string
	// Amount is the price in atomic units, decimal.
	Amount string
	// MaxTimeout is how long after signing a payment may be settled.
	MaxTimeout time.Duration
	// V1 also accepts protocol version 1, where the network has a name in it.
	V1 bool
}

// Validate reports every fault of the terms.
func (t Terms) Validate() error {
	var faults []error
	if _, ok := x402.ChainID(t.Network); !ok {
		faults = append(faults, fmt.Errorf("payment network %q is not of the form eip155:8453", t.Network))
	}
	for what, address := range map[string]string{"asset": t.Asset, "payee": t.PayTo} {
		if !isHex(address, 20) || isZero(address) {
			faults = append(faults, fmt.Errorf("payment %s %q is not an address", what, address))
		}
	}
	if t.AssetName == "" || t.AssetVersion == "" {
		faults = append(faults, errors.New("payment asset needs the name and version of its EIP-712 domain"))
	}
	if amount, ok := parseAmount(t.Amount); !ok || amount.Sign() == 0 {
		faults = append(faults, fmt.Errorf("payment amount %q is not a positive number of atomic units", t.Amount))
	}
	if t.MaxTimeout < minTimeout || t.MaxTimeout > maxTimeout || t.MaxTimeout%time.Second != 0 {
		faults = append(faults, fmt.Errorf("payment timeout must be whole seconds from %d to %d", int(minTimeout.Seconds()), int(maxTimeout.Seconds())))
	}
	return errors.Join(faults...)
}

// Bounds of Terms.MaxTimeout: room for work and settling, and an end.
const (
	minTimeout = 30 * time.Second
	maxTimeout = time.Hour
)

// Offer is one thing for sale at certain terms.
type Offer struct {
	Terms Terms
	// Resource says what it is; its URL is the public one.
	Resource x402.Resource
	// Extensions are advertised in challenges of version 2.
	Extensions Extensions
}

// Requirements is the one way to pay, as version 2 says it.
func (o Offer) Requirements() x402.Requirements {
	t := o.Terms
	return x402.Requirements{
		Scheme: x402.SchemeExact, Network: t.Network, Amount: t.Amount, Asset: t.Asset, PayTo: t.PayTo,
		MaxTimeoutSeconds: int(t.MaxTimeout / time.Second), Extra: t.domain(),
	}
}

// RequirementsV1 is the one way to pay, as version 1 says it; false when it
// cannot be paid so.
func (o Offer) RequirementsV1() (x402.RequirementsV1, bool) {
	t := o.Terms
	name, ok := x402.V1Name(t.Network)
	if !ok || !t.V1 {
		return x402.RequirementsV1{}, false
	}
	return x402.RequirementsV1{
		Scheme: x402.SchemeExact, Network: name, MaxAmountRequired: t.Amount,
		Resource: o.Resource.URL, Description: o.Resource.Description, MimeType: o.Resource.MimeType,
		PayTo: t.PayTo, MaxTimeoutSeconds: int(t.MaxTimeout / time.Second), Asset: t.Asset, Extra: t.domain(),
	}, true
}

func (t Terms) domain() map[string]any {
	return map[string]any{"name": t.AssetName, "version": t.AssetVersion}
}

// Challenge asks for a payment in version 2; problem is what was wrong with the
// last one, or what is missing.
func (o Offer) Challenge(problem string) x402.PaymentRequired {
	return x402.PaymentRequired{
		X402Version: x402.V2, Error: problem, Resource: o.Resource,
		Accepts: []x402.Requirements{o.Requirements()}, Extensions: o.Extensions,
	}
}

// ChallengeV1 asks for a payment in version 1; false when that is not accepted.
func (o Offer) ChallengeV1(problem string) (x402.PaymentRequiredV1, bool) {
	requirements, ok := o.RequirementsV1()
	return x402.PaymentRequiredV1{
		X402Version: x402.V1, Error: problem, Accepts: []x402.RequirementsV1{requirements},
	}, ok
}

// isHex tells whether text is 0x and size bytes in hexadecimal digits.
func isHex(text string, size int) bool {
	return len(text) == 2+2*size && isHexData(text)
}

// isHexData tells whether text is 0x and whole bytes in hexadecimal digits.
func isHexData(text string) bool {
	digits, ok := strings.CutPrefix(text, "0x")
	return ok && len(digits)%2 == 0 && strings.Trim(digits, "0123456789abcdefABCDEF") == ""
}

func isZero(hex string) bool { return strings.Trim(hex, "0x") == "" }

// parseAmount reads a decimal number of at most 256 bits in its one spelling.
func parseAmount(text string) (*big.Int, bool) {
	if text == "" || len(text) > 78 || strings.Trim(text, "0123456789") != "" || (text[0] == '0' && text != "0") {
		return nil, false
	}
	n, ok := new(big.Int).SetString(text, 10)
	return n, ok && n.BitLen() <= 256
}
