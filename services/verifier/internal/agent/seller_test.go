package agent_test

import (
	"bytes"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
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
	// unpaid answers the first calls that carry none; the others get the challenge.
	unpaid []func(w http.ResponseWriter)
	// keys is the key document.
	keys []byte
	// description is what the challenge contains of the resource.
	description string
	// leave closes the server once the challenge is out.
	leave bool
	// final answers requests for proofs of finality.
	final func(w http.ResponseWriter, r *http.Request)
	// pages answers what else is read, by path.
	pages map[string]func(w http.ResponseWriter)
	// progress answers how far transactions are, by chain; without it the seller does not tell.
	progress map[string]string
	// resources is the list of paid paths.
	resources string
	// unlisted answers in place of that list.
	unlisted func(w http.ResponseWriter)

	mu       sync.Mutex
	payments []string
	asked    []string // method, path and body of each POST
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
	s := &seller{t: t, offers: []x402.Requirements{offer()}, paid: paid, keys: read(t, "key.json")}
	s.resources = `{"version":1,"resources":["https://verifier.example/v1/verify/base-transaction","https://verifier.example/v1/verify/chain-transaction","https://verifier.example/v1/verify/ethereum-transaction"]}`
	s.server = httptest.NewServer(s)
	t.Cleanup(s.server.Close)
	return s
}

func (s *seller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method == http.MethodGet {
		switch {
		case r.URL.Path == "/.well-known/x402" && s.unlisted != nil:
			s.unlisted(w)
		case r.URL.Path == "/.well-known/x402":
			_, _ = io.WriteString(w, s.resources)
		case strings.HasPrefix(r.URL.Path, "/v1/status/"):
			chain, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/status/"), "/")
			if s.progress == nil {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			_, _ = io.WriteString(w, s.progress[chain])
		case strings.HasPrefix(r.URL.Path, "/v1/finality/") && s.final != nil:
			s.final(w, r)
		case s.pages[r.URL.Path] != nil:
			s.pages[r.URL.Path](w)
		default:
			_, _ = w.Write(s.keys)
		}
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Error(err)
	}
	s.asked = append(s.asked, r.Method+" "+r.URL.Path+" "+string(body))
	payment := r.Header.Get(x402.HeaderPaymentSignature)
	if payment == "" && len(s.unpaid) > 0 {
		answer := s.unpaid[0]
		s.unpaid = s.unpaid[1:]
		answer(w)
		return
	}
	if payment == "" {
		header, err := x402.Encode(x402.PaymentRequired{X402Version: 2, Accepts: s.offers, Resource: x402.Resource{URL: "http://x/", Description: s.description}})
		if err != nil {
			s.t.Error(err)
		}
		w.Header().Set(x402.HeaderPaymentRequired, header)
		if s.leave {
			w.Header().Set("Connection", "close")
			_ = s.server.Listener.Close()
		}
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

// script decides how calls with a payment are answered from now on.
func (s *seller) script(paid ...func(http.ResponseWriter)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paid = paid
}

// reports decides what is said of transactions on a chain from now on.
func (s *seller) reports(chain, progress string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.progress == nil {
		s.progress = map[string]string{}
	}
	s.progress[chain] = progress
}

// unlist decides what is answered in place of the list of paid paths from now on.
func (s *seller) unlist(answer func(http.ResponseWriter)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlisted = answer
}

// sent are the payments that calls carried, in order.
func (s *seller) sent() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.payments)
}

// questions are what was asked, with a payment and without, in order.
func (s *seller) questions() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// wantOnePayment fails the test when calls carried different payments.
func (s *seller) wantOnePayment() {
	s.t.Helper()
	if sent := s.sent(); len(slices.Compact(slices.Clone(sent))) != 1 {
		s.t.Errorf("%d calls did not carry one payment", len(sent))
	}
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
	all := append([]string{"--url", s.server.URL, "--state", state, "--patience", "1500ms"}, append(args, question...)...)
	code := agent.Run(s.t.Context(), "v0", all, func(string) string { return "" }, strings.NewReader(""), &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

func kept(t *testing.T, state string) int { return len(keptFiles(t, state)) }

func keptFiles(t *testing.T, state string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(state, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	return files
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
