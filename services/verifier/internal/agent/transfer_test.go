package agent_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/agent"
	"github.com/pforte/pforte/services/verifier/internal/devnet"
)

// A recorded, signed answer about an x402 payment, and its question. The letters of
// addresses are in mixed case, as wallets show them.
const (
	transferVector = "../../../../pkg/receipt/testdata/vectors/transfer-authorization"
	paymentHash    = "0x42817edbca3b0456092d306c67a7e281f0baab2d987f79b95d7aac26064b6694"
	paymentNonce   = "0x5be8e543063152124a76988173c8dfe5b3ab21bcf752713794a036f9bf288ba3"
	transferBody   = `{"transactionHash":"0x42817edbca3b0456092d306c67a7e281f0baab2d987f79b95d7aac26064b6694","expectations":{"minConfirmations":12},` +
		`"transfer":{"token":"0x036cbd53842c5426634e7929541ec2318f3dcf7e","from":"0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266","to":"0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc","amount":"10000",` +
		`"authorization":{"authorizer":"0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266","nonce":"0x5be8e543063152124a76988173c8dfe5b3ab21bcf752713794a036f9bf288ba3"}}}`
)

// transferQuestion are the flags of that question.
func transferQuestion() []string {
	return []string{
		"--tx", paymentHash, "--transfer", usdc, "--from", account, "--to", payee, "--amount", "10000", "--authorization", account + ":" + paymentNonce, "--min-confirmations", "12",
	}
}

