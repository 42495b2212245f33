package app

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

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

// away returns the URL of a node that does not answer.
func away() string {
	node := httptest.NewServer(http.NotFoundHandler())
	defer node.Close()
	return node.URL
}

// TestRun_QuorumIsThatOfItsSetting sells by one node of two, of which the majority is both.
func TestRun_QuorumIsThatOfItsSetting(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t))
	w.env["CHAIN_RPC_URLS"] += "," + away()
	w.env["PAYMENT_RPC_URL"] += "," + away()
	if status, body := w.post(w.run().url, w.pay("1")); status != http.StatusUnprocessableEntity {
		t.Errorf("by the majority: got %d %s", status, body)
	}
	w.env["CHAIN_RPC_QUORUM"], w.env["DATABASE_URL"] = "1", sqldbtest.SQLite(t)
	w.wantReceipt(w.post(w.run().url, w.pay("2")))
}

func TestRun_ToolsWaitAsLongAsTheirSettingSays(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t))
	w.env["MCP_ANSWER_TIMEOUT"], w.env["FACILITATOR_SETTLE_TIMEOUT"] = "300ms", "1m"
	release := make(chan struct{})
	defer close(release)
	w.sim.OnSettle = func(_ context.Context, honest func() x402.SettleResponse) (x402.SettleResponse, error) {
		<-release
		return honest(), nil
	}
	r, began := w.run(), time.Now()
	status, body := w.callTool(r.url, "1")
	if took := time.Since(began); took > 20*time.Second || !strings.Contains(body, `"payment_in_progress"`) {
		t.Errorf("after %v: got %d %s", took, status, body)
	}
}

func TestRun_PaymentExtensionIsOnWhereItsSettingSays(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t))
	w.env["MCP_PAYMENT_EXTENSION"] = "true"
	const version = "2026-07-28"
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"verify_transaction","arguments":{},"_meta":{
		"io.modelcontextprotocol/protocolVersion":"` + version + `",
		"io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},
		"io.modelcontextprotocol/clientCapabilities":{"extensions":{"org.x402/payment":{}}}}}}`
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.run().url+"/mcp", strings.NewReader(call))
	w.must(err)
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"MCP-Protocol-Version": version, "Mcp-Method": "tools/call", "Mcp-Name": "verify_transaction",
	} {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	w.must(err)
	body, err := io.ReadAll(response.Body)
	w.must(errors.Join(err, response.Body.Close()))
	if !strings.Contains(string(body), `"resultType":"payment_required"`) {
		t.Errorf("got %s", body)
	}
}

// TestRun_AnswersAreKeptAsLongAsTheirSettingSays starts anew with a shorter time: what is old then is deleted.
func TestRun_AnswersAreKeptAsLongAsTheirSettingSays(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t))
	first := w.run()
	status, answer := w.post(first.url, w.pay("1"))
	w.wantReceipt(status, answer)
	sold := fmt.Sprintf("/v1/receipts/%x", sha256.Sum256([]byte(answer)))
	if status, _ := get(t, first.url+sold); status != http.StatusOK {
		t.Errorf("got %d for what was sold", status)
	}
	w.must(first.stop())
	w.env["ANSWER_RETENTION"] = "1ms"
	second := w.run()
	w.waitFor("the answer is deleted", func() bool {
		status, _ := get(t, second.url+sold)
		return status == http.StatusNotFound
	})
}
