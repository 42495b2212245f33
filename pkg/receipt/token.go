package receipt

import (
	_ "embed" // the table
	"encoding/json"
	"errors"
	"math/big"
	"strconv"
	"strings"
	"sync"
)

// Token is a token whose contract its issuer or its network names. It is for amounts that
// people read and write. No receipt holds it: a receipt names a token by its address.
type Token struct {
	Chain    string `json:"chain"`   // CAIP-2, such as eip155:8453
	Address  string `json:"address"` // with the checksum of EIP-55
	Symbol   string `json:"symbol"`
	Decimals int    `json:"decimals"`
	Source   string `json:"source"` // where the issuer or the network names the contract
}

//go:embed tokens.json
var tokenTable []byte

var knownTokens = sync.OnceValue(func() (all []Token) {
	if err := json.Unmarshal(tokenTable, &all); err != nil {
		panic("tokens.json: " + err.Error()) // it is compiled in, and tested
	}
	return all
})

// KnownTokens returns the known tokens of a chain, by its CAIP-2 id.
func KnownTokens(chain string) (found []Token) {
	for _, t := range knownTokens() {
		if t.Chain == chain {
			found = append(found, t)
		}
	}
	return found
}

// KnownToken returns the token at an address of a chain, and reports whether it is known.
// The letters of the address may be of either case.
func KnownToken(chain, address string) (Token, bool) {
	for _, t := range knownTokens() {
		if t.Chain == chain && strings.EqualFold(t.Address, address) {
			return t, true
		}
	}
	return Token{}, false
}

// Decimal returns an amount of atomic units as a decimal number, without zeros at the end of its
// fraction: of USDC "706601842" is "706.601842". What is negative or no number is returned as it is.
func (t Token) Decimal(atomic string) string {
	if n, ok := new(big.Int).SetString(atomic, 10); !ok || n.Sign() < 0 {
		return atomic
	}
	if short := t.Decimals + 1 - len(atomic); short > 0 {
		atomic = strings.Repeat("0", short) + atomic
	}
	whole, part := atomic[:len(atomic)-t.Decimals], strings.TrimRight(atomic[len(atomic)-t.Decimals:], "0")
	if part == "" {
		return whole
	}
	return whole + "." + part
}

var errDecimal = errors.New("is no decimal number, or has more digits after the point than the token")

// Atomic returns a decimal number as atomic units: of USDC "0.01" is "10000". A number is
// digits, or digits on both sides of one point. A number with more digits after the point
// than Decimals, or more than 78 before it, is an error.
func (t Token) Atomic(decimal string) (string, error) {
	whole, part, hasPart := strings.Cut(decimal, ".")
	digits := func(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
	if !digits(whole) || hasPart && !digits(part) || len(part) > t.Decimals || len(whole) > maxDecimalDigits {
		return "", errDecimal
	}
	atomic := strings.TrimLeft(whole+part+strings.Repeat("0", t.Decimals-len(part)), "0")
	if atomic == "" {
		atomic = "0"
	}
	return atomic, nil
}

// maxDecimalDigits bounds the digits before the point that Atomic reads; 2^256 has 78.
const maxDecimalDigits = 78

// AmountOf returns an amount of atomic units of the token at an address, for people: of a
// known token a decimal number with its symbol, of any other the atomic units with its address.
func AmountOf(chain, address, atomic string) string {
	if t, ok := KnownToken(chain, address); ok {
		return t.Decimal(atomic) + " " + t.Symbol + " (known token, " + strconv.Itoa(t.Decimals) + " decimals)"
	}
	return atomic + " of token " + address
}
