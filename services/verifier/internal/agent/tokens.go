package agent

import (
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/ethereum/go-ethereum/common"

	"github.com/pforte/pforte/pkg/x402"
)

// knownTokens are the tokens that the agent pays with, by network: Circle's USDC
// (developers.circle.com/stablecoins/usdc-contract-addresses). The development
// network has its token at Base Sepolia's address.
var knownTokens = map[string]string{
	"eip155:1":        "0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48",
	"eip155:10":       "0x0b2c639c533813f4aa9d7837caf62653d097ff85",
	"eip155:137":      "0x3c499c542cef5e3811e1192ce70d8cc03d5c3359",
	"eip155:8453":     "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913",
	"eip155:42161":    "0xaf88d065e77c8cc2239327c5edb3a432268e5831",
	"eip155:84532":    "0x036cbd53842c5426634e7929541ec2318f3dcf7e",
	"eip155:11155111": "0x1c7d4b196cb0c7b01d743fbc6116a902379c7238",
}

// Errors of choose.
var (
	ErrNoOffer = errors.New("the seller offers no way to pay that this agent supports: scheme exact, a known " +
		"US dollar token")
	ErrPriceAboveCap = errors.New("the price is above the cap")
)

// choose returns the first way to pay that the agent supports and that costs at most most, and its price. most and
// the price are in atomic units. network, when not "", is the only network to pay on. The error is ErrPriceAboveCap
// if there are supported ways that all cost more, and ErrNoOffer if there are none.
func choose(accepts []x402.Requirements, most *big.Int, network string) (x402.Requirements, *big.Int, error) {
	err := ErrNoOffer
	for _, r := range accepts {
		price, known := priceOf(r)
		switch {
		case !known || network != "" && r.Network != network:
		case price.Cmp(most) <= 0:
			return r, price, nil
		case errors.Is(err, ErrNoOffer):
			err = fmt.Errorf("%w: %s USD asked, at most %s USD allowed", ErrPriceAboveCap, x402.Dollars(price),
				x402.Dollars(most))
		}
	}
	return x402.Requirements{}, nil, err
}

// priceOf returns an offer's price in atomic units. It returns false for a way to pay that the agent does not
// support.
func priceOf(r x402.Requirements) (*big.Int, bool) {
	token, known := knownTokens[r.Network]
	if r.Scheme != x402.SchemeExact || !known || !strings.EqualFold(r.Asset, token) || !common.IsHexAddress(r.PayTo) {
		return nil, false
	}
	if flow, ok := r.Extra["paymentFlow"]; ok && flow != "authorization" {
		return nil, false
	}
	if r.Amount == "" || len(r.Amount) > 78 || strings.Trim(r.Amount, "0123456789") != "" {
		return nil, false
	}
	return new(big.Int).SetString(r.Amount, 10)
}

// parseDollars reads US dollars as atomic units: "0.05" is 50000.
func parseDollars(text string) (*big.Int, error) {
	whole, part, _ := strings.Cut(text, ".")
	if len(part) > x402.Decimals || strings.Trim(whole+part, "0123456789") != "" || whole+part == "" ||
		len(whole) > 12 {
		return nil, fmt.Errorf("%q is not an amount in US dollars, such as 0.05", text)
	}
	atomic, _ := new(big.Int).SetString(whole+part+strings.Repeat("0", x402.Decimals-len(part)), 10) // only digits
	return atomic, nil
}
