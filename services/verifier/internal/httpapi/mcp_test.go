package httpapi_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/chain/recorded"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

var update = flag.Bool("update", false, "write the golden answers of tools anew")

const toolsPath = "/mcp"

// message is a call of a tool as JSON-RPC; meta may be nil.
func message(tool, arguments string, meta any) string {
	params := map[string]any{"name": tool, "arguments": json.RawMessage(arguments)}
	if meta != nil {
		params["_meta"] = meta
	}
	text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
	if err != nil {
		panic(err)
	}
	return string(text)
}

// rpc posts a message to the tools.
func (w *world) rpc(message string, header ...string) reply {
	w.Helper()
	if !slices.ContainsFunc(header, func(name string) bool { return strings.EqualFold(name, protocolHeader) }) {
		header = append(header, protocolHeader, "2025-11-25")
	}
	return w.do(http.MethodPost, toolsPath, message, append([]string{"Accept", "application/json, text/event-stream"}, header...)...)
}

// protocolHeader names the version of the protocol. That of rpc is one in which calls do without
// the SDK.
const protocolHeader = "MCP-Protocol-Version"

// call calls a tool without a payment.
func (w *world) call(tool, arguments string) reply {
	w.Helper()
	return w.rpc(message(tool, arguments, nil))
}

// toolPayment is the _meta of a paid call.
func (w *world) toolPayment(nonce string) map[string]any {
	return map[string]any{"x402/payment": paymenttest.PayloadV2(w.offer(), paymenttest.Authorization(nonce, w.clock()))}
}

// buyTool buys the good evidence with verify_transaction.
func (w *world) buyTool(nonce string) reply {
	w.Helper()
	return w.rpc(message("verify_transaction", goodBody, w.toolPayment(nonce)))
}

// result is a tool's result as a client reads it.
type result struct {
	IsError           bool            `json:"isError"`
	StructuredContent json.RawMessage `json:"structuredContent"`
	Content           []struct{ Type, Text, URI string }
	Meta              struct {
		Settlement *x402.SettleResponse `json:"x402/payment-response"`
	} `json:"_meta"`
}

// result reads a tool's result, and checks what every one has: status 200, and the same
// object for programs and as text, but of what was sold.
func (r reply) result() (found result) {
	r.Helper()
	var envelope struct {
		Result *result
	}
	if err := json.Unmarshal(r.body, &envelope); err != nil || envelope.Result == nil || r.status != http.StatusOK {
		r.Fatalf("%d %v: %s", r.status, err, r.body)
	}
	found = *envelope.Result
	var sold struct{ Verdict string }
	if err := json.Unmarshal(found.StructuredContent, &sold); err != nil {
		r.Fatal(err)
	}
	want := string(found.StructuredContent)
	if sold.Verdict != "" {
		want = sold.Verdict
	}
	if len(found.Content) == 0 || found.Content[0].Type != "text" || found.Content[0].Text != want {
		r.Errorf("text and object differ: %s", r.body)
	}
	if cache := r.header.Get("Cache-Control"); cache != "private, no-store" {
		r.Errorf("Cache-Control is %q", cache)
	}
	return found
}

// wantTool checks that a tool answered with an error of the one table, without any
// offer to pay.
func (r reply) wantTool(code int, reason string) (f failure) {
	r.Helper()
	found := r.result()
	if err := json.Unmarshal(found.StructuredContent, &f); err != nil {
		r.Fatal(err)
	}
	if !found.IsError || f.Code != code || f.Reason != reason || f.Retryable == nil || strings.Contains(string(r.body), "accepts") {
		r.Errorf("got %s, want %d %s", r.body, code, reason)
	}
	return f
}

// wantChallenge checks that a tool offers its payment, and why.
func (r reply) wantChallenge(problem string) result {
	r.Helper()
	found := r.result()
	var c x402.PaymentRequired
	if err := json.Unmarshal(found.StructuredContent, &c); err != nil {
		r.Fatal(err)
	}
	if !found.IsError || c.X402Version != 2 || len(c.Accepts) != 1 || c.Resource.URL != publicURL+toolsPath || !strings.Contains(c.Error, problem) {
		r.Errorf("got %s, want a challenge because of %s", r.body, problem)
	}
	return found
}

// wantSold checks that a tool answered with the signed receipt.
func (r reply) wantSold(w *world) result {
	r.Helper()
	found := r.result()
	keys, err := receipt.NewKeyDocument(w.key, "eip155:8453")
	w.must(err)
	if found.IsError {
		r.Fatalf("got %s", r.body)
	}
	for from, answer := range map[string]string{"here": found.Content[1].Text, "by the link": string(w.linked(found))} {
		if verified, err := receipt.Verify([]byte(answer), keys); err != nil || (len(verified.Proven) > 0) != (from == "by the link") {
			r.Errorf("the receipt %s: %v", from, err)
		}
	}
	s := found.Meta.Settlement
	if s == nil || !*s.Success || s.Network != network || s.Payer != paymenttest.Buyer {
		r.Errorf("the settlement is %+v", s)
	}
	return found
}

// linked reads what a sold answer links to.
func (w *world) linked(sold result) []byte {
	w.Helper()
	var object struct{ Hash, Link string }
	w.must(json.Unmarshal(sold.StructuredContent, &object))
	r := w.do(http.MethodGet, strings.TrimPrefix(object.Link, publicURL), "")
	if sum := sha256.Sum256(r.body); r.status != http.StatusOK || hex.EncodeToString(sum[:]) != object.Hash || !strings.HasSuffix(object.Link, "/"+object.Hash) {
		w.Fatalf("the link %s: %d %s", object.Link, r.status, r.body)
	}
	return r.body
}

