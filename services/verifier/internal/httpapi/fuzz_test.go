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
