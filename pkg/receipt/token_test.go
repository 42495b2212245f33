package receipt_test

import (
	"encoding/hex"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/crypto/sha3"

	"github.com/pforte/pforte/pkg/receipt"
)

// knownOn are the chains of the table, with how many tokens each has.
var knownOn = map[string]int{
	"eip155:1": 6, "eip155:10": 5, "eip155:137": 5, "eip155:8453": 6, "eip155:42161": 4, "eip155:43114": 1, "eip155:84532": 2, "eip155:11155111": 1,
}

func TestKnownToken_HasTheChecksumOfItsAddressAndASource(t *testing.T) {
	for chain, n := range knownOn {
		tokens := receipt.KnownTokens(chain)
		if len(tokens) != n {
			t.Errorf("%s has %d tokens, want %d", chain, len(tokens), n)
		}
		symbols := map[string]bool{}
		for _, token := range tokens {
			lower := strings.ToLower(token.Address[2:])
			h := sha3.NewLegacyKeccak256()
			_, _ = h.Write([]byte(lower))
			sum, want := hex.EncodeToString(h.Sum(nil)), []byte(lower)
			for i, c := range want {
				if c >= 'a' && sum[i] >= '8' {
					want[i] = c - 'a' + 'A'
				}
			}
			if token.Address != "0x"+string(want) {
				t.Errorf("%s on %s: %s is not the checksum %s", token.Symbol, chain, token.Address, want)
			}
			if u, err := url.Parse(token.Source); err != nil || u.Scheme != "https" || u.Host == "" {
				t.Errorf("%s on %s: source %q", token.Symbol, chain, token.Source)
			}
			if symbols[token.Symbol] || token.Decimals < 0 || token.Decimals > 18 {
				t.Errorf("%s on %s: twice, or %d decimals", token.Symbol, chain, token.Decimals)
			}
			symbols[token.Symbol] = true
			for _, address := range []string{token.Address, "0x" + lower} {
				if found, ok := receipt.KnownToken(chain, address); !ok || found != token {
					t.Errorf("%s on %s: found %v", address, chain, found)
				}
			}
			if _, ok := receipt.KnownToken("eip155:2", token.Address); ok {
				t.Errorf("%s is known on another chain", token.Address)
			}
		}
	}
}

func TestToken_ShowsAndReadsDecimals(t *testing.T) {
	usdc, _ := receipt.KnownToken("eip155:8453", "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913")
	for atomic, want := range map[string]string{
		"706601842": "706.601842", "10000": "0.01", "1": "0.000001", "0": "0", "1000000": "1", "12000000": "12", "1500000": "1.5", "x": "x", "-1": "-1", "": "",
	} {
		if got := usdc.Decimal(atomic); got != want {
			t.Errorf("%s: %s, want %s", atomic, got, want)
		}
	}
	for decimal, want := range map[string]string{"706.601842": "706601842", "0.01": "10000", "0": "0", "00.5": "500000", "12": "12000000", "0.000001": "1"} {
		if got, err := usdc.Atomic(decimal); err != nil || got != want {
			t.Errorf("%s: %s %v, want %s", decimal, got, err, want)
		}
	}
	for _, wrong := range []string{"", ".", "1.", ".5", "1.0000001", "-1", "+1", "1e3", "1,5", "0x1", " 1", "1.2.3", strings.Repeat("9", 79)} {
		if got, err := usdc.Atomic(wrong); err == nil {
			t.Errorf("%q: %s", wrong, got)
		}
	}
	if got := (receipt.Token{}).Decimal("7"); got != "7" {
		t.Errorf("without decimals: %s", got)
	}
}

func TestTransferSentence_NamesAKnownToken(t *testing.T) {
	token := "0xd9aaec86b65d86f6a7b5b1b0c42ffa531710b6ca"
	moved := receipt.ProvenTransfer{Token: &token, LogPosition: new(int), Matches: "1", Amount: "706601842", From: "0xa", To: "0xb"}
	if got, want := moved.SentenceOn("eip155:8453"), "706.601842 USDbC (known token, 6 decimals) from 0xa to 0xb"; !strings.HasPrefix(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, chain := range []string{"", "eip155:1"} {
		if got, want := moved.SentenceOn(chain), "706601842 of token "+token+" from 0xa to 0xb"; !strings.HasPrefix(got, want) {
			t.Errorf("on %q: got %s, want %s", chain, got, want)
		}
	}
}

func TestBlock_HasADateForPeople(t *testing.T) {
	for timestamp, want := range map[string]string{
		"1696422807": "2023-10-04T12:33:27Z", "0": "1970-01-01T00:00:00Z", "253402300800": "253402300800", "18446744073709551615": "18446744073709551615", "x": "x",
	} {
		if got := (receipt.Block{Timestamp: timestamp}).Date(); got != want {
			t.Errorf("%s: %s, want %s", timestamp, got, want)
		}
	}
}