// Every way in which a sale can end has one answer, byte for byte. The golden files
// hold the whole body. Messages that the SDK reads have the same.
func TestMCP_EveryEndOfASaleIsAToolsResult(t *testing.T) {
	no := false
	refuses := func(settle x402.SettleResponse) func(*world) {
		settle.Success, settle.Network, settle.Payer = &no, network, paymenttest.Buyer
		return func(w *world) {
			w.sim.ChainLog = errors.New("node away")
			w.sim.OnSettle = func(context.Context, func() x402.SettleResponse) (x402.SettleResponse, error) { return settle, nil }
		}
	}
	limited := func(o *paywall.Options) { o.FreeSettlements = 0 }
	for name, c := range map[string]struct {
		options func(*paywall.Options)
		before  func(*world)
		body    string // "" for the good one
		unpaid  bool
		meta    func(*world) any // nil: a good payment
	}{
		"unpaid":             {unpaid: true},
		"price_request":      {unpaid: true, body: `{}`},
		"sold":               {},
		"unpaid_limit":       {unpaid: true, options: limited},
		"limit":              {options: limited},
		"bad_arguments":      {body: `{"transactionHash":"0x12"}`},
		"unpaid_bad":         {unpaid: true, body: `{"transactionHash":"` + recordedTx + `","idempotencyKey":"x"}`},
		"unknown_chain":      {body: `{"chain":"mars","transactionHash":"` + recordedTx + `"}`},
		"evidence":           {body: `{"transactionHash":"` + recordedTx + `","expectations":{"status":"reverted","selector":"0x18cbafe5"}}`},
		"not_found":          {body: `{"transactionHash":"0x` + strings.Repeat("ab", 32) + `"}`},
		"invalid_form":       {meta: func(*world) any { return map[string]any{"x402/payment": "not an object"} }},
		"invalid_version":    {meta: func(w *world) any { return map[string]any{"x402/payment": map[string]any{"x402Version": 1}} }},
		"invalid_terms":      {meta: func(w *world) any { return w.cheapPayment() }},
		"refused":            {before: func(w *world) { w.sim.OnVerify = refusal(x402.ReasonInsufficientFunds) }},
		"not_settled":        {before: refuses(x402.SettleResponse{ErrorReason: x402.ReasonInsufficientFunds})},
		"pending":            {before: refuses(x402.SettleResponse{ErrorReason: x402.ReasonSettlementPending, Transaction: paymenttest.Hash(7)})},
		"facilitator_away":   {before: func(w *world) { w.sim.OnVerify = cut }},
		"facilitators_limit": {before: func(w *world) { w.sim.OnVerify = atItsLimit }},
		"used": {before: func(w *world) {
			w.rpc(message("verify_transaction", `{"transactionHash":"`+recordedTx+`"}`, w.toolPayment("1")))
		}},
		"too_many":            {options: func(o *paywall.Options) { o.AttemptsPerAddress = 1 }, before: func(w *world) { w.spendAttempt() }},
		"identifier_conflict": {before: func(w *world) { w.identified("1", `{"transactionHash":"`+recordedTx+`"}`) }, meta: func(w *world) any { return w.withIdentifier("2") }},
	} {
		for reader, bySDK := range map[string]bool{"directly": false, "by the SDK": true} {
			t.Run(name+" "+reader, func(t *testing.T) {
				w := open(t, c.options)
				w.tools.PaymentExtension = bySDK
				w.reopen()
				if c.before != nil {
					c.before(w)
				}
				body := c.body
				if body == "" {
					body = goodBody
				}
				var meta any = w.toolPayment("1")
				switch {
				case c.unpaid:
					meta = nil
				case c.meta != nil:
					meta = c.meta(w)
				}
				r := w.rpc(message("verify_transaction", body, meta))
				r.result()
				golden := filepath.Join("testdata", "mcp", name+".json")
				if *update {
					w.must(os.WriteFile(golden, append(r.body, '\n'), 0o600))
				}
				want, err := os.ReadFile(golden)
				w.must(err)
				if string(r.body)+"\n" != string(want) {
					t.Errorf("got %s\nwant %s", r.body, want)
				}
			})
		}
	}
}

func refusal(reason string) func() (x402.VerifyResponse, error) {
	no := false
	return func() (x402.VerifyResponse, error) {
		return x402.VerifyResponse{IsValid: &no, InvalidReason: reason}, nil
	}
}

func cut() (x402.VerifyResponse, error) { return x402.VerifyResponse{}, paymenttest.ErrCut }

func atItsLimit() (x402.VerifyResponse, error) {
	return x402.VerifyResponse{}, payment.ErrFacilitatorLimit
}

// cheapPayment is a payment of another amount.
func (w *world) cheapPayment() map[string]any {
	offer := w.offer()
	offer.Terms.Amount = "9999"
	authorization := paymenttest.Authorization("1", w.clock())
	authorization.Value = "9999"
	return map[string]any{"x402/payment": paymenttest.PayloadV2(offer, authorization)}
}

// spendAttempt makes one call that ends unpaid.
func (w *world) spendAttempt() {
	w.Helper()
	w.rpc(message("verify_transaction", `{"transactionHash":"0x`+strings.Repeat("cd", 32)+`"}`, w.toolPayment("9")))
}

func (w *world) withIdentifier(nonce string) map[string]any {
	paid := paymenttest.PayloadV2(w.offer(), paymenttest.Authorization(nonce, w.clock()))
	return map[string]any{"x402/payment": paymenttest.WithIdentifier(paid, "an-identifier-of-the-buyer")}
}

// identified buys with an identifier.
func (w *world) identified(nonce, body string) {
	w.Helper()
	w.rpc(message("verify_transaction", body, w.withIdentifier(nonce))).wantSold(w)
}

