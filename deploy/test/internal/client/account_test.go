package client

import (
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/pkg/x402"
)

func offer() x402.PaymentRequired {
	return x402.PaymentRequired{X402Version: x402.V2, Resource: x402.Resource{URL: "http://seller/v1"}, Accepts: []x402.Requirements{{
		Scheme: x402.SchemeExact, Network: layout.Network, Amount: "10000", Asset: layout.Token, PayTo: layout.Payee, MaxTimeoutSeconds: 60,
		Extra: map[string]any{"name": layout.TokenName, "version": layout.TokenVersion},
	}}}
}

func TestAccount_IsThatOfItsKey(t *testing.T) {
	// The first account of every development chain.
	if got := NewAccount(layout.PayerKey).Address; got != "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266" {
		t.Errorf("got %s", got)
	}
}

// TestSignature_IsThatOfTheOfficialLibrary holds the signature against the one
// that viem 2.57.1 (account.signTypedData) makes of the same authorization.
func TestSignature_IsThatOfTheOfficialLibrary(t *testing.T) {
	b := NewAccount(layout.PayerKey)
	a := x402.Authorization{From: b.Address, To: layout.Payee, Value: "10000", ValidAfter: "0", ValidBefore: "1795238078", Nonce: "0x" + hex.EncodeToString(make([]byte, 32))}
	for version, header := range map[int]string{x402.V2: x402.HeaderPaymentSignature, x402.V1: x402.HeaderPaymentV1} {
		p, err := b.Sign(offer(), version, a)
		if err != nil {
			t.Fatal(err)
		}
		var sent struct {
			Payload x402.ExactPayload `json:"payload"`
		}
		if err := x402.Decode(p.Value, &sent); err != nil {
			t.Fatal(err)
		}
		const want = "0x07c72301ebf7ac76cce5960ef5cb891b8498a66ff963c8f9b8e9cf769d60e73c4579b799e07e2d1305b2fbdeef54a3dc44350b5b6c1ab9f84bb8e2befd6223d11c"
		if p.Header != header || sent.Payload.Signature != want {
			t.Errorf("%s is %s", p.Header, sent.Payload.Signature)
		}
	}
}

func TestPayment_AnswersTheOffer(t *testing.T) {
	paid := ""
	seller := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if paid = r.Header.Get(x402.HeaderPaymentSignature); paid != "" {
			_, _ = w.Write([]byte("sold"))
			return
		}
		challenge, err := x402.Encode(offer())
		if err != nil {
			t.Error(err)
		}
		w.Header().Set(x402.HeaderPaymentRequired, challenge)
		w.WriteHeader(http.StatusPaymentRequired)
	}))
	defer seller.Close()
	c, err := Pay(t.Context(), seller.Client(), seller.URL, "{}", nil).Challenge()
	if err != nil {
		t.Fatal(err)
	}
	b := NewAccount(layout.PayerKey)
	a, err := b.Authorize(c)
	if err != nil {
		t.Fatal(err)
	}
	p, err := b.Sign(c, x402.V2, a)
	if err != nil {
		t.Fatal(err)
	}
	answer := Pay(t.Context(), seller.Client(), seller.URL, "{}", &p)
	if string(answer.Body) != "sold" || !answer.OK() || paid != p.Value {
		t.Errorf("got %s: %s", answer, answer.Body)
	}
	if _, err := answer.Challenge(); err == nil {
		t.Error("an answer of 200 is an offer")
	}
	if before, err := strconv.ParseInt(a.ValidBefore, 10, 64); err != nil || before-time.Now().Unix() > 60 {
		t.Error("the payment is good for too long")
	}
}
