package httpapi_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/x402"
)

// FuzzCalls holds that whatever is sent to the paid path is answered as the
// contract requires: one of its statuses, JSON with a reason, and for nothing but
// 200 a charge.
func FuzzCalls(f *testing.F) {
	w := open(f, nil)
	_, paid := w.v2("1")
	f.Add(goodBody, "application/json", "*/*", "")
	f.Add(goodBody, "application/json; charset=utf-8", receipt.MediaTypeDSSE, paid)
	f.Add(`{"transactionHash":"0x"}`, "text/plain", "application/json;q=0.5, application/vnd.dsse+json;q=2", "e30=")
	f.Add("", "", "", "\xff")
	f.Add(" {} ", "application/json", ",;q=", "null")
	f.Fuzz(func(t *testing.T, body, contentType, accept, payment string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+"/v1/verify/chain-transaction", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header = http.Header{"Content-Type": {contentType}, "Accept": {accept}, x402.HeaderPaymentSignature: {payment}}
		before := w.sim.Transfers()
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Skip("no header of HTTP")
		}
		defer func() { _ = response.Body.Close() }()
		answer, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		var failure struct{ Reason string }
		switch {
		case response.StatusCode == http.StatusBadRequest && !strings.HasPrefix(response.Header.Get("Content-Type"), "application/json"):
			t.Skip("refused by net/http")
		case response.StatusCode == http.StatusOK:
		case w.sim.Transfers() != before:
			t.Errorf("%d was charged", response.StatusCode)
		case !slices.Contains([]int{400, 402, 422, 503}, response.StatusCode):
			t.Errorf("%q with %q is answered %d: %s", body, payment, response.StatusCode, answer)
		case json.Unmarshal(answer, &failure) != nil || failure.Reason == "":
			t.Errorf("%d with %q", response.StatusCode, answer)
		}
	})
}

// FuzzMessages holds that no message to the tools harms the service, and that none but
// a sold answer is charged.
func FuzzMessages(f *testing.F) {
	w := open(f, nil)
	f.Add(message("verify_transaction", goodBody, w.toolPayment("1")), "")
	f.Add(message("verify_transaction", `{"chain":null,"chain":""}`, map[string]any{"x402/payment": []int{1}}), "2025-06-18")
	f.Add(message("check_receipt", `{"answer":"{}"}`, nil), "2025-11-25")
	f.Add(`{"jsonrpc":"2.0","id":null,"method":"initialize","params":{"capabilities":{}}}`, "2026-07-28")
	f.Add(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, "")
	f.Add(`{"jsonrpc":"2.0","id":1,"result":{}}`, "\xff")
	f.Fuzz(func(t *testing.T, body, version string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+toolsPath, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"*/*"}, "Mcp-Protocol-Version": {version}}
		before := w.sim.Transfers()
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Skip("no header of HTTP")
		}
		defer func() { _ = response.Body.Close() }()
		answer, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		switch sold := strings.Contains(string(answer), `"x402/payment-response":{"success":true`); {
		case response.StatusCode >= http.StatusInternalServerError:
			t.Errorf("%q is answered %d: %s", body, response.StatusCode, answer)
		case w.sim.Transfers() != before && !sold:
			t.Errorf("%q was charged: %s", body, answer)
		}
	})
}