func TestMCP_AnOpenSettlementIsNoFreshChallenge(t *testing.T) {
	w := open(t, nil)
	no := false
	w.sim.ChainLog = errors.New("node away")
	w.sim.OnSettle = func(_ context.Context, honest func() x402.SettleResponse) (x402.SettleResponse, error) {
		moved := honest()
		return x402.SettleResponse{Success: &no, ErrorReason: x402.ReasonSettlementPending, Transaction: moved.Transaction, Network: network}, nil
	}
	meta := w.toolPayment("1")
	for range 2 {
		r := w.rpc(message("verify_transaction", goodBody, meta))
		f := r.wantTool(http.StatusServiceUnavailable, "settlement_pending")
		if s := r.result().Meta.Settlement; !*f.Retryable || f.RetryAfterSeconds == 0 || s == nil || *s.Success || s.Transaction != paymenttest.Hash(1) {
			t.Errorf("got %s", r.body)
		}
	}
	w.sim.Set(func(b *paymenttest.Simulator) { b.ChainLog = nil })
	w.rpc(message("verify_transaction", goodBody, meta)).wantSold(w)
	w.wantTransfers(1)
}

// The two protocols sell the same operation: what was paid by one is answered by the
// other, in the same bytes.
func TestMCP_APaymentOfOneProtocolIsAnsweredByTheOther(t *testing.T) {
	w := open(t, nil)
	name, value := w.v2("1")
	overHTTP := w.post(goodBody, name, value)
	overHTTP.wantReceipt(w)
	if got := w.linked(w.buyTool("1").wantSold(w)); !bytes.Equal(got, overHTTP.body) {
		t.Errorf("got %s, want %s", got, overHTTP.body)
	}
	asTool := w.linked(w.buyTool("2").wantSold(w))
	name, value = w.v2("2")
	if r := w.post(goodBody, name, value); !bytes.Equal(r.body, asTool) {
		t.Errorf("got %s, want %s", r.body, asTool)
	}
	w.wantTransfers(2)
}

func TestMCP_APaymentBegunByOneProtocolEndsByTheOther(t *testing.T) {
	for _, first := range []string{"HTTP", "MCP"} {
		t.Run(first, func(t *testing.T) {
			w := open(t, nil)
			no := false
			w.sim.ChainLog = errors.New("node away")
			w.sim.OnSettle = func(_ context.Context, honest func() x402.SettleResponse) (x402.SettleResponse, error) {
				honest()
				return x402.SettleResponse{Success: &no, ErrorReason: x402.ReasonSettlementPending, Network: network}, nil
			}
			name, value := w.v2("1")
			if first == "HTTP" {
				w.post(goodBody, name, value).wantFailure(http.StatusServiceUnavailable, "settlement_pending")
			} else {
				w.buyTool("1").wantTool(http.StatusServiceUnavailable, "settlement_pending")
			}
			w.sim.Set(func(b *paymenttest.Simulator) { b.ChainLog = nil })
			if first == "HTTP" {
				w.buyTool("1").wantSold(w)
			} else {
				w.post(goodBody, name, value).wantReceipt(w)
			}
			w.wantTransfers(1)
		})
	}
}

func TestMCP_AQuestionOverBothProtocolsIsPaidOnce(t *testing.T) {
	w := open(t, func(o *paywall.Options) { o.ReuseWindow = 24 * time.Hour })
	name, value := w.v2("1")
	overHTTP := w.post(goodBody, name, value)
	overHTTP.wantReceipt(w)
	again := w.buyTool("2").wantSold(w)
	if s := again.Meta.Settlement; !bytes.Equal(w.linked(again), overHTTP.body) || string(s.Extra) != `{"repeated":true}` || s.Transaction != paymenttest.Hash(1) {
		t.Errorf("got %+v, settled as %+v", again, again.Meta.Settlement)
	}
	w.wantTransfers(1)
}

func TestMCP_CopiesOverBothProtocolsAreOneTransfer(t *testing.T) {
	w := open(t, nil)
	name, value := w.v2("1")
	meta := w.toolPayment("1")
	answers := make(chan string, 100)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() { answers <- string(w.post(goodBody, name, value).body) })
		all.Go(func() { answers <- string(w.linked(w.rpc(message("verify_transaction", goodBody, meta)).wantSold(w))) })
	}
	all.Wait()
	close(answers)
	first := <-answers
	for answer := range answers {
		if answer != first {
			t.Errorf("got %s, want %s", answer, first)
		}
	}
	w.wantTransfers(1)
}

func TestMCP_AnHTTPHeaderDoesNotPayForATool(t *testing.T) {
	w := open(t, nil)
	name, value := w.v2("1")
	w.rpc(message("verify_transaction", goodBody, nil), name, value).wantChallenge("Payment required")
	w.wantTransfers(0)
}

func TestMCP_AToolTakesTheChainByName(t *testing.T) {
	w := open(t, nil)
	spelled := `{"expectations":{"status":"success"},"chain":"base","transactionHash":"0x` + strings.ToUpper(recordedTx[2:]) + `"}`
	meta := w.toolPayment("1")
	first := w.rpc(message("verify_transaction", spelled, meta)).wantSold(w)
	if again := w.rpc(message("verify_transaction", goodBody, meta)).wantSold(w); again.Content[1].Text != first.Content[1].Text {
		t.Errorf("got %s, want %s", again.Content[1].Text, first.Content[1].Text)
	}
	for arguments, field := range map[string]string{
		`{"chain":"base","chain":"base","transactionHash":"` + recordedTx + `"}`:              "", // refused with the message
		`{"Chain":"base","transactionHash":"` + recordedTx + `"}`:                             "Chain",
		`{"chain":7,"transactionHash":"` + recordedTx + `"}`:                                  "chain",
		`{"chain":null,"transactionHash":"` + recordedTx + `"}`:                               "chain",
		`{"chain":"base","transactionHash":"` + recordedTx + `","expectations":{"from":"x"}}`: "expectations.from",
	} {
		r := w.rpc(strings.Replace(message("verify_transaction", `{}`, nil), `"arguments":{}`, `"arguments":`+arguments, 1))
		if field == "" {
			r.wantFailure(http.StatusBadRequest, "invalid_request")
		} else if f := r.wantTool(http.StatusBadRequest, "invalid_request"); f.Field != field {
			t.Errorf("%s: the field is %q", arguments, f.Field)
		}
	}
	w.wantTransfers(1)
}

