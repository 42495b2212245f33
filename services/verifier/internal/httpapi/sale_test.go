package httpapi_test

import (
	"strings"
	"testing"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

// What is at fault twice is refused for what comes first: the request, the free
// settlements, the payment, the evidence.
func TestSale_RefusesInOneOrderOverBothTransports(t *testing.T) {
	const none, bad, good = "none", "bad", "good"
	noEvidence := `{"transactionHash":"0x` + strings.Repeat("ab", 32) + `"}`
	for name, c := range map[string]struct {
		body, payment string
		isLimited     bool // no free settlement is left
		want          string
	}{
		"nothing at fault":         {`{}`, none, false, "Payment required: "},
		"no request, limit":        {`{}`, none, true, "facilitator_limit"},
		"bad request, limit":       {`{"transactionHash":"0x12"}`, none, true, "invalid_request"},
		"no request, bad payment":  {`{}`, bad, false, "invalid_request"},
		"bad request and payment":  {`{"transactionHash":"0x12"}`, bad, true, "invalid_request"},
		"bad payment, limit":       {goodBody, bad, true, "facilitator_limit"},
		"bad payment, no evidence": {noEvidence, bad, false, "invalid_x402_version"},
		"limit, no evidence":       {noEvidence, good, true, "facilitator_limit"},
		"no evidence":              {noEvidence, good, false, "transaction_not_found"},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t, func(o *paywall.Options) {
				if c.isLimited {
					o.FreeSettlements = 0
				}
			})
			var header []string
			var meta any
			switch c.payment {
			case bad:
				header, meta = []string{x402.HeaderPaymentSignature, "e30="}, map[string]any{"x402/payment": map[string]any{}}
			case good:
				name, value := w.v2("1")
				header, meta = []string{name, value}, w.toolPayment("2")
			}
			for transport, got := range map[string]reply{
				"HTTP": w.post(c.body, header...), "MCP": w.rpc(message("verify_transaction", c.body, meta)),
			} {
				if !strings.Contains(string(got.body), c.want) {
					t.Errorf("over %s: got %.300s, want %s", transport, got.body, c.want)
				}
			}
			w.wantTransfers(0)
		})
	}
}
