package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// price is one verification in the token's atomic units.
const price = 10_000

// purchase is what `agent --json` prints.
type purchase struct {
	Transaction string `json:"transaction"`
	Verified    bool   `json:"verified"`
	Payment     struct {
		Amount      string `json:"amount"`
		Payer       string `json:"payer"`
		Asset       string `json:"asset"`
		PayTo       string `json:"payTo"`
		Transaction string `json:"transaction"`
		Resumed     bool   `json:"resumed"`
	} `json:"payment"`
	Answer json.RawMessage `json:"answer"`
}

// command runs a program to its end and returns its exit code and its standard
// output.
func command(t *testing.T, env []string, path string, args ...string) (code int, out []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", path, err)
	}
	if err != nil {
		t.Logf("%s %s: %v\n%s", filepath.Base(path), strings.Join(args, " "), err, stderr.Bytes())
	}
	return cmd.ProcessState.ExitCode(), stdout.Bytes()
}

// agent runs the paying client against the proxy.
func (w *world) agent(t *testing.T, args ...string) (code int, out []byte) {
	t.Helper()
	args = append([]string{"--url", w.PublicURL, "--rpc", "http://" + w.Chain, "--state", t.TempDir()}, args...)
	return command(t, w.AgentEnv(), filepath.Join(w.Bin, "agent"), args...)
}

// income is what the payee holds, in atomic units.
func (w *world) income(t *testing.T) int64 {
	t.Helper()
	amount, err := w.DevelopmentChain().Income(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return int64(amount)
}

// buy has the agent send a transaction and buy its verification.
func (w *world) buy(t *testing.T, args ...string) purchase {
	t.Helper()
	code, out := w.agent(t, append([]string{"--json"}, args...)...)
	if code != 0 {
		t.Fatalf("the agent ends with %d: %s", code, out)
	}
	var bought purchase
	if err := json.Unmarshal(out, &bought); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !bought.Verified {
		t.Fatalf("not verified: %s", out)
	}
	return bought
}

// checkReceipt checks an answer as its buyer can: with our command, and with the
// short script of the docs.
func (w *world) checkReceipt(t *testing.T, answer []byte) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "answer.json")
	key := filepath.Join(t.TempDir(), "key.json")
	published := newBrowser(t, w.PublicURL).request("GET", "/.well-known/receipt-signing-key.json", "").want(t, 200, nil)
	for path, content := range map[string][]byte{file: answer, key: published.body} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if code, out := command(t, nil, filepath.Join(w.Bin, "receipt"), "verify", file, "--key", key, "--require-proof"); code != 0 || !bytes.HasPrefix(out, []byte("VALID")) {
		t.Errorf("receipt verify ends with %d: %s", code, out)
	}
	if code, out := command(t, nil, node(t), filepath.Join(top, "pkg", "receipt", "testdata", "verify.mjs"), file, key); code != 0 || string(out) != "signature valid\n" {
		t.Errorf("verify.mjs ends with %d: %s", code, out)
	}
}

// node is the path of Node. Without it the journey is skipped; CI has it.
func node(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("node is not installed, and CI is set")
		}
		t.Skip("node is not installed")
	}
	return path
}

func TestPurchase_IsPaidOnceForAReceiptThatHolds(t *testing.T) {
	w := sharedWorld(t)
	before := w.income(t)
	bought := w.buy(t, "--status", "success")
	if got := w.income(t) - before; got != price || bought.Payment.Amount != fmt.Sprint(price) {
		t.Errorf("%d moved, and the agent reports %s", got, bought.Payment.Amount)
	}
	w.checkReceipt(t, bought.Answer)
}

func TestPurchase_OfTheSameQuestionGetsTheSameReceipt(t *testing.T) {
	w := sharedWorld(t)
	sent := w.buy(t)
	first := w.buy(t, "--tx", sent.Transaction, "--status", "success", "--min-confirmations", "2")
	again := w.buy(t, "--tx", "0x"+strings.ToUpper(sent.Transaction[2:]), "--status", "success", "--min-confirmations", "2")
	if first.Payment.Transaction != again.Payment.Transaction {
		t.Error("one question was paid twice")
	}
	if !bytes.Equal(first.Answer, again.Answer) {
		t.Errorf("the receipts differ:\n%s\n%s", first.Answer, again.Answer)
	}
}

func TestPurchase_WithoutEvidenceIsNotCharged(t *testing.T) {
	w := sharedWorld(t)
	bought := w.buy(t)
	before := w.income(t)
	for name, args := range map[string][]string{
		"a transaction that does not exist":    {"--tx", "0x" + strings.Repeat("ab", 32), "--patience", "1s"},
		"an expectation that does not hold":    {"--tx", bought.Transaction, "--status", "reverted"},
		"more than the cap":                    {"--tx", bought.Transaction, "--max-usd", "0.009"},
		"confirmations that are not there yet": {"--tx", bought.Transaction, "--min-confirmations", "100000", "--patience", "1s"},
	} {
		if code, out := w.agent(t, append([]string{"--json"}, args...)...); code != 1 {
			t.Errorf("%s: the agent ends with %d: %s", name, code, out)
		}
	}
	if after := w.income(t); after != before {
		t.Errorf("%d moved", after-before)
	}
}

// lastPaid is a paid request as it passed the recorder, for sending it again.
func (w *world) lastPaid(t *testing.T) *http.Request {
	t.Helper()
	w.recorder.mu.Lock()
	defer w.recorder.mu.Unlock()
	if w.recorder.paid == nil {
		t.Fatal("nothing was paid")
	}
	return w.recorder.paid.Clone(t.Context())
}

func TestPurchase_OutlivesAKillOfTheVerifier(t *testing.T) {
	w := newWorld(t, options{})
	bought := w.buy(t)
	before := w.income(t)
	w.Programs.Kill("verifier")
	w.restart(t, w.Verifier())
	request := w.lastPaid(t)
	for range 2 {
		if got := w.resend(t, request); got.StatusCode != http.StatusOK || !bytes.Equal(bytes.TrimSpace(got.body), bytes.TrimSpace(bought.Answer)) {
			t.Errorf("got %d\n%s\nbought\n%s", got.StatusCode, got.body, bought.Answer)
		}
	}
	if after := w.income(t); after != before {
		t.Errorf("%d moved again", after-before)
	}
}

// resend sends a request again, byte for byte.
func (w *world) resend(t *testing.T, r *http.Request) answer {
	t.Helper()
	body, err := r.GetBody()
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), r.Method, w.PublicURL+r.URL.Path, bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = r.Header.Clone()
	return newBrowser(t, w.PublicURL).send(req)
}