// Before a message is a call.

func TestMCP_MessagesThatNoToolMustGetAreRefused(t *testing.T) {
	w := open(t, nil)
	call := message("list_chains", `{}`, nil)
	for name, c := range map[string]struct {
		message, reason string
		status          int
	}{
		"batch":       {"[" + strings.Repeat(call+",", 499) + call + "]", "invalid_request", http.StatusBadRequest},
		"empty batch": {" \n[]", "invalid_request", http.StatusBadRequest},
		"deep":        {`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"a":` + strings.Repeat("[", 100000) + strings.Repeat("]", 100000) + `}}}`, "invalid_request", http.StatusBadRequest},
		"too large":   {message("check_receipt", `{"answer":"`+strings.Repeat("a", 256<<10)+`"}`, nil), "too_large", http.StatusRequestEntityTooLarge},
		"large":       {message("verify_transaction", `{"answer":"`+strings.Repeat("a", 32<<10)+`"}`, nil), "too_large", http.StatusRequestEntityTooLarge},
		"large meta":  {message("check_receipt", `{}`, map[string]any{"a": strings.Repeat("a", 32<<10)}), "too_large", http.StatusRequestEntityTooLarge},
		"much larger": {strings.Repeat(" ", 300<<10), "too_large", http.StatusRequestEntityTooLarge},
		"no JSON":     {"{", "invalid_request", http.StatusBadRequest},
		"two names":   {strings.Replace(call, `"id":1`, `"id":1,"id":2`, 1), "invalid_request", http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			w.rpc(c.message).wantFailure(c.status, c.reason)
		})
	}
}

// TestMCP_AnAnswerHasTheIDOfItsMessage: else its client waits for it, though it may have paid.
func TestMCP_AnAnswerHasTheIDOfItsMessage(t *testing.T) {
	w := open(t, nil)
	for i, id := range []string{
		`"1"`, `0`, `-1`, `9007199254740991`, `9007199254740993`, `-9007199254740993`, `1795238078123456789`,
		`12345678901234567890`, `1e300`, `1.5`,
	} {
		for _, version := range []string{"2024-11-05", "2025-11-25"} { // with the SDK, and without
			nonce := fmt.Sprint(100 + i)
			call := strings.Replace(message("verify_transaction", goodBody, w.toolPayment(nonce)), `"id":1`, `"id":`+id, 1)
			before := w.sim.Transfers()
			r := w.rpc(call, protocolHeader, version)
			var got struct{ ID json.RawMessage }
			if err := json.Unmarshal(r.body, &got); err != nil || string(got.ID) == id {
				continue
			}
			if f := r.wantFailure(http.StatusBadRequest, "invalid_request"); f.Retryable == nil || *f.Retryable || w.sim.Transfers() != before {
				t.Errorf("%s, %s: %s", id, version, r.body)
			}
		}
	}
	w.rpc(`{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`).wantFailure(http.StatusBadRequest, "invalid_request")
}

func TestMCP_MethodsOtherThanPostAre405(t *testing.T) {
	w := open(t, nil)
	for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodPut} {
		r := w.do(method, toolsPath, "", "Accept", "text/event-stream", "Mcp-Session-Id", "any")
		r.wantFailure(http.StatusMethodNotAllowed, "method_not_allowed")
		if allow := r.header.Get("Allow"); !strings.Contains(allow, "POST") {
			t.Errorf("%s: Allow is %q", method, allow)
		}
	}
}

// The SDK's own errors before a call have its form.
func TestMCP_MessagesTheSDKRefusesArePlainText(t *testing.T) {
	w := open(t, nil)
	call := message("list_chains", `{}`, nil)
	for name, c := range map[string]struct {
		header []string
		status int
	}{
		"media type": {[]string{"Content-Type", "text/plain"}, http.StatusUnsupportedMediaType},
		"accept":     {[]string{"Accept", "text/html"}, http.StatusBadRequest},
		"version":    {[]string{"MCP-Protocol-Version", "1999-01-01"}, http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			r := w.do(http.MethodPost, toolsPath, call, append([]string{"Accept", "*/*"}, c.header...)...)
			if name == "accept" {
				r = w.do(http.MethodPost, toolsPath, call, c.header...)
			}
			if r.status != c.status || !strings.HasPrefix(r.header.Get("Content-Type"), "text/plain") {
				t.Errorf("%d %v: %s", r.status, r.header, r.body)
			}
		})
	}
}

func TestMCP_AForeignHostIsServed(t *testing.T) {
	w := open(t, nil)
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, w.url+toolsPath, strings.NewReader(message("list_chains", `{}`, nil)))
	w.must(err)
	request.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Origin": {"https://page.example"}}
	request.Host = "seller.example"
	response, err := http.DefaultClient.Do(request)
	w.must(err)
	if _ = response.Body.Close(); response.StatusCode != http.StatusOK {
		t.Errorf("got %d", response.StatusCode)
	}
}

func TestMCP_PagesOfAnyOriginMayCallTools(t *testing.T) {
	w := open(t, nil)
	r := w.do(http.MethodOptions, toolsPath, "", "Origin", "https://app.example", "Access-Control-Request-Method", "POST",
		"Access-Control-Request-Headers", "content-type, mcp-protocol-version")
	if r.status != http.StatusNoContent || r.header.Get("Access-Control-Allow-Origin") != "*" || r.header.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("preflight: %d %v", r.status, r.header)
	}
	for _, name := range []string{"Content-Type", "Accept", "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name", "Mcp-Session-Id", "Last-Event-ID"} {
		if !strings.Contains(r.header.Get("Access-Control-Allow-Headers"), name) {
			t.Errorf("%s may not be sent", name)
		}
	}
}

