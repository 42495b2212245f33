package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/internal/stack"
)

// toolResult is a tool's result as the official client prints it.
type toolResult struct {
	IsError bool `json:"isError"`
	Content []struct{ Type, Text, URI string }
	Meta    struct {
		Settlement struct {
			Success     bool
			Transaction string
		} `json:"x402/payment-response"`
	} `json:"_meta"`
}

// One payment buys one answer by either protocol, whichever comes first.
func TestMCP_OfficialClientPaysOnceOverBothProtocols(t *testing.T) {
	w := sharedWorld(t)
	for _, first := range []string{"MCP", "HTTP"} {
		t.Run(first, func(t *testing.T) {
			sent := w.buy(t, "--status", "success")
			before := w.income(t)
			code, out := command(t, []string{"BUYER_KEY=" + layout.PayerKey}, node(t), "clients/buy-mcp.mjs", w.PublicURL,
				`{"transactionHash":"`+sent.Transaction+`"}`, first)
			var got struct {
				Tools                  []string
				Challenge, Paid, Again toolResult
				HTTP                   struct {
					Status int
					Body   string
				}
			}
			if err := json.Unmarshal(out, &got); code != 0 || err != nil {
				t.Fatalf("ends with %d: %v: %s", code, err, out)
			}
			if !slices.Contains(got.Tools, "verify_transaction") || !got.Challenge.IsError {
				t.Errorf("got %+v", got)
			}
			for _, r := range []toolResult{got.Paid, got.Again} {
				if r.IsError || len(r.Content) != 3 || !strings.Contains(r.Content[0].Text, "Proven") || !r.Meta.Settlement.Success || len(r.Meta.Settlement.Transaction) != 66 {
					t.Fatalf("got %+v, over HTTP %+v", r, got.HTTP)
				}
				if linked := fetched(t, r.Content[2].URI); linked != got.HTTP.Body {
					t.Errorf("the link has %s, over HTTP %+v", linked, got.HTTP)
				}
			}
			if got.HTTP.Status != 200 {
				t.Errorf("over HTTP: %+v", got.HTTP)
			}
			w.checkReceipt(t, []byte(got.HTTP.Body))
			if moved := w.income(t) - before; moved != price {
				t.Errorf("%d moved", moved)
			}
		})
	}
}

// fetched returns the body of an address.
func fetched(t *testing.T, address string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %v", address, response.StatusCode, err)
	}
	return string(text)
}

// While the verifier is away the proxy answers 502, and when it is slow 504. Both are
// no JSON-RPC, and a client's connection must live on.
func TestMCP_ClientsSurviveTheProxysErrors(t *testing.T) {
	w := newWorld(t, options{
		change: func(l *layout.Layout) {
			l.Extra["verifier"] = map[string]string{"CHAIN_MAX_HEAD_AGE": "2s"} // so that list_chains waits for the chain
			l.Extra["pforte-proxy"] = map[string]string{"VERIFIER_TIMEOUT": "1s"}
		},
		only: func(l layout.Layout) []stack.Program { return []stack.Program{l.Devnet(), l.Verifier(), l.Proxy()} },
	})
	session, err := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, nil).
		Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: w.PublicURL + "/mcp"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	ask := func() error {
		_, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "list_chains"})
		return err
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	official := w.surviving(t)
	official.want(t, "ok")
	w.Programs.Kill("verifier")
	if err := ask(); err == nil || !strings.Contains(err.Error(), "Bad Gateway") {
		t.Errorf("while the verifier is away: %v", err)
	}
	official.want(t, "failed 502")
	w.restart(t, w.Verifier())
	official.want(t, "ok", "failed 503") // while the verifier starts
	devnet := w.Programs.Pid("devnet")
	if devnet == 0 { // a signal to it would stop this process
		t.Fatal("the chain has ended")
	}
	if err := syscall.Kill(devnet, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	official.want(t, "failed 504")
	if err := ask(); err == nil || !strings.Contains(err.Error(), "Gateway Timeout") {
		t.Errorf("while the verifier is slow: %v", err)
	}
	if err := syscall.Kill(devnet, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	official.want(t, "ok")
	if err := ask(); err != nil {
		t.Errorf("the Go client's connection is lost: %v", err)
	}
}

// lines are what a running program prints.
type lines struct{ *bufio.Scanner }

func (w *world) surviving(t *testing.T) lines {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	cmd := exec.CommandContext(ctx, node(t), "clients/survive-mcp.mjs", w.PublicURL)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = cmd.Wait() })
	return lines{bufio.NewScanner(out)}
}

// want reads a line, after any number of those that may come before it.
func (l lines) want(t *testing.T, line string, before ...string) {
	t.Helper()
	for l.Scan() && slices.Contains(before, l.Text()) {
	}
	if l.Text() != line {
		t.Fatalf("the official client prints %q, want %q", l.Text(), line)
	}
}

func TestMCP_InspectorListsAndCallsTools(t *testing.T) {
	w := sharedWorld(t)
	for call, want := range map[string]string{
		"--method tools/list":                         `"name": "verify_transaction"`,
		"--method tools/call --tool-name list_chains": `"name": "devnet"`,
		"--method tools/call --tool-name verify_transaction --tool-arg transactionHash=0x1": `64 hexadecimal digits`,
	} {
		args := append([]string{"clients/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js", "--cli", w.PublicURL + "/mcp"}, strings.Fields(call)...)
		_, out := command(t, []string{"HOME=" + t.TempDir()}, node(t), args...)
		if !strings.Contains(string(out), want) {
			t.Errorf("%s: no %s in %s", call, want, out)
		}
	}
}
