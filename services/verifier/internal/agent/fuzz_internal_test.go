package agent

import (
	"encoding/json"
	"errors"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/retryafter"
	"github.com/pforte/pforte/pkg/x402"
)

// FuzzSellersAnswers holds that whatever a seller answers, the agent pays no
// more than its cap, in a token that it knows, and waits a bounded time.
func FuzzSellersAnswers(f *testing.F) {
	token := knownTokens["eip155:84532"]
	offer := x402.Requirements{
		Scheme: x402.SchemeExact, Network: "eip155:84532", Amount: "10000", Asset: token, PayTo: token, MaxTimeoutSeconds: 60,
		Extra: map[string]any{"name": "USDC", "version": "2"},
	}
	dear := offer
	dear.Amount = "99999999999999999999"
	for _, accepts := range [][]x402.Requirements{{offer}, {dear, offer}, {dear}, nil} {
		header, err := x402.Encode(x402.PaymentRequired{X402Version: x402.V2, Accepts: accepts})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(402, header, "", `{"error":"Payment required","reason":"payment_required"}`)
	}
	f.Add(503, "", "99999999999999999999", `{"error":"later","reason":"settlement_pending","retryable":true}`)
	f.Add(200, "e30=", "-1", `{"receipt":{}}`)
	f.Add(422, "bnVsbA==", "Wed, 21 Oct 2026 07:28:00 GMT", `{"error":7,"checks":[[[]]]}`)
	most := big.NewInt(50_000)
	f.Fuzz(func(t *testing.T, status int, header, after, body string) {
		a := answer{status: status, header: http.Header{}, body: []byte(body)}
		a.header.Set(x402.HeaderPaymentRequired, header)
		a.header.Set(x402.HeaderPaymentResponse, header)
		a.header.Set("Retry-After", after)
		if wait := retryafter.Read(a.header, time.Now(), usualPause, longestPause); wait < time.Second || wait > longestPause {
			t.Errorf("%q means waiting for %s", after, wait)
		}
		if r := a.refusal(); r.Status != status || strings.ContainsRune(printable(r.Error()), '\x1b') {
			t.Errorf("%q became %q", body, r)
		}
		if _, err := json.Marshal(a.settled()); err != nil {
			t.Errorf("%q: %v", header, err)
		}
		challenge, err := a.challenge()
		if err != nil {
			return
		}
		chosen, price, err := choose(challenge.Accepts, most, "")
		switch {
		case err != nil && !errors.Is(err, ErrNoOffer) && !errors.Is(err, ErrPriceAboveCap):
			t.Error(err)
		case err == nil && (price.Cmp(most) > 0 || price.Sign() < 0 || !strings.EqualFold(chosen.Asset, knownTokens[chosen.Network])):
			t.Errorf("%+v is paid", chosen)
		}
	})
}