// modern is a message with what version 2026-07-28 of the protocol demands of it.
func modern(method string, params map[string]any) (string, []string) {
	meta, _ := params["_meta"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
	}
	meta["io.modelcontextprotocol/protocolVersion"] = "2026-07-28"
	meta["io.modelcontextprotocol/clientInfo"] = map[string]any{"name": "test", "version": "1"}
	if meta["io.modelcontextprotocol/clientCapabilities"] == nil {
		meta["io.modelcontextprotocol/clientCapabilities"] = map[string]any{}
	}
	params["_meta"] = meta
	text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		panic(err)
	}
	header := []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method}
	if name, ok := params["name"].(string); ok {
		header = append(header, "Mcp-Name", name)
	}
	return string(text), header
}

func TestMCP_NoClientHoldsAConnectionBySubscribing(t *testing.T) {
	w := open(t, nil)
	text, header := modern("subscriptions/listen", map[string]any{"notifications": map[string]any{"toolsListChanged": true}})
	if r := w.rpc(text, header...); r.status != http.StatusNotFound || !strings.Contains(string(r.body), "-32601") {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// A buyer who hangs up before money can move ends the work, whatever version of the
// protocol they have.
func TestMCP_AHangUpEndsUnpaidWork(t *testing.T) {
	for _, version := range []string{"", "2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			w := open(t, nil)
			began, ended := make(chan struct{}, 8), make(chan struct{}, 8)
			w.node.Play(scriptOf(func(_ http.ResponseWriter, r *http.Request, _ []recorded.Request) bool {
				began <- struct{}{}
				<-r.Context().Done()
				ended <- struct{}{}
				return true
			}))
			var arguments map[string]any
			w.must(json.Unmarshal([]byte(goodBody), &arguments))
			text, header := message("verify_transaction", goodBody, w.toolPayment("1")), []string{"MCP-Protocol-Version", version}
			switch version {
			case "":
				header = nil
			case "2026-07-28":
				text, header = modern("tools/call", map[string]any{"name": "verify_transaction", "arguments": arguments, "_meta": w.toolPayment("1")})
			}
			ctx, hangUp := context.WithCancel(t.Context())
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+toolsPath, strings.NewReader(text))
			w.must(err)
			request.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
			for i := 0; i < len(header); i += 2 {
				request.Header.Set(header[i], header[i+1])
			}
			go func() {
				<-began
				hangUp()
			}()
			if response, err := http.DefaultClient.Do(request); err == nil {
				_ = response.Body.Close()
				t.Fatalf("answered %d before the work ended", response.StatusCode)
			}
			select {
			case <-ended:
			case <-time.After(30 * time.Second):
				t.Fatal("the work goes on although the buyer has gone")
			}
			w.wantTransfers(0)
		})
	}
}

func TestMCP_ACallThatTakesTooLongIsAnsweredOnRepeat(t *testing.T) {
	w := open(t, nil)
	w.tools.AnswerTimeout = 300 * time.Millisecond
	w.reopen()
	release := make(chan struct{})
	w.sim.OnSettle = func(_ context.Context, honest func() x402.SettleResponse) (x402.SettleResponse, error) {
		<-release
		return honest(), nil
	}
	f := w.buyTool("1").wantTool(http.StatusServiceUnavailable, "payment_in_progress")
	if !*f.Retryable || f.RetryAfterSeconds == 0 {
		t.Errorf("got %+v", f)
	}
	close(release)
	for range 100 {
		if r := w.buyTool("1"); !r.result().IsError {
			r.wantSold(w)
			w.wantTransfers(1)
			return
		}
	}
	t.Error("the repeat got no answer")
}

// What agents see of the tools.

