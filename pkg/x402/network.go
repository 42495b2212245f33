package x402

import (
	"fmt"
	"math/big"
	"strings"
)

// v1Names are the names that version 1 has for networks of eip155, by their CAIP-2
// ids (package x402 1.2.0, types/shared/network).
var v1Names = map[string]string{
	"eip155:8453":      "base",
	"eip155:84532":     "base-sepolia",
	"eip155:137":       "polygon",
	"eip155:80002":     "polygon-amoy",
	"eip155:43114":     "avalanche",
	"eip155:43113":     "avalanche-fuji",
	"eip155:1329":      "sei",
	"eip155:1328":      "sei-testnet",
	"eip155:4689":      "iotex",
	"eip155:2741":      "abstract",
	"eip155:11124":     "abstract-testnet",
	"eip155:3338":      "peaq",
	"eip155:1514":      "story",
	"eip155:41923":     "educhain",
	"eip155:324705682": "skale-base-sepolia",
}

// V1Name returns the version 1 name of a CAIP-2 network, or false if it has none.
func V1Name(network string) (string, bool) {
	name, ok := v1Names[network]
	return name, ok
}

// ChainID returns the chain id of a CAIP-2 network in the namespace eip155, or
// false when it has another form.
func ChainID(network string) (*big.Int, bool) {
	digits, ok := strings.CutPrefix(network, "eip155:")
	if !ok || digits == "" || len(digits) > 32 || strings.Trim(digits, "0123456789") != "" || digits[0] == '0' {
		return nil, false
	}
	return new(big.Int).SetString(digits, 10)
}

// Decimals is how many decimals Dollars takes a token to have: a US dollar is 10^6 of
// its atomic units.
const Decimals = 6

// Dollars writes atomic units as US dollars: 10000 is "0.01".
func Dollars(atomic *big.Int) string {
	text := fmt.Sprintf("%0*s", Decimals+1, atomic)
	whole, part := text[:len(text)-Decimals], text[len(text)-Decimals:]
	cents, rest := part[:2], strings.TrimRight(part[2:], "0")
	return whole + "." + cents + rest
}
