package agent_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/agent"
)

func TestBuy_PaysOnceAndChecksTheReceipt(t *testing.T) {
	s, state := open(t, deliver(t)), t.TempDir()
	out := filepath.Join(t.TempDir(), "receipt.json")
	got := s.run(state, "--json", "--out", out)
	if got.code != 0 || len(s.sent()) != 1 || kept(t, state) != 0 {
		t.Fatalf("%+v, %d payments, %d kept", got, len(s.sent()), kept(t, state))
	}
	var printed struct {
		Verified bool
		Payment  struct{ USD, PayTo string }
	}
	if err := json.Unmarshal([]byte(got.stdout), &printed); err != nil || !printed.Verified || printed.Payment.USD != "0.01" || printed.Payment.PayTo != payee {
		t.Errorf("%v, %s", err, got.stdout)
	}
	if saved, err := os.ReadFile(out); err != nil || !bytes.Equal(saved, read(t, "response.json")) {
		t.Errorf("saved: %v", err)
	}
	s.checkSignature(s.sent()[0])
}

func TestBuy_RefusesWhatASellerShouldNotRequest(t *testing.T) {
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
			if got := s.run(state); got.code != 1 || len(s.sent()) != 0 || kept(t, state) != 0 {
				t.Errorf("%+v, %d payments", got, len(s.sent()))
			}
		})
	}
}

func TestCap_IsASetting(t *testing.T) {
	s := open(t, deliver(t))
	if got := s.run(t.TempDir(), "--max-usd", "0.009999"); got.code != 1 || !strings.Contains(got.stderr, "0.01 USD asked") {
		t.Errorf("%+v", got)
	}
	if got := s.run(t.TempDir(), "--max-usd", "0.01"); got.code != 0 {
		t.Errorf("%+v", got)
	}
}

func TestCap_ACheaperOfferIsTaken(t *testing.T) {
	s := open(t, deliver(t))
	dear := offer()
	dear.Amount = "50001"
	s.offers = []x402.Requirements{dear, offer()}
	if got := s.run(t.TempDir()); got.code != 0 || len(s.sent()) != 1 {
		t.Errorf("%+v", got)
	}
}

func TestNetwork_IsASetting(t *testing.T) {
	s := open(t, deliver(t))
	if got := s.run(t.TempDir(), "--network", "eip155:8453"); got.code != 1 || len(s.sent()) != 0 {
		t.Errorf("%+v", got)
	}
	if got := s.run(t.TempDir(), "--network", "eip155:84532"); got.code != 0 {
		t.Errorf("%+v", got)
	}
}

func TestOutput_ASellersWordsDoNotSteerTheTerminal(t *testing.T) {
	s := open(t, refuse(422, `{"error":"\u001b[2J\u202egone","code":422,"reason":"\u009b1m"}`))
	s.description = "\x1b[31mcheap\x07"
	got := s.run(t.TempDir())
	if got.code != 1 || strings.ContainsAny(got.stdout+got.stderr, "\x1b\x07\u202e\u009b") || !strings.Contains(got.stdout, "cheap") {
		t.Errorf("%q, %q", got.stdout, got.stderr)
	}
}

func TestOutput_ASellersWordsAddNoLine(t *testing.T) {
	s := open(t, refuse(422, `{"error":"no\nChecked offline: all","code":422,"reason":"x\nChecked offline: all"}`))
	s.description = "cheap\nChecked offline: all"
	got := s.run(t.TempDir())
	all := got.stdout + got.stderr
	if strings.Contains(all, "\nChecked") || strings.Count(all, "Checked offline: all") < 3 {
		t.Errorf("%q, %q", got.stdout, got.stderr)
	}
}

func TestOutput_ASellersRefusalIsCut(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for _, flag := range []string{"--json", "--patience=1500ms"} {
		s := open(t)
		s.unpaid = []func(http.ResponseWriter){
			refuse(422, `{"error":"`+long+`","reason":"`+long+`","paymentReason":"`+long+`","checks":["`+long+`"]}`),
		}
		got := s.run(t.TempDir(), flag)
		if told := len(got.stdout) + len(got.stderr); got.code == 0 || told > 32<<10 {
			t.Errorf("%s: code %d, a refusal of 4 MB is told in %d bytes", flag, got.code, told)
		}
	}
}