func (w *world) listed() []map[string]any {
	w.Helper()
	r := w.rpc(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	var list struct {
		Result struct{ Tools []map[string]any }
	}
	w.must(json.Unmarshal(r.body, &list))
	return list.Result.Tools
}

func TestMCP_PaidToolsNameTheirPrice(t *testing.T) {
	w := open(t, nil)
	var names []string
	for _, tool := range w.listed() {
		name, _ := tool["name"].(string)
		names = append(names, name)
		hints, _ := tool["annotations"].(map[string]any)
		schema, _ := json.Marshal(tool["inputSchema"])
		description, _ := tool["description"].(string)
		isPaid := strings.HasPrefix(name, "verify_")
		if isPaid != strings.Contains(description, "Costs 0.01 USD") || isPaid != (hints["readOnlyHint"] != true) {
			t.Errorf("%s: %s %v", name, description, hints)
		}
		if isPaid && (hints["destructiveHint"] != false || hints["idempotentHint"] != true) {
			t.Errorf("%s: %v", name, hints)
		}
		if strings.Contains(strings.ToLower(string(schema)), "idempotency") {
			t.Errorf("%s asks a model for an idempotency key", name)
		}
		if !strings.Contains(string(schema), `"additionalProperties":false`) {
			t.Errorf("%s: %s", name, schema)
		}
	}
	for _, want := range []string{"verify_transaction", "check_receipt", "quote", "list_chains"} {
		if !strings.Contains(strings.Join(names, " "), want) {
			t.Errorf("%s is missing: %v", want, names)
		}
	}
}

func TestMCP_AChallengeHasItsBazaarEntry(t *testing.T) {
	w := open(t, nil)
	found := w.call("verify_transaction", goodBody).wantChallenge("run `agent mcp`")
	var c struct {
		Resource   struct{ Description string }
		Extensions struct {
			Bazaar struct {
				Info struct {
					Input struct {
						Type, ToolName, Transport string
						InputSchema, Example      json.RawMessage
					}
				}
			}
		}
	}
	w.must(json.Unmarshal(found.StructuredContent, &c))
	input := c.Extensions.Bazaar.Info.Input
	if input.Type != "mcp" || input.ToolName != "verify_transaction" || input.Transport != "streamable-http" || len(c.Resource.Description) > 500 {
		t.Errorf("got %s", found.StructuredContent)
	}
	w.call(input.ToolName, string(input.Example)).wantChallenge("Payment required")
	if !bytes.Contains(input.InputSchema, []byte(`"enum":["base"]`)) {
		t.Errorf("the schema is %s", input.InputSchema)
	}
}

func TestMCP_QuoteNamesThePriceAndWhetherSalesAreOpen(t *testing.T) {
	w := open(t, nil)
	got := w.call("quote", `{"tool":"verify_transaction"}`).result()
	want := `{"prices":[{"tool":"verify_transaction","usd":"0.01","amount":"10000","asset":"` + paymenttest.Token + `","assetName":"USDC","network":"` + network +
		`","payTo":"` + paymenttest.Seller + `"}],"salesOpen":true}`
	if got.Content[0].Text != want || got.IsError {
		t.Errorf("got %s, want %s", got.Content[0].Text, want)
	}
	w.call("quote", `{"tool":"list_chains"}`).wantTool(http.StatusBadRequest, "invalid_request")
	closed := open(t, func(o *paywall.Options) { o.FreeSettlements = 0 })
	if text := closed.call("quote", `{}`).result().Content[0].Text; !strings.Contains(text, `"salesOpen":false`) || !strings.Contains(text, "facilitator_limit") {
		t.Errorf("got %s", text)
	}
}

func TestMCP_ListChainsNamesTheFinalHead(t *testing.T) {
	w := open(t, nil)
	w.node.SetHeads(2_000_600, 2_000_500)
	w.reopen()
	text := w.call("list_chains", `{}`).result().Content[0].Text
	want := `{"chains":[{"name":"base","id":"eip155:8453","finalized":"2000500","tokens":[{"symbol":"USDC","address":"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913","decimals":6},`
	if !strings.HasPrefix(text, want) {
		t.Errorf("got %s, want %s", text, want)
	}
	away := open(t, nil)
	away.node.Play(scriptOf(func(answer http.ResponseWriter, _ *http.Request, _ []recorded.Request) bool {
		answer.WriteHeader(http.StatusBadGateway)
		return true
	}))
	away.reopen()
	if text := away.call("list_chains", `{}`).result().Content[0].Text; !strings.Contains(text, `"finalized":null`) {
		t.Errorf("got %s", text)
	}
}

func TestMCP_OnlyTheProtocolsNameHoldsThePayment(t *testing.T) {
	w := open(t, nil)
	other := map[string]any{"X402/Payment": w.toolPayment("1")["x402/payment"]}
	for _, version := range []string{"2025-11-25", "2024-11-05"} { // without the SDK and with it
		r := w.rpc(message("verify_transaction", goodBody, other), protocolHeader, version)
		if !strings.Contains(string(r.body), "accepts") {
			t.Errorf("%s: %d %s", version, r.status, r.body)
		}
		none := message("verify_transaction", goodBody, map[string]any{"x402/payment": nil})
		unpaid := message("verify_transaction", goodBody, nil)
		got, want := w.rpc(none, protocolHeader, version), w.rpc(unpaid, protocolHeader, version)
		if !bytes.Equal(got.body, want.body) {
			t.Errorf("%s: null is answered %s", version, got.body)
		}
	}
	w.wantTransfers(0)
}

// A ledger that does not answer is not the buyer's fault, and no internal error that raises an alarm.
func TestMCP_CheckReceiptDoesNotWaitForEverForTheLedger(t *testing.T) {
	const most = 4
	w := open(t, nil)
	began, leave := make(chan struct{}, most), make(chan struct{})
	w.beforeSold = func() {
		began <- struct{}{}
		<-leave
	}
	w.tools.AnswerTimeout = 300 * time.Millisecond
	w.reopen()
	link := `{"link":"` + strings.Repeat("ab", 32) + `"}`
	var all sync.WaitGroup
	for range most {
		all.Go(func() { w.call("check_receipt", link) })
	}
	for range most {
		<-began
	}
	w.call("check_receipt", link).wantTool(http.StatusServiceUnavailable, "ledger_unavailable")
	close(leave)
	all.Wait()
}

// Anybody may check, and a check of a large receipt takes long: buyers read what they have bought meanwhile.
func TestMCP_ChecksHoldNoPlacesOfReadsOfReceipts(t *testing.T) {
	const most = 4
	w := open(t, nil)
	sold := w.linked(w.buyTool("1").wantSold(w))
	began, leave := make(chan struct{}, most), make(chan struct{})
	w.beforeSold = func() {
		began <- struct{}{}
		<-leave
	}
	w.tools.AnswerTimeout = 3 * time.Second
	w.reopen()
	var all sync.WaitGroup
	for range most { // all places of reads of receipts
		all.Go(func() { w.do(http.MethodGet, "/v1/receipts/"+strings.Repeat("ab", 32), "") })
	}
	for range most {
		<-began
	}
	got := w.call("check_receipt", `{"answer":`+string(sold)+`}`)
	close(leave)
	all.Wait()
	if !strings.Contains(string(got.body), `"valid":true`) {
		t.Errorf("a check that reads nothing waits for reads: %d %s", got.status, got.body)
	}
}

func TestMCP_ListChainsWaitsShortlyForNodes(t *testing.T) {
	w := open(t, nil)
	var left time.Duration
	w.heads = func(ctx context.Context) (chain.Heads, error) {
		until, _ := ctx.Deadline()
		left = time.Until(until)
		return chain.Heads{}, chain.ErrFinalityUnavailable
	}
	w.reopen()
	w.call("list_chains", `{}`).result()
	if left <= 0 || left > 5*time.Second {
		t.Errorf("nodes have %v", left)
	}
}

// The call is free, and while it waits it holds a place that a buyer may need.
func TestMCP_FewCallsOfListChainsWaitForNodes(t *testing.T) {
	const most = 4
	w := open(t, nil)
	began, leave := make(chan struct{}, 2*most), make(chan struct{})
	var calls atomic.Int64
	w.heads = func(ctx context.Context) (chain.Heads, error) {
		if ctx.Err() != nil {
			return chain.Heads{}, ctx.Err()
		}
		began <- struct{}{}
		if calls.Add(1) <= most {
			<-leave
		}
		return chain.Heads{}, chain.ErrFinalityUnavailable
	}
	w.reopen()
	var all sync.WaitGroup
	for range most {
		all.Go(func() { w.call("list_chains", `{}`) })
	}
	for range most {
		<-began
	}
	if text := w.call("list_chains", `{}`).result().Content[0].Text; len(began) > 0 || !strings.Contains(text, `"finalized":null`) {
		t.Errorf("one more waits for the nodes, and gets %s", text)
	}
	close(leave)
	all.Wait()
	if w.call("list_chains", `{}`); len(began) != 1 {
		t.Error("later none waits")
	}
}

func TestMCP_CheckReceiptJudgesAnAnswer(t *testing.T) {
	w := open(t, nil)
	answer := string(w.linked(w.buyTool("1").wantSold(w)))
	quoted, err := json.Marshal(answer)
	w.must(err)
	for form, text := range map[string]string{"object": answer, "text": string(quoted)} {
		got := w.call("check_receipt", `{"answer":`+text+`}`).result().Content[0].Text
		for _, want := range []string{`"valid":true`, `"kind":"chain-evidence-receipt"`, `"proven":[{`, `"attested":[{`, "receipt verify"} {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %s in %s", form, want, got)
			}
		}
	}
	for name, c := range map[string]struct{ answer, reason string }{
		"changed":    {strings.Replace(answer, `"verdict":"verified"`, `"verdict":"Verified"`, 1), "malformed"},
		"other time": {strings.Replace(answer, `"timestamp":"1690789347"`, `"timestamp":"1690789348"`, 1), "signature does not match"},
		"nothing":    {`{}`, "malformed"},
		"no object":  {`"text"`, "malformed"},
	} {
		if got := w.call("check_receipt", `{"answer":`+c.answer+`}`).result().Content[0].Text; !strings.Contains(got, `"valid":false,"reason":"`+c.reason+`"`) {
			t.Errorf("%s: got %s", name, got)
		}
	}
	w.call("check_receipt", `{}`).wantTool(http.StatusBadRequest, "invalid_request")
	w.call("check_receipt", `{"answer":7}`).result()
	w.call("check_receipt", `{"answer":"`+strings.Repeat("a", 200<<10)+`"}`).result()
}

