package payment

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/eip3009"
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
	// MaxTimeout bounds how long a payment that comes may still be valid (see Offer.JudgeWindow).
	MaxTimeout time.Duration
	// V1 also accepts protocol version 1, where the network has a name in it.
	V1 bool
}

// Validate returns the faults that it finds in the terms, together; nil for none.
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
	if !isSpelled(t.PayTo) {
		faults = append(faults,
			fmt.Errorf("payment payee %q is mistyped: its upper and lower case are not its checksum (EIP-55)", t.PayTo))
	}
	if t.AssetName == "" || t.AssetVersion == "" {
		faults = append(faults, errors.New("payment asset needs the name and version of its EIP-712 domain"))
	}
	if amount, ok := parseAmount(t.Amount); !ok || amount.Sign() == 0 {
		faults = append(faults, fmt.Errorf("payment amount %q is not a positive number of atomic units", t.Amount))
	}
	if t.MaxTimeout < minTimeout || t.MaxTimeout > maxTimeout || t.MaxTimeout%time.Second != 0 {
		faults = append(faults, fmt.Errorf("payment timeout must be whole seconds from %d to %d",
			int(minTimeout.Seconds()), int(maxTimeout.Seconds())))
	}
	return errors.Join(faults...)
}

// Separator returns the separator of the token's EIP-712 domain, as 0x and hexadecimal digits.
func (t Terms) Separator() string {
	domain, _ := t.tokenDomain() // Validate has checked the network
	return domain.Separator().Hex()
}

// tokenDomain returns the token's EIP-712 domain; false where Network has no chain id.
func (t Terms) tokenDomain() (eip3009.Domain, bool) {
	id, ok := x402.ChainID(t.Network)
	return eip3009.Domain{
		Name: t.AssetName, Version: t.AssetVersion, ChainID: id, Token: common.HexToAddress(t.Asset),
	}, ok
}

// Bounds of Terms.MaxTimeout, inclusive: less leaves no time for the work and the settling.
const (
	minTimeout = 30 * time.Second
	maxTimeout = time.Hour
)

// Offer is one thing for sale at certain terms.
type Offer struct {
	Terms Terms
	// Resource describes what is sold; its URL is the public one.
	Resource x402.Resource
	// Extensions are advertised in challenges of version 2.
	Extensions Extensions
}

// Requirements returns the one way to pay, in version 2.
func (o Offer) Requirements() x402.Requirements {
	t := o.Terms
	return x402.Requirements{
		Scheme: x402.SchemeExact, Network: t.Network, Amount: t.Amount, Asset: t.Asset, PayTo: t.PayTo,
		MaxTimeoutSeconds: int(t.MaxTimeout / time.Second), Extra: t.domain(),
	}
}

// RequirementsV1 returns the one way to pay, in version 1; false when it cannot be paid so.
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

// Challenge returns the challenge of version 2; problem is what was wrong with the payment, or that
// there was none.
func (o Offer) Challenge(problem string) x402.PaymentRequired {
	return x402.PaymentRequired{
		X402Version: x402.V2, Error: problem, Resource: o.Resource,
		Accepts: []x402.Requirements{o.Requirements()}, Extensions: o.Extensions,
	}
}

// ChallengeV1 returns the challenge of version 1; false when that is not accepted.
func (o Offer) ChallengeV1(problem string) (x402.PaymentRequiredV1, bool) {
	requirements, ok := o.RequirementsV1()
	return x402.PaymentRequiredV1{
		X402Version: x402.V1, Error: problem, Accepts: []x402.RequirementsV1{requirements},
	}, ok
}

// isHex reports whether text is 0x and size bytes in hexadecimal digits.
func isHex(text string, size int) bool {
	return len(text) == 2+2*size && isHexData(text)
}

func isHexData(text string) bool {
	digits, ok := strings.CutPrefix(text, "0x")
	return ok && len(digits)%2 == 0 && strings.Trim(digits, "0123456789abcdefABCDEF") == ""
}

// IsTransaction reports whether hash has the form of a transaction's: 0x and 32 bytes in
// hexadecimal digits, not all of them zero.
func IsTransaction(hash string) bool { return isHex(hash, 32) && !isZero(hash) }

// isSpelled reports whether an address has its checksum (EIP-55), or is in one case, which has
// none.
func isSpelled(address string) bool {
	digits := strings.TrimPrefix(address, "0x")
	return digits == strings.ToLower(digits) || digits == strings.ToUpper(digits) ||
		address == common.HexToAddress(address).Hex()
}

func isZero(hex string) bool { return strings.Trim(hex, "0x") == "" }

// parseAmount reads a decimal number of at most 256 bits without zeros before it.
func parseAmount(text string) (*big.Int, bool) {
	n, ok := eip3009.Decimal(text)
	return n, ok && (text == "0" || text[0] != '0')
}

// Token is a USD stablecoin with EIP-3009 and its EIP-712 domain.
type Token struct{ Address, Name, Version string }

// knownTokens are the native USD stablecoins of some CAIP-2 networks. The names are what
// wallets sign for (packages @x402/evm 2.27.0 and x402 1.2.0, Circle's list of USDC
// contracts); they differ from network to network.
var knownTokens = map[string]Token{
	"eip155:1":      {"0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", "USD Coin", "2"},
	"eip155:10":     {"0x0b2C639c533813f4Aa9D7837CAf62653d097Ff85", "USD Coin", "2"},
	"eip155:137":    {"0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359", "USD Coin", "2"},
	"eip155:8453":   {"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", "USD Coin", "2"},
	"eip155:42161":  {"0xaf88d065e77c8cC2239327C5EDb3A432268e5831", "USD Coin", "2"},
	"eip155:43113":  {"0x5425890298aed601595a70AB815c96711a31Bc65", "USD Coin", "2"},
	"eip155:43114":  {"0xB97EF9Ef8734C71904D8002F8b6Bc66Dd9c48a6E", "USD Coin", "2"},
	"eip155:80002":  {"0x41E94Eb019C0762f9Bfcf9Fb1E58725BfB0e7582", "USDC", "2"},
	"eip155:84532":  {"0x036CbD53842c5426634e7929541eC2318f3dCF7e", "USDC", "2"},
	"eip155:421614": {"0x75faf114eafb1BDbe2F0316DF893fd58CE46AA4d", "USD Coin", "2"},
}

// KnownToken returns the native USD stablecoin of a CAIP-2 network; false when it is not listed
// here.
func KnownToken(network string) (Token, bool) {
	token, known := knownTokens[network]
	return token, known
}
