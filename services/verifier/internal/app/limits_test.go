package app

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
)

// payOf is pay for another payer.
func (w *world) payOf(payer int, nonce string) string {
	w.Helper()
	offer, key := payment.Offer{Terms: paymenttest.Terms("eip155:84532")}, paymenttest.Payer(payer)
	offer.Resource.URL = "https://seller.example" + path
	a := paymenttest.Authorization(nonce, w.began)
	a.From = paymenttest.Address(key)
	paid := paymenttest.PayloadV2(offer, a)
	paid.Payload.Signature = paymenttest.SignWith(key, offer.Terms, a)
	header, err := x402.Encode(paid)
	w.must(err)
	return header
}

// TestRun_LimitsAreThoseOfTheirSettings sets each to 1: the second call of a payer is refused, and the first one of
// another payer at the same address where the limit is the address's.
func TestRun_LimitsAreThoseOfTheirSettings(t *testing.T) {
	attempts := []string{"expectation_mismatch", "too_many_unpaid_attempts"}
	failures := []string{"settlement_refused", "too_many_failed_settlements"}
	for setting, c := range map[string]struct {
		reasons []string
		other   string // the reason for another payer
	}{
		"UNPAID_ATTEMPTS_PER_PAYER":              {attempts, attempts[0]},
		"UNPAID_ATTEMPTS_PER_ADDRESS":            {attempts, attempts[1]},
		"FAILED_SETTLEMENTS_PER_PAYER_PER_DAY":   {failures, failures[0]},
		"FAILED_SETTLEMENTS_PER_ADDRESS_PER_DAY": {failures, failures[1]},
	} {
		t.Run(setting, func(t *testing.T) {
			w := newWorld(t, sqldbtest.SQLite(t))
			w.env[setting] = "1"
			question := goodBody
			if c.reasons[0] == attempts[0] {
				question = `{"transactionHash":"` + recordedTx + `","expectations":{"status":"reverted"}}`
			}
			w.sim.OnSettleOf = func(p x402.ExactPayload, _ func() x402.SettleResponse) (x402.SettleResponse, error) {
				return x402.SettleResponse{
					Success: new(false), ErrorReason: "transaction_failed", Network: "eip155:84532",
					Payer: p.Authorization.From, Transaction: w.sim.Revert(p.Authorization.Nonce[2:]),
				}, nil
			}
			r := w.run()
			for i, paid := range []string{w.pay("1"), w.pay("2"), w.payOf(1, "3")} {
				status, body := w.ask(r.url+path, question, paid)
				want := append(c.reasons, c.other)[i]
				if status == http.StatusOK || !strings.Contains(body, `"`+want+`"`) {
					t.Errorf("call %d: got %d %s, want %s", i+1, status, body, want)
				}
			}
		})
	}
}

func TestRun_TermsAreThoseOfTheirSettings(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t))
	w.env["PAYMENT_MAX_TIMEOUT_SECONDS"], w.env["PAYMENT_AMOUNT"] = "120", "20000"
	_, unpaid := w.post(w.run().url, "")
	for _, term := range []string{`"maxTimeoutSeconds":120`, `"maxAmountRequired":"20000"`} {
		if !strings.Contains(unpaid, term) {
			t.Errorf("got %s, want %s", unpaid, term)
		}
	}
	w.env["X402_V1"], w.env["DATABASE_URL"] = "false", sqldbtest.SQLite(t)
	if _, unpaid = w.post(w.run().url, ""); strings.Contains(unpaid, "accepts") {
		t.Errorf("version 1 is off, and its challenge is in %s", unpaid)
	}
}
