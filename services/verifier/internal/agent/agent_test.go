package agent_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/agent"
	"github.com/pforte/pforte/services/verifier/internal/eip3009"
)

// A recorded, signed answer and its key document, and the question it answers.
const (
	vector  = "../../../../pkg/receipt/testdata/vectors/base"
	txHash  = "0xcaefbd4ef9f6e3e4024ef4c30926b884884cbccd5293fc534d88c4a8cb2235fb"
	account = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
	payee   = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"
	usdc    = "0x036CbD53842c5426634e7929541eC2318f3dCF7e"
)

// question are the flags of the question that the recorded answer answers.
var question = []string{
	"--tx", txHash, "--status", "success", "--from", "0xF9868B3960348194371B8CA4FE87CA7DE95E40B6",
	"--to", "0xc7b006f084ca79334db41fe216d3195870fac026", "--selector", "0x18cbafe5", "--min-confirmations", "12",
}

// seller is a verifier that a test scripts.
type seller struct {
	t      *testing.T
	offers []x402.Requirements
	// paid answers the calls that carry a payment, in order; the last one stays.
	paid []func(w http.ResponseWriter)

	mu       sync.Mutex
	payments []string
	server   *httptest.Server
}

func offer() x402.Requirements {
	return x402.Requirements{
		Scheme: "exact", Network: "eip155:84532", Amount: "10000", Asset: usdc, PayTo: payee,
		MaxTimeoutSeconds: 60, Extra: map[string]any{"name": "USD Coin", "version": "2"},
	}
}

func open(t *testing.T, paid ...func(http.ResponseWriter)) *seller {
	t.Helper()
	s := &seller{t: t, offers: []x402.Requirements{offer()}, paid: paid}
	s.server = httptest.NewServer(s)
	t.Cleanup(s.server.Close)
	return s
}

func (s *seller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method == http.MethodGet {
		_, _ = w.Write(read(s.t, "key.json"))
		return
	}
	payment := r.Header.Get(x402.HeaderPaymentSignature)
	if payment == "" {
		header, err := x402.Encode(x402.PaymentRequired{X402Version: 2, Accepts: s.offers, Resource: x402.Resource{URL: "http://x/"}})
		if err != nil {
			s.t.Error(err)
		}
		w.Header().Set(x402.HeaderPaymentRequired, header)
		w.WriteHeader(http.StatusPaymentRequired)
		return
	}
	s.payments = append(s.payments, payment)
	answer := s.paid[0]
	if len(s.paid) > 1 {
		s.paid = s.paid[1:]
	}
	answer(w)
}

// script says how calls with a payment are answered from now on.
func (s *seller) script(paid ...func(http.ResponseWriter)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paid = paid
}

func deliver(t *testing.T) func(http.ResponseWriter) {
	t.Helper()
	body := read(t, "response.json")
	return func(w http.ResponseWriter) { _, _ = w.Write(body) }
}