func recordedTransfer(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(transferVector, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func deliverTransfer(t *testing.T) func(http.ResponseWriter) {
	t.Helper()
	body := recordedTransfer(t, "response.json")
	return func(w http.ResponseWriter) { _, _ = w.Write(body) }
}

// openTransfers is a verifier whose first chain is the development chain.
func openTransfers(t *testing.T, paid ...func(http.ResponseWriter)) *seller {
	t.Helper()
	s := open(t, paid...)
	s.keys = recordedTransfer(t, "key.json")
	s.resources = `{"version":1,"resources":["https://verifier.example/v1/verify/chain-transaction","https://verifier.example/v1/verify/devnet-token-transfer",` +
		`"https://verifier.example/v1/verify/devnet-transaction","https://verifier.example/v1/verify/token-transfer"]}`
	return s
}

// runWith runs the program with these arguments only.
func (s *seller) runWith(state string, args ...string) result {
	s.t.Helper()
	var stdout, stderr bytes.Buffer
	all := append([]string{"--url", s.server.URL, "--state", state, "--patience", "1500ms"}, args...)
	code := agent.Run(s.t.Context(), "v0", all, func(string) string { return "" }, strings.NewReader(""), &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

func TestTransfer_EvidenceIsBoughtAndChecked(t *testing.T) {
	for name, c := range map[string]struct{ path, want string }{
		"of the first chain": {"", "/v1/verify/token-transfer"},
		"of a named chain":   {"/v1/verify/devnet-token-transfer", "/v1/verify/devnet-token-transfer"},
	} {
		t.Run(name, func(t *testing.T) {
			s, state := openTransfers(t, deliverTransfer(t)), t.TempDir()
			args := transferQuestion()
			if c.path != "" {
				args = append(args, "--path", c.path)
			}
			got := s.runWith(state, args...)
			if got.code != 0 || len(s.sent()) != 1 || kept(t, state) != 0 {
				t.Fatalf("%+v, %d payments, %d kept", got, len(s.sent()), kept(t, state))
			}
			if want := "POST " + c.want + " " + transferBody; s.questions()[0] != want {
				t.Errorf("asked %s\nwant  %s", s.questions()[0], want)
			}
			const moved = "0.01 USDC (known token, 6 decimals) from 0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266 to 0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc"
			if !strings.Contains(got.stdout, moved) || !strings.Contains(got.stdout, paymentNonce) || !strings.Contains(got.stdout, "Checked offline") {
				t.Error(got.stdout)
			}
		})
	}
}

func TestTransfer_AReceiptOfTheOtherKindDoesNotHold(t *testing.T) {
	transfers := openTransfers(t, deliver(t))
	transfers.keys = read(t, "key.json")
	if got := transfers.runWith(t.TempDir(), transferQuestion()...); got.code != 4 {
		t.Errorf("a transaction for a transfer: %+v", got)
	}
	if got := openTransfers(t, deliverTransfer(t)).runWith(t.TempDir(), "--tx", paymentHash, "--min-confirmations", "12"); got.code != 4 {
		t.Errorf("a transfer for a transaction: %+v", got)
	}
}

func TestTransfer_AReceiptOfAnotherDoesNotHold(t *testing.T) {
	args := transferQuestion()
	args[9] = "9999"
	if got := openTransfers(t, deliverTransfer(t)).runWith(t.TempDir(), args...); got.code != 4 || !strings.Contains(got.stderr, "another question") {
		t.Errorf("%+v", got)
	}
	args = append(transferQuestion(), "--path", "/v1/verify/base-token-transfer")
	if got := openTransfers(t, deliverTransfer(t)).runWith(t.TempDir(), args...); got.code != 4 || !strings.Contains(got.stderr, "chain base") {
		t.Errorf("%+v", got)
	}
}

func TestTransfer_AQuestionOfNoFormIsAFault(t *testing.T) {
	for name, args := range map[string][]string{
		"no token":              {"--tx", txHash, "--to", payee, "--amount", "1"},
		"no transaction":        {"--transfer", "native", "--to", payee, "--amount", "1"},
		"no payee":              {"--tx", txHash, "--transfer", "native", "--amount", "1"},
		"no amount":             {"--tx", txHash, "--transfer", "native", "--to", payee},
		"two amounts":           {"--tx", txHash, "--transfer", "native", "--to", payee, "--amount", "1", "--min-amount", "1"},
		"a status":              {"--tx", txHash, "--transfer", "native", "--to", payee, "--amount", "1", "--status", "success"},
		"a selector":            {"--tx", txHash, "--transfer", "native", "--to", payee, "--amount", "1", "--selector", "0x18cbafe5"},
		"half an authorization": {"--tx", txHash, "--transfer", usdc, "--to", payee, "--amount", "1", "--authorization", account},
		"a place of no token":   {"--tx", txHash, "--log-position", "0"},
		"a proof at no path":    {"--tx", txHash, "--path", "/verify", "--prove-payment"},
	} {
		s := open(t, func(http.ResponseWriter) { t.Error("it was paid") })
		if got := s.runWith(t.TempDir(), args...); got.code != 2 || got.stderr == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// askedTransfer is the question of the recorded answer.
func askedTransfer(t *testing.T) map[string]any {
	t.Helper()
	var arguments map[string]any
	if err := json.Unmarshal([]byte(transferBody), &arguments); err != nil {
		t.Fatal(err)
	}
	return arguments
}

func TestMCP_AnAssistantBuysEvidenceOfATransfer(t *testing.T) {
	s := openTransfers(t, deliverTransfer(t))
	a := s.assistant(t.TempDir(), nil)
	got := a.call("verify_token_transfer", askedTransfer(t))
	if got.isError || got.Receipt.Transaction.Hash != paymentHash || got.Receipt.Transfer.Amount != "10000" || got.Payment.DayUSD != "0.01" {
		t.Fatalf("%+v", got)
	}
	if !strings.Contains(got.text, "moved 0.01 USDC (known token, 6 decimals)") || !strings.Contains(got.text, "Paid 0.01 USD") {
		t.Error(got.text)
	}
	if want := "POST /v1/verify/devnet-token-transfer " + transferBody; s.questions()[0] != want {
		t.Errorf("asked %s\nwant  %s", s.questions()[0], want)
	}
	other := askedTransfer(t)
	other["chain"], other["transactionHash"] = "devnet", "0x"+strings.ToUpper(paymentHash[2:])
	other["transfer"].(map[string]any)["to"] = payee
	if got := a.call("verify_token_transfer", other); got.isError || got.Payment.USD != "0.00" || len(s.sent()) != 1 {
		t.Errorf("%+v, %d payments", got, len(s.sent()))
	}
	if got := a.call("check_receipt", map[string]any{"answer": string(recordedTransfer(t, "response.json"))}); !got.Valid || !strings.Contains(got.text, "moved 0.01 USDC") {
		t.Errorf("%+v", got)
	}
}

func TestMCP_AnAmountOfAKnownTokenMayBeDecimal(t *testing.T) {
	s := openTransfers(t, deliverTransfer(t))
	s.resources = strings.Replace(s.resources, `{`, `{"chains":[{"name":"devnet","id":"eip155:84532"}],`, 1)
	a := s.assistant(t.TempDir(), nil)
	listed := a.call("list_chains", nil)
	if len(listed.Chains) != 1 || len(listed.Chains[0].Tokens) == 0 || listed.Chains[0].Tokens[0].Symbol != "USDC" || listed.Chains[0].Tokens[0].Decimals != 6 {
		t.Errorf("%+v", listed.Chains)
	}
	question := askedTransfer(t)
	delete(question["transfer"].(map[string]any), "amount")
	question["transfer"].(map[string]any)["amountDecimal"] = "0.010"
	if got := a.call("verify_token_transfer", question); got.isError || got.Receipt.Transfer.Amount != "10000" {
		t.Errorf("%+v", got)
	}
	question["transfer"].(map[string]any)["token"] = payee
	if got := a.call("verify_token_transfer", question); got.Field != "transfer.amountDecimal" || got.Paid != "no" {
		t.Errorf("%+v", got)
	}
	if len(s.sent()) != 1 {
		t.Errorf("%d payments", len(s.sent()))
	}
}

func TestMCP_AReceiptIsOfTheKindItsToolSells(t *testing.T) {
	s := openTransfers(t, deliver(t))
	s.keys = read(t, "key.json")
	if got := s.assistant(t.TempDir(), nil).call("verify_token_transfer", askedTransfer(t)); got.Reason != "receipt_invalid" || got.Paid != "yes" {
		t.Errorf("%+v", got)
	}
}

func TestMCP_BadArgumentsOfATransferNameTheField(t *testing.T) {
	s := openTransfers(t, func(http.ResponseWriter) { t.Error("it was paid") })
	a := s.assistant(t.TempDir(), nil)
	transfer := func(member string, value any) map[string]any {
		arguments := askedTransfer(t)
		arguments["transfer"].(map[string]any)[member] = value
		return arguments
	}
	for field, arguments := range map[string]map[string]any{
		"transactionHash":              {},
		"transfer":                     {"transactionHash": txHash},
		"transfer.amount":              transfer("amount", "0"),
		"transfer.minAmount":           transfer("minAmount", "1"),
		"transfer.token":               transfer("token", "USDC"),
		"transfer.logPosition":         transfer("logPosition", -1),
		"transfer.authorization.nonce": transfer("authorization", map[string]any{"authorizer": account}),
	} {
		if got := a.call("verify_token_transfer", arguments); got.Field != field || got.Reason != "invalid_request" || got.Paid != "no" {
			t.Errorf("%s: %+v", field, got)
		}
	}
}

func TestMCP_AQuoteIsAboutTheNamedTool(t *testing.T) {
	s := openTransfers(t, deliverTransfer(t))
	a := s.assistant(t.TempDir(), nil)
	for want, arguments := range map[string]map[string]any{
		"POST /v1/verify/chain-transaction {}":     {"tool": "verify_transaction"},
		"POST /v1/verify/token-transfer {}":        {"tool": "verify_token_transfer"},
		"POST /v1/verify/devnet-token-transfer {}": {"tool": "verify_token_transfer", "chain": "devnet"},
	} {
		got := a.call("quote", arguments)
		if asked := s.questions(); got.isError || got.USD != "0.01" || asked[len(asked)-1] != want {
			t.Errorf("%s: %+v, asked %s", want, got, asked[len(asked)-1])
		}
	}
	if got := a.call("quote", map[string]any{"tool": "spending"}); got.Field != "tool" {
		t.Errorf("%+v", got)
	}
}

// repeat delivers an answer as a verifier does that was paid for it before.
func repeat(t *testing.T) func(http.ResponseWriter) {
	t.Helper()
	success, body := true, read(t, "response.json")
	header, err := x402.Encode(x402.SettleResponse{Success: &success, Transaction: paymentHash, Network: "eip155:84532", Extra: json.RawMessage(`{"repeated":true}`)})
	if err != nil {
		t.Fatal(err)
	}
	return func(w http.ResponseWriter) {
		w.Header().Set(x402.HeaderPaymentResponse, header)
		_, _ = w.Write(body)
	}
}

func TestMCP_ARepeatedAnswerIsNotCalledPaid(t *testing.T) {
	s := open(t, repeat(t))
	got := s.run(t.TempDir())
	if got.code != 0 || strings.Contains(got.stdout, "Paid. ") || strings.Contains(got.stdout, "Paid 0.01") ||
		!strings.Contains(got.stdout, "Repeated: an earlier payment") || !strings.Contains(got.stdout, paymentHash) {
		t.Errorf("%+v", got)
	}
	for want, answer := range map[bool]func(http.ResponseWriter){true: repeat(t), false: deliver(t)} {
		s.script(answer)
		got := s.run(t.TempDir(), "--json")
		var printed struct{ Payment struct{ Repeated bool } }
		if err := json.Unmarshal([]byte(got.stdout), &printed); err != nil || printed.Payment.Repeated != want {
			t.Errorf("%v, %s", err, got.stdout)
		}
		told := s.assistant(t.TempDir(), nil).call("verify_transaction", asked())
		if told.isError || told.Payment.Repeated != want || strings.Contains(told.text, "Paid 0.01") == want || strings.Contains(told.text, "By the seller's word") != want {
			t.Errorf("%+v", told)
		}
	}
}

// A seller who settles each payment and reports repeats would otherwise take any sum.
func TestMCP_ARepeatedAnswerCountsAgainstTheCap(t *testing.T) {
	s, state := open(t, repeat(t)), t.TempDir()
	for i, want := range []int{0, 0, 1} {
		if got := s.run(state, "--day-usd", "0.02"); got.code != want {
			t.Errorf("run %d: %+v", i, got)
		}
	}
	if len(s.sent()) != 2 {
		t.Errorf("%d payments were sent", len(s.sent()))
	}
	a := open(t, repeat(t)).assistant(t.TempDir(), nil)
	if got := a.call("verify_transaction", asked()); got.Payment.DayUSD != "0.01" {
		t.Errorf("%+v", got)
	}
}

func TestTransfer_TheAgentsOwnPaymentIsProven(t *testing.T) {
	node, err := devnet.Start(t.Context(), devnet.Config{ChainID: 8453, RPCAddr: "127.0.0.1:0", BlockTime: time.Second, FinalityDepth: 1}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = node.Close() })
	payment := sendSomething(t, node.RPCURL())
	success := true
	header, err := x402.Encode(x402.SettleResponse{Success: &success, Transaction: payment, Network: "eip155:8453"})
	if err != nil {
		t.Fatal(err)
	}
	paid := func(w http.ResponseWriter) {
		w.Header().Set(x402.HeaderPaymentResponse, header)
		deliver(t)(w)
	}
	s, state := open(t, paid, refuse(503, pendingBody, "Retry-After", "60"), paid, repeat(t)), t.TempDir()
	s.offers[0].Network, s.offers[0].Asset = "eip155:8453", "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
	args := append([]string{"--prove-payment", "--rpc", node.RPCURL(), "--patience", "20s"}, question...)
	if got := s.runWith(state, args...); got.code != 3 || kept(t, state) != 2 || !strings.Contains(got.stdout, "Checked offline") {
		t.Fatalf("%+v, %d kept", got, kept(t, state))
	}
	var first x402.Payload
	if err := x402.Decode(s.sent()[0], &first); err != nil {
		t.Fatal(err)
	}
	want := `POST /v1/verify/token-transfer {"transactionHash":"` + payment + `","expectations":{},"transfer":{"token":"0x833589fcd6edb6e08f4c7c32d4f71b54bda02913","to":"` +
		strings.ToLower(payee) + `","amount":"10000","authorization":{"authorizer":"` + strings.ToLower(account) + `","nonce":"` + first.Payload.Authorization.Nonce + `"}}}`
	if got := s.questions(); got[len(got)-1] != want {
		t.Errorf("asked %s\nwant  %s", got[len(got)-1], want)
	}
	// The same command goes on with both payments; the answer is to another question.
	if got := s.runWith(state, args...); got.code != 4 || kept(t, state) != 2 {
		t.Errorf("%+v, %d kept", got, kept(t, state))
	}
	if sent := s.sent(); len(sent) != 4 || sent[0] != sent[2] || sent[1] != sent[3] || sent[0] == sent[1] {
		t.Errorf("%d payments, or other ones than before", len(sent))
	}
	// As a kill between the two removals leaves the journal.
	for _, file := range keptFiles(t, state) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "chain-transaction") && os.Remove(file) != nil {
			t.Fatal(file)
		}
	}
	s.script(paid, repeat(t))
	if got := s.runWith(state, args...); got.code != 4 {
		t.Errorf("%+v", got)
	}
	if sent := s.sent(); len(sent) != 6 || sent[4] != sent[0] || sent[5] != sent[1] {
		t.Errorf("%d payments, or other ones than before", len(sent))
	}
}

func TestTransfer_WhatWasNotSpentIsNotProven(t *testing.T) {
	s, state := open(t, repeat(t)), t.TempDir()
	got := s.runWith(state, append([]string{"--prove-payment", "--rpc", "http://127.0.0.1:1"}, question...)...)
	if got.code != 0 || len(s.sent()) != 1 || kept(t, state) != 0 {
		t.Errorf("%+v, %d payments, %d kept", got, len(s.sent()), kept(t, state))
	}
}

func TestTransfer_APaymentOnAnotherChainIsNotProven(t *testing.T) {
	s, state := open(t, deliver(t)), t.TempDir() // about Base, and paid on Base Sepolia
	got := s.runWith(state, append([]string{"--json", "--prove-payment", "--rpc", "http://127.0.0.1:1"}, question...)...)
	if got.code != 3 || len(s.sent()) != 1 || !strings.Contains(got.stderr, "eip155:84532") || !strings.Contains(got.stdout, `"paid":"yes"`) {
		t.Errorf("%+v, %d payments", got, len(s.sent()))
	}
}

// sendSomething sends a transaction on the development chain, and returns its hash.
func sendSomething(t *testing.T, url string) string {
	t.Helper()
	node, err := ethclient.DialContext(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	key, err := crypto.HexToECDSA("ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80")
	if err != nil {
		t.Fatal(err)
	}
	to := common.HexToAddress(payee)
	tx, err := types.SignNewTx(key, types.LatestSignerForChainID(big.NewInt(8453)), &types.LegacyTx{To: &to, Value: big.NewInt(1), Gas: 21_000, GasPrice: big.NewInt(1e11)})
	if err != nil {
		t.Fatal(err)
	}
	if err := node.SendTransaction(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	return tx.Hash().Hex()
}

func TestTransfer_APaymentIsProvenFromWhatBothSidesSaid(t *testing.T) {
	s := openTransfers(t, deliverTransfer(t))
	s.resources = strings.Replace(s.resources, `{`, `{"chains":[{"name":"other","id":"eip155:1"},{"name":"devnet","id":"eip155:84532"}],`, 1)
	file := filepath.Join(t.TempDir(), "payment.json")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	said := `{"response":{"success":true,"transaction":"` + paymentHash + `","network":"eip155:84532"},"sent":{"x402Version":2,` +
		`"accepted":{"scheme":"exact","network":"eip155:84532","amount":"10000","asset":"` + usdc + `","payTo":"` + payee + `"},` +
		`"payload":{"authorization":{"from":"` + account + `","to":"` + payee + `","value":"10000","nonce":"` + paymentNonce + `"}}}}`
	write(said)
	got := s.runWith(t.TempDir(), "--payment", file, "--min-confirmations", "12")
	const want = `POST /v1/verify/devnet-token-transfer {"transactionHash":"` + paymentHash + `","expectations":{"minConfirmations":12},"transfer":{"token":"0x036c`
	if asked := s.questions(); len(asked) == 0 || !strings.HasPrefix(asked[0], want) || !strings.Contains(asked[0], paymentNonce) {
		t.Errorf("asked %s: %+v", asked, got)
	}
	// The recorded receipt also has the payer in its question.
	if got.code != 4 || !strings.Contains(got.stderr, "another question") {
		t.Errorf("%+v", got)
	}
	for _, flag := range []string{
		"--path", "--tx", "--chain", "--status", "--from", "--to", "--selector", "--transfer", "--amount",
		"--min-amount", "--log-position", "--authorization",
	} {
		got, want := s.runWith(t.TempDir(), "--payment", file, flag, "0"), "--payment: "+flag+" goes with another question"
		if got.code != 2 || !strings.Contains(got.stderr, want) {
			t.Errorf("with %s: %+v", flag, got)
		}
	}
	write(strings.Replace(said, "true", "false", 1))
	if got := s.runWith(t.TempDir(), "--payment", file); got.code != 2 || !strings.Contains(got.stderr, "not settled") {
		t.Errorf("%+v", got)
	}
	s.resources = strings.Replace(s.resources, "eip155:84532", "eip155:10", 1)
	write(said)
	if got := s.runWith(t.TempDir(), "--payment", file); got.code != 1 || !strings.Contains(got.stderr, "sells nothing") {
		t.Errorf("%+v", got)
	}
}