func TestBuy_ARefusalIsReportedAndCostsNothing(t *testing.T) {
	s := open(t, refuse(422, `{"error":"It does not hold.","code":422,"reason":"expectation_mismatch","retryable":false,"checks":[{"name":"to"}]}`))
	got := s.run(t.TempDir(), "--json")
	var printed struct {
		Verified     bool
		Reason, Paid string
	}
	if err := json.Unmarshal([]byte(got.stdout), &printed); err != nil || printed.Verified || printed.Reason != "expectation_mismatch" || printed.Paid != "no" {
		t.Errorf("%v, %s", err, got.stdout)
	}
	if got.code != 1 || !strings.Contains(got.stderr, "expectation_mismatch") || !strings.Contains(got.stderr, `"to"`) {
		t.Errorf("%+v", got)
	}
}

func TestReceipt_ThatDoesNotHoldIsReported(t *testing.T) {
	forged := bytes.Replace(read(t, "response.json"), []byte(`"value":"`), []byte(`"value":"A`), 1)
	s, state := open(t, func(w http.ResponseWriter) { _, _ = w.Write(forged) }), t.TempDir()
	if got := s.run(state); got.code != 4 || kept(t, state) != 1 {
		t.Errorf("%+v, %d kept", got, kept(t, state))
	}
}

func TestBuy_PaymentsGoToHTTPSOrStayNear(t *testing.T) {
	key := func(name string) string { return map[string]string{"AGENT_PRIVATE_KEY": "0x01"}[name] }
	for url, want := range map[string]int{
		"https://example.com": 0, "http://localhost:8080": 0, "http://127.0.0.1": 0, "http://[::1]:8080": 0, "http://proxy:8080": 0,
		"http://example.com": 2, "http://192.0.2.1": 2, "http://[2001:db8::1]": 2,
		// names without a dot that are addresses to some resolvers
		"http://134744072": 2, "http://2130706433:8080": 2, "http://0x08080808": 2, "http://0X8080808": 2, "http://001002004010": 2,
	} {
		var stderr bytes.Buffer
		if code := agent.Run(t.Context(), "v0", []string{"--version", "--url", url}, key, strings.NewReader(""), io.Discard, &stderr); code != want {
			t.Errorf("%s: code %d, %s", url, code, &stderr)
		}
	}
}

func TestUsage_IsShown(t *testing.T) {
	for _, args := range [][]string{{"--nothing"}, {"x"}, {"--max-usd", "a lot"}, {"--url", "ftp://x"}, {"--url", "http://example.com"}, {"--url", "http://192.0.2.1"}, {"--url", "http://[2001:db8::1]"}, {"--url", "http://proxy:8080"}, {"--url", "https://example.com"}} {
		var stderr bytes.Buffer
		if code := agent.Run(t.Context(), "v0", args, func(string) string { return "" }, strings.NewReader(""), io.Discard, &stderr); code != 2 || stderr.Len() == 0 {
			t.Errorf("%v: code %d, %s", args, code, &stderr)
		}
	}
	for _, args := range [][]string{{"--help"}, {"--version"}} {
		var stdout bytes.Buffer
		if code := agent.Run(t.Context(), "v0", args, func(string) string { return "" }, strings.NewReader(""), &stdout, io.Discard); code != 0 || stdout.Len() == 0 {
			t.Errorf("%v: code %d", args, code)
		}
	}
	key := func(name string) string { return map[string]string{"AGENT_PRIVATE_KEY": "0xnothing"}[name] }
	if code := agent.Run(t.Context(), "v0", []string{"--tx", txHash}, key, strings.NewReader(""), io.Discard, io.Discard); code != 1 {
		t.Error(fmt.Sprint("a key of no form: code ", code))
	}
}
