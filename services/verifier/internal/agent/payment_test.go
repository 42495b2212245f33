package agent_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pforte/pforte/pkg/receipt"
)

// What seller and buyer said of the recorded payment.
const (
	paidResponse = `{"success":true,"transaction":"` + paymentHash + `","network":"eip155:84532","payer":"` + account + `"}`
	paidSent     = `{"x402Version":2,"accepted":{"scheme":"exact","network":"eip155:84532","amount":"10000","asset":"` + usdc + `","payTo":"` + payee + `"},` +
		`"payload":{"authorization":{"from":"` + account + `","to":"` + payee + `","value":"10000","nonce":"` + paymentNonce + `"}}}`
)

// openPayments is a verifier of two chains, the second of which has the recorded payment.
func openPayments(t *testing.T, paid ...func(http.ResponseWriter)) *seller {
	t.Helper()
	s := openTransfers(t, paid...)
	s.resources = `{"version":1,"chains":[{"name":"base","id":"eip155:8453"},{"name":"devnet","id":"eip155:84532"}],` +
		`"resources":["https://verifier.example/v1/verify/base-transaction","https://verifier.example/v1/verify/devnet-transaction"]}`
	return s
}

// deliverPayment answers the question of [paidResponse] and paidSent with a receipt by a key of the
// seller's own, because the recorded receipt answers one that names the payer as well.
func deliverPayment(t *testing.T, s *seller) func(http.ResponseWriter) {
	t.Helper()
	recorded, err := receipt.Parse(recordedTransfer(t, "response.json"))
	if err != nil {
		t.Fatal(err)
	}
	asked := *recorded.Receipt.Request.Transfer
	asked.From = ""
	recorded.Receipt.Request.Transfer, recorded.Receipt.Request.Expectations = &asked, receipt.Expectations{}
	recorded.Receipt.Checks = recorded.Receipt.Checks[:len(recorded.Receipt.Checks)-1] // without minConfirmations
	key, err := receipt.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	signed, err := receipt.Sign(key, recorded.Receipt, recorded.Proof)
	if err != nil {
		t.Fatal(err)
	}
	body, err := signed.JSON()
	if err != nil {
		t.Fatal(err)
	}
	document, err := receipt.NewKeyDocument(key, "eip155:8453")
	if err == nil {
		s.keys, err = json.Marshal(document)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func(w http.ResponseWriter) { _, _ = w.Write(body) }
}

func TestPayment_AnAssistantProvesItInOneCall(t *testing.T) {
	s := openPayments(t)
	s.script(deliverPayment(t, s))
	a := s.assistant(t.TempDir(), nil)
	header := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	written := map[string]any{"chain": "devnet", "transactionHash": paymentHash, "transfer": map[string]any{
		"token": usdc, "to": payee, "amount": "10000", "authorization": map[string]any{"authorizer": account, "nonce": paymentNonce},
	}}
	for i, same := range []map[string]any{
		{"payment": map[string]any{"response": json.RawMessage(paidResponse), "sent": json.RawMessage(paidSent)}},
		{"payment": map[string]any{"response": header(paidResponse), "sent": header(paidSent)}, "chain": "devnet", "wait": true},
		written,
	} {
		got := a.call("verify_token_transfer", same)
		if got.isError || got.Receipt.Transaction.Hash != paymentHash || !strings.Contains(got.text, "moved 0.01 USDC") {
			t.Fatalf("%d: %+v", i, got)
		}
		if paid := map[bool]string{true: "0.01", false: "0.00"}[i == 0]; got.Payment.USD != paid || len(s.sent()) != 1 {
			t.Errorf("%d: %+v, %d payments", i, got.Payment, len(s.sent()))
		}
	}
	const want = `POST /v1/verify/devnet-token-transfer {"transactionHash":"` + paymentHash + `","expectations":{},"transfer":{"token":"0x036c`
	if asked := s.questions(); !strings.HasPrefix(asked[0], want) || !strings.Contains(asked[0], paymentNonce) {
		t.Error(asked[0])
	}
}

func TestPayment_WhatCannotBeProvenIsNotPaidFor(t *testing.T) {
	s := openPayments(t, func(http.ResponseWriter) { t.Error("it was paid") })
	a := s.assistant(t.TempDir(), nil)
	about := func(response, sent string, more ...string) map[string]any {
		arguments := map[string]any{"payment": map[string]any{"response": json.RawMessage(response), "sent": json.RawMessage(sent)}}
		for i := 0; i < len(more); i += 2 {
			arguments[more[i]] = more[i+1]
		}
		return arguments
	}
	elsewhere := strings.NewReplacer("eip155:84532", "eip155:10")
	for name, c := range map[string]struct {
		field     string
		arguments map[string]any
	}{
		"not settled":                     {"payment.response", about(strings.Replace(paidResponse, "true", "false", 1), paidSent)},
		"no side":                         {"payment.response", map[string]any{"payment": map[string]any{}}},
		"a signature for other terms":     {"payment.sent", about(paidResponse, strings.Replace(paidSent, `"value":"10000"`, `"value":"1"`, 1))},
		"a transaction beside it":         {"transactionHash", about(paidResponse, paidSent, "transactionHash", paymentHash)},
		"another chain than it was on":    {"payment.response", about(paidResponse, paidSent, "chain", "base")},
		"a chain that is not sold about":  {"payment.response", about(elsewhere.Replace(paidResponse), elsewhere.Replace(paidSent))},
		"a payment where none is taken":   {"payment", nil},
		"neither payment nor transaction": {"transactionHash", map[string]any{}},
	} {
		tool := "verify_token_transfer"
		if c.arguments == nil {
			tool, c.arguments = "verify_transaction", about(paidResponse, paidSent)
		}
		if got := a.call(tool, c.arguments); got.Field != c.field || got.Reason != "invalid_request" || got.Paid != "no" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// The chain of the payment is kept with the question: a receipt about another one does not answer it.
func TestPayment_AReceiptAboutAnotherChainDoesNotHold(t *testing.T) {
	s := openPayments(t)
	s.script(deliverPayment(t, s))
	elsewhere := strings.NewReplacer("eip155:84532", "eip155:10")
	s.resources = elsewhere.Replace(s.resources)
	got := s.assistant(t.TempDir(), nil).call("verify_token_transfer", map[string]any{"payment": map[string]any{
		"response": json.RawMessage(elsewhere.Replace(paidResponse)), "sent": json.RawMessage(elsewhere.Replace(paidSent)),
	}})
	if got.Reason != "receipt_invalid" || got.Paid != "yes" {
		t.Errorf("%+v", got)
	}
}

func TestPayment_ThatIsNotFinalWaitsWithItsChain(t *testing.T) {
	s, state := openPayments(t), t.TempDir()
	s.script(deliverPayment(t, s))
	s.reports("devnet", `{"status":"included","block":"9","finalInSeconds":1200}`)
	got := s.assistant(state, nil).call("verify_token_transfer", map[string]any{"wait": true, "payment": map[string]any{
		"response": json.RawMessage(paidResponse), "sent": json.RawMessage(paidSent),
	}})
	files, err := filepath.Glob(filepath.Join(state, "waiting", "*.json"))
	if err != nil || len(files) != 1 || !got.Waiting || got.Paid != "no" || len(s.sent()) != 0 {
		t.Fatalf("%v, %v, %+v, %d payments", err, files, got, len(s.sent()))
	}
	if text, err := os.ReadFile(files[0]); err != nil || !strings.Contains(string(text), `"chain":"eip155:84532"`) {
		t.Errorf("%v, %s", err, text)
	}
}

func TestPayment_AnOpenOneIsKnownWithoutTheListOfChains(t *testing.T) {
	s, state := openPayments(t, hangUp), t.TempDir()
	pay := func(response string) result {
		return s.runWith(state, "--json", "--payment", fileOf(t, `{"response":`+response+`,"sent":`+paidSent+`}`))
	}
	if got := pay(paidResponse); got.code != 3 || kept(t, state) != 1 {
		t.Fatalf("%+v", got)
	}
	s.unlist(refuse(http.StatusServiceUnavailable, `{"error":"no","code":503,"reason":"not_ready","retryable":true}`))
	if got := pay(paidResponse); got.code != 3 || !strings.Contains(got.stdout, `"paid":"unknown"`) {
		t.Errorf("%+v", got)
	}
	if got := pay(strings.Replace(paidResponse, paymentHash, txHash, 1)); got.code != 1 {
		t.Errorf("%+v", got)
	}
}

// A call that fails before its chain is known does not say that nothing was paid, while a payment of an
// earlier call about this transaction is open. Of another transaction it says so.
func TestMCP_AnOpenPaymentIsKnownWithoutTheListOfChains(t *testing.T) {
	inDecimals := func(hash string) map[string]any {
		return map[string]any{
			"chain": "devnet", "transactionHash": hash, "transfer": map[string]any{"token": usdc, "to": payee, "amountDecimal": "0.01"},
		}
	}
	for name, c := range map[string]struct {
		tool     string
		question map[string]any
		other    map[string]any
	}{
		"no chain": {"verify_transaction", asked(), map[string]any{"transactionHash": paymentHash}},
		"a payment": {
			"verify_token_transfer",
			map[string]any{"payment": map[string]any{"response": json.RawMessage(paidResponse), "sent": json.RawMessage(paidSent)}},
			map[string]any{"payment": map[string]any{
				"response": json.RawMessage(strings.Replace(paidResponse, paymentHash, txHash, 1)), "sent": json.RawMessage(paidSent),
			}},
		},
		"a decimal amount": {"verify_token_transfer", inDecimals(paymentHash), inDecimals(txHash)},
	} {
		t.Run(name, func(t *testing.T) {
			s, state := openPayments(t, hangUp), t.TempDir()
			if got := s.assistant(state, nil, "--patience", "100ms").call(c.tool, c.question); got.Reason != "settlement_pending" {
				t.Fatalf("%+v", got)
			}
			patient := s.assistant(state, nil)
			impatient, _ := s.impatient(state)
			ask := func(question map[string]any, paid string) {
				t.Helper()
				s.unlist(refuse(http.StatusServiceUnavailable, `{"error":"no","code":503,"reason":"not_ready","retryable":true}`))
				if got := patient.call(c.tool, question); !got.isError || got.Paid != paid || strings.Contains(got.text, "Nothing was paid") != (paid == "no") {
					t.Errorf("refused: %+v", got)
				}
				leave := make(chan struct{})
				defer close(leave)
				s.unlist(func(http.ResponseWriter) { <-leave })
				if got := impatient.call(c.tool, question); !got.isError || got.Paid != paid {
					t.Errorf("no answer: %+v", got)
				}
			}
			ask(c.question, "unknown")
			ask(c.other, "no")
		})
	}
}