func refuse(status int, body string, header ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func hangUp(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(vector, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

type result struct {
	code           int
	stdout, stderr string
}

func (s *seller) run(state string, args ...string) result {
	s.t.Helper()
	var stdout, stderr bytes.Buffer
	all := append([]string{"--url", s.server.URL, "--state", state, "--patience", "4s"}, append(args, question...)...)
	code := agent.Run(s.t.Context(), all, func(string) string { return "" }, &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

func kept(t *testing.T, state string) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(state, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

func TestItPaysOnceAndChecksTheReceipt(t *testing.T) {
	s, state := open(t, deliver(t)), t.TempDir()
	out := filepath.Join(t.TempDir(), "receipt.json")
	got := s.run(state, "--json", "--out", out)
	if got.code != 0 || len(s.payments) != 1 || kept(t, state) != 0 {
		t.Fatalf("%+v, %d payments, %d kept", got, len(s.payments), kept(t, state))
	}
	var said struct {
		Verified bool
		Payment  struct{ USD, PayTo string }
	}
	if err := json.Unmarshal([]byte(got.stdout), &said); err != nil || !said.Verified || said.Payment.USD != "0.01" || said.Payment.PayTo != payee {
		t.Errorf("%v, %s", err, got.stdout)
	}
	if saved, err := os.ReadFile(out); err != nil || !bytes.Equal(saved, read(t, "response.json")) {
		t.Errorf("saved: %v", err)
	}
	s.checkSignature(s.payments[0])
}

func (s *seller) checkSignature(header string) {
	s.t.Helper()
	var p x402.Payload
	if err := x402.Decode(header, &p); err != nil {
		s.t.Fatal(err)
	}
	a, err := eip3009.Parse(p.Payload.Authorization)
	if err != nil {
		s.t.Fatal(err)
	}
	signature, err := eip3009.Signature(p.Payload.Signature)
	if err != nil {
		s.t.Fatal(err)
	}
	d := eip3009.Domain{Name: "USD Coin", Version: "2", ChainID: big.NewInt(84532), Token: common.HexToAddress(usdc)}
	signer, err := eip3009.Recover(a.Digest(d), signature)
	if err != nil || signer.Hex() != account || a.Value.Int64() != 10000 || a.To.Hex() != payee {
		s.t.Errorf("%s signed %+v: %v", signer, a, err)
	}
}

func TestItRefusesWhatASellerShouldNotAsk(t *testing.T) {
	for name, spoil := range map[string]func(*x402.Requirements){
		"more than the cap":   func(r *x402.Requirements) { r.Amount = "50001" },
		"another token":       func(r *x402.Requirements) { r.Asset = payee },
		"another network":     func(r *x402.Requirements) { r.Network = "eip155:31337" },
		"another scheme":      func(r *x402.Requirements) { r.Scheme = "upto" },
		"payment up front":    func(r *x402.Requirements) { r.Extra["paymentFlow"] = "upfront" },
		"dollars for units":   func(r *x402.Requirements) { r.Amount = "0.01" },
		"a negative amount":   func(r *x402.Requirements) { r.Amount = "-1" },
		"a payee of no form":  func(r *x402.Requirements) { r.PayTo = "me" },
		"no domain to sign":   func(r *x402.Requirements) { r.Extra = nil },
		"no offer of any way": func(r *x402.Requirements) { *r = x402.Requirements{} },
	} {
		t.Run(name, func(t *testing.T) {
			s, state := open(t, deliver(t)), t.TempDir()
			spoil(&s.offers[0])
			if got := s.run(state); got.code != 1 || len(s.payments) != 0 || kept(t, state) != 0 {
				t.Errorf("%+v, %d payments", got, len(s.payments))
			}
		})
	}
}

func TestTheCapIsASetting(t *testing.T) {
	s := open(t, deliver(t))
	if got := s.run(t.TempDir(), "--max-usd", "0.009999"); got.code != 1 || !strings.Contains(got.stderr, "0.01 USD asked") {
		t.Errorf("%+v", got)
	}
	if got := s.run(t.TempDir(), "--max-usd", "0.01"); got.code != 0 {
		t.Errorf("%+v", got)
	}
}

func TestAfterACrashTheSamePaymentIsSentAgain(t *testing.T) {
	for name, lost := range map[string]func(http.ResponseWriter){
		"connection cut": hangUp,
		"pending":        refuse(503, `{"error":"wait","code":503,"reason":"settlement_pending","retryable":true}`, "Retry-After", "60"),
	} {
		t.Run(name, func(t *testing.T) {
			s, state := open(t, lost), t.TempDir()
			if got := s.run(state); got.code != 3 || kept(t, state) != 1 {
				t.Fatalf("%+v, %d kept", got, kept(t, state))
			}
			s.script(deliver(t))
			got := s.run(state, "--json")
			if got.code != 0 || kept(t, state) != 0 || !strings.Contains(got.stdout, `"resumed":true`) {
				t.Errorf("%+v", got)
			}
			for _, p := range s.payments {
				if p != s.payments[0] {
					t.Error("two payments were signed for one request")
				}
			}
		})
	}
}

func TestAPaymentThatIsPendingIsRepeatedUntilTheAnswerComes(t *testing.T) {
	pending := refuse(503, `{"error":"wait","code":503,"reason":"settlement_pending","retryable":true}`, "Retry-After", "1")
	s := open(t, pending, hangUp, deliver(t))
	if got := s.run(t.TempDir()); got.code != 0 || len(s.payments) != 3 || s.payments[0] != s.payments[2] {
		t.Errorf("%+v, %d payments", got, len(s.payments))
	}
}

func TestARefusedPaymentIsNotReplacedWhileItCouldBeTaken(t *testing.T) {
	s, state := open(t, hangUp), t.TempDir()
	if got := s.run(state); got.code != 3 {
		t.Fatalf("%+v", got)
	}
	s.script(refuse(402, `{"error":"no","code":402,"reason":"payment_required"}`))
	got := s.run(state)
	if got.code != 1 || kept(t, state) != 1 {
		t.Errorf("%+v", got)
	}
	for _, p := range s.payments {
		if p != s.payments[0] {
			t.Error("a second payment was signed")
		}
	}
}

func TestARefusalIsToldAndCostsNothing(t *testing.T) {
	s := open(t, refuse(422, `{"error":"It does not hold.","code":422,"reason":"expectation_mismatch","retryable":false,"checks":[{"name":"to"}]}`))
	if got := s.run(t.TempDir()); got.code != 1 || !strings.Contains(got.stderr, "expectation_mismatch") || !strings.Contains(got.stderr, `"to"`) {
		t.Errorf("%+v", got)
	}
}

func TestAReceiptThatDoesNotHoldIsTold(t *testing.T) {
	forged := bytes.Replace(read(t, "response.json"), []byte(`"value":"`), []byte(`"value":"A`), 1)
	s, state := open(t, func(w http.ResponseWriter) { _, _ = w.Write(forged) }), t.TempDir()
	if got := s.run(state); got.code != 4 || kept(t, state) != 1 {
		t.Errorf("%+v, %d kept", got, kept(t, state))
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"--nothing"}, {"x"}, {"--max-usd", "a lot"}, {"--url", "ftp://x"}, {"--url", "http://example.com"}, {"--url", "https://example.com"}} {
		var stderr bytes.Buffer
		if code := agent.Run(t.Context(), args, func(string) string { return "" }, io.Discard, &stderr); code != 2 || stderr.Len() == 0 {
			t.Errorf("%v: code %d, %s", args, code, &stderr)
		}
	}
	for _, args := range [][]string{{"--help"}, {"--version"}} {
		var stdout bytes.Buffer
		if code := agent.Run(t.Context(), args, func(string) string { return "" }, &stdout, io.Discard); code != 0 || stdout.Len() == 0 {
			t.Errorf("%v: code %d", args, code)
		}
	}
	key := func(string) string { return "0xnothing" }
	if code := agent.Run(t.Context(), []string{"--tx", txHash}, key, io.Discard, io.Discard); code != 1 {
		t.Error(fmt.Sprint("a key of no form: code ", code))
	}
}