// A message over 32 KB costs many times its bytes once it is parsed, so that its attempt is
// taken before: one that is no JSON shows that nothing has been parsed.
func TestMCP_TakesTheAttemptOfALargeMessageBeforeItIsParsed(t *testing.T) {
	w := open(t, func(o *paywall.Options) { o.AttemptsPerAddress = 2 })
	large := message("check_receipt", `{"answer":"`+strings.Repeat("a", 200<<10)+`"}`, nil)
	for range 2 { // each takes one attempt, not one at each step
		w.rpc(large).result()
	}
	for name, refused := range map[string]string{"a receipt": large, "no JSON": strings.Repeat("{", 200<<10), "another tool": message("quote", `{"tool":"`+strings.Repeat("a", 40<<10)+`"}`, nil)} {
		if f := w.rpc(refused).wantFailure(http.StatusServiceUnavailable, "too_many_unpaid_attempts"); f.RetryAfterSeconds < 1 {
			t.Errorf("%s: Retry-After is %d", name, f.RetryAfterSeconds)
		}
	}
	w.call("quote", `{}`).result() // small messages go on
}

func TestMCP_ManyLargeMessagesAtOnceTakeBoundedMemory(t *testing.T) {
	w := open(t, nil)
	members := make([]string, 24000)
	for i := range members {
		members[i] = fmt.Sprintf(`"%05d":0`, i)
	}
	large := message("check_receipt", `{"answer":{`+strings.Join(members, ",")+`}}`, nil)
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // tests run with another
	runtime.GC()
	var peak atomic.Uint64
	done := make(chan struct{})
	var watching, calls sync.WaitGroup
	watching.Go(func() {
		for {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			peak.Store(max(peak.Load(), now.HeapInuse))
			select {
			case <-done:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	for range 300 {
		calls.Go(func() { w.rpc(large).result() })
	}
	calls.Wait()
	close(done)
	watching.Wait()
	t.Logf("300 messages of %d KB at once: %d MB", len(large)>>10, peak.Load()>>20)
	// 187 MB on a quiet machine, 270 MB on one that is busy with other tests; 335 MB without the bound.
	if peak.Load() > 320<<20 {
		t.Errorf("300 large messages at once took %d MB", peak.Load()>>20)
	}
}

// The SDK reads what it gets more than ten times, and takes its memory anew each time.
func TestMCP_ReadsALargeReceiptNoMoreOftenThanItMust(t *testing.T) {
	w := open(t, nil)
	call := largeReceipts()["proof"]
	w.serveLarge(call)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const calls = 10
	for range calls {
		w.serveLarge(call)
	}
	runtime.ReadMemStats(&after)
	if times := (after.TotalAlloc - before.TotalAlloc) / calls / uint64(len(call)); times >= 10 {
		t.Errorf("a receipt of %d KB took %d times as much memory", len(call)>>10, times)
	}
}

func TestMCP_AnswersALargeCallAsASmallOne(t *testing.T) {
	w := open(t, nil)
	answer := string(w.linked(w.buyTool("1").wantSold(w)))
	room := strings.Repeat(" ", 40<<10)
	for name, c := range map[string]struct{ arguments, want string }{
		"valid":      {`{"answer":` + room + answer + `}`, `"valid":true`},
		"unknown":    {`{"answer":` + room + answer + `,"more":1}`, `"field":"more"`},
		"not there":  {`{` + room + `}`, `"field":"answer"`},
		"null":       {`{"answer":null` + room + `}`, `"malformed"`},
		"no receipt": {`{"answer":{"receipt":[` + room + `]}}`, `"malformed"`},
	} {
		text := func(arguments, version string) string {
			call := `{"more":1,"params":{"more":1,"_meta":{"a":"<b>"},"arguments":` + arguments +
				`,"name":"check_receipt"},"method":"tools/call","id":"<1>","jsonrpc":"2.0"}`
			got := w.rpc(call, protocolHeader, version)
			if !strings.Contains(string(got.body), `"id":"\u003c1\u003e"`) && !strings.Contains(string(got.body), `"id":"<1>"`) {
				t.Errorf("%s: the id is not answered: %s", name, got.body)
			}
			return got.result().Content[0].Text
		}
		small, large := text(strings.ReplaceAll(c.arguments, room, ""), "2025-11-25"), text(c.arguments, "2025-11-25")
		if bySDK := text(c.arguments, "2024-11-05"); bySDK != large {
			t.Errorf("%s: by the SDK %s, else %s", name, bySDK, large)
		}
		if small != large || !strings.Contains(large, c.want) {
			t.Errorf("%s: got %s, of a small one %s", name, large, small)
		}
	}
}

func TestMCP_CheckReceiptIsLimitedPerAddress(t *testing.T) {
	w := open(t, func(o *paywall.Options) { o.AttemptsPerAddress = 3 })
	for range 3 {
		if w.call("check_receipt", `{"answer":{}}`).result().IsError {
			t.Fatal("refused too early")
		}
	}
	f := w.call("check_receipt", `{"answer":{}}`).wantTool(http.StatusServiceUnavailable, "too_many_unpaid_attempts")
	if f.RetryAfterSeconds == 0 {
		t.Errorf("got %+v", f)
	}
	w.call("list_chains", `{}`).result()
}

func TestMCP_LogHasNoArgumentsOrPayments(t *testing.T) {
	w := open(t, nil)
	meta := w.toolPayment("1")
	signature := paymenttest.PayloadV2(w.offer(), paymenttest.Authorization("1", w.clock())).Payload.Signature
	w.rpc(message("verify_transaction", goodBody, meta)).wantSold(w)
	w.rpc(message("verify_transaction", `{"transactionHash":"0x`+strings.Repeat("ab", 32)+`"}`, w.toolPayment("2")))
	log := w.logged.String()
	for _, want := range []string{"tool=verify_transaction outcome=ok", "outcome=transaction_not_found", "route=/mcp status=200"} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q in %s", want, log)
		}
	}
	for _, secret := range []string{recordedTx, strings.Repeat("ab", 32), signature[2:], paymenttest.Nonce("1")} {
		if strings.Contains(log, secret) {
			t.Errorf("the log has %s:\n%s", secret, log)
		}
	}
}

func TestMCP_CallsAreCounted(t *testing.T) {
	w := open(t, nil)
	w.call("verify_transaction", goodBody)
	w.buyTool("1")
	w.call("verify_transaction", `{"chain":"mars"}`)
	w.call("no_such_tool", `{}`)
	metrics, err := w.registry.Gather()
	w.must(err)
	var counted []string
	for _, family := range metrics {
		if family.GetName() != "verifier_mcp_calls_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			if m.GetCounter().GetValue() > 0 {
				counted = append(counted, fmt.Sprint(m.GetLabel()[1].GetValue(), " ", m.GetLabel()[0].GetValue(), " ", m.GetCounter().GetValue()))
			}
		}
	}
	if got, want := strings.Join(counted, ", "), "verify_transaction invalid_request 1, verify_transaction ok 1, verify_transaction payment_required 1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestMCP_CanBeSwitchedOff(t *testing.T) {
	w := open(t, nil)
	w.tools = nil
	w.reopen()
	w.call("list_chains", `{}`).wantFailure(http.StatusNotFound, "not_found")
}

