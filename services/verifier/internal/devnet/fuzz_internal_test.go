package devnet

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/pforte/pforte/pkg/x402"
)

// FuzzOffers holds that what is read of a request can be handed to the token.
func FuzzOffers(f *testing.F) {
	t, err := readToken()
	if err != nil {
		f.Fatal(err)
	}
	facilitator := &Facilitator{token: t, chainID: big.NewInt(84532), network: "eip155:84532"}
	exact := x402.ExactPayload{Signature: "0x00", Authorization: x402.Authorization{
		From: PayerAddress.Hex(), To: PayeeAddress.Hex(), Value: "1", ValidAfter: "0", ValidBefore: "2", Nonce: "0x" + strings.Repeat("0", 64),
	}}
	terms := x402.Requirements{
		Scheme: x402.SchemeExact, Network: "eip155:84532", Amount: "1", Asset: TokenAddress.Hex(), PayTo: PayeeAddress.Hex(),
		Extra: map[string]any{"name": TokenName, "version": TokenVersion},
	}
	seed, err := json.Marshal(map[string]any{
		"x402Version": 2, "paymentPayload": x402.Payload{X402Version: 2, Accepted: terms, Payload: exact}, "paymentRequirements": terms,
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte(`{"x402Version":1,"paymentPayload":null,"paymentRequirements":[]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := facilitator.read(body)
		if err != nil {
			return
		}
		if _, err := facilitator.token.transfer(p.authorization, p.signature); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	})
}