// Clients.

func TestMCP_GoClientReadsTheChallengeAndItsRepeat(t *testing.T) {
	w := open(t, nil)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).
		Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: w.url + toolsPath}, nil)
	w.must(err)
	defer func() { _ = session.Close() }()
	var arguments map[string]any
	w.must(json.Unmarshal([]byte(goodBody), &arguments))
	got, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "verify_transaction", Arguments: arguments})
	w.must(err)
	text, err := json.Marshal(got.StructuredContent)
	w.must(err)
	var c x402.PaymentRequired
	w.must(json.Unmarshal(text, &c))
	paid := x402.Payload{
		X402Version: x402.V2, Resource: &c.Resource, Accepted: c.Accepts[0], Extensions: c.Extensions,
		Payload: paymenttest.PayloadV2(w.offer(), paymenttest.Authorization("1", w.clock())).Payload,
	}
	for range 2 {
		got, err = session.CallTool(t.Context(), &mcp.CallToolParams{Meta: mcp.Meta{"x402/payment": paid}, Name: "verify_transaction", Arguments: arguments})
		w.must(err)
		if got.IsError || got.Meta["x402/payment-response"] == nil {
			t.Errorf("got %+v", got)
		}
	}
	w.wantTransfers(1)
}

func TestMCP_ExtensionBindingIsOffByDefault(t *testing.T) {
	w := open(t, nil)
	ask := func(capabilities map[string]any) string {
		text, header := modern("tools/call", map[string]any{
			"name": "verify_transaction", "arguments": map[string]any{},
			"_meta": map[string]any{"io.modelcontextprotocol/clientCapabilities": capabilities},
		})
		return string(w.rpc(text, header...).body)
	}
	able := map[string]any{"extensions": map[string]any{"org.x402/payment": map[string]any{}}}
	if got := ask(able); strings.Contains(got, "payment_required\"") || !strings.Contains(got, `"isError":true`) {
		t.Errorf("switched off: %s", got)
	}
	w.tools.PaymentExtension = true
	w.reopen()
	if got := ask(able); !strings.Contains(got, `"resultType":"payment_required"`) || !strings.Contains(got, `"paymentRequired":{"x402Version":2`) || strings.Contains(got, "isError") {
		t.Errorf("switched on: %s", got)
	}
	if got := ask(map[string]any{}); !strings.Contains(got, `"isError":true`) {
		t.Errorf("a client without it: %s", got)
	}
}
