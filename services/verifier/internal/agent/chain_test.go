package agent_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/agent"
	"github.com/pforte/pforte/services/verifier/internal/devnet"
)

// The recorded receipt is about Base, and so is the key document.

func TestChain_AReceiptIsAboutTheOnePaidFor(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		// first replaces the chain of the key document.
		first string
		want  int
	}{
		"the chain of the path":                   {args: []string{"--path", "/v1/verify/base-transaction"}},
		"the chain of the path, not the first":    {args: []string{"--path", "/v1/verify/base-transaction"}, first: "eip155:1"},
		"the chain that the buyer names":          {args: []string{"--chain", "eip155:8453"}},
		"the same at a path of the chain":         {args: []string{"--path", "/v1/verify/base-transaction", "--chain", "eip155:8453"}},
		"the buyer names one that is not first":   {args: []string{"--chain", "eip155:8453"}, first: "eip155:1"},
		"the path is of another chain":            {args: []string{"--path", "/v1/verify/ethereum-transaction"}, want: 4},
		"behind a prefix too":                     {args: []string{"--path", "/pforte/v1/verify/ethereum-transaction"}, want: 4},
		"the first chain is another":              {first: "eip155:1", want: 4},
		"a path without a chain's name":           {args: []string{"--path", "/verify"}, first: "eip155:1", want: 4},
		"the buyer names another":                 {args: []string{"--chain", "eip155:1"}, want: 4},
		"the buyer names another than the path's": {args: []string{"--path", "/v1/verify/base-transaction", "--chain", "eip155:10"}, want: 4},
	} {
		t.Run(name, func(t *testing.T) {
			s, state := open(t, deliver(t)), t.TempDir()
			if c.first != "" {
				s.keys = bytes.Replace(s.keys, []byte("eip155:8453"), []byte(c.first), 1)
			}
			got := s.run(state, append(c.args, "--json")...)
			if got.code != c.want || len(s.sent()) != 1 {
				t.Fatalf("%+v, %d payments", got, len(s.sent()))
			}
			var printed struct {
				Verified    bool
				Error, Paid string
			}
			if err := json.Unmarshal([]byte(got.stdout), &printed); err != nil || printed.Verified != (c.want == 0) {
				t.Fatalf("%v, %s", err, got.stdout)
			}
			if c.want == 0 {
				return
			}
			if printed.Paid != "yes" || !strings.Contains(printed.Error, "base (eip155:8453)") || !strings.Contains(got.stderr, "chain") || kept(t, state) != 1 {
				t.Errorf("%+v, %d kept", got, kept(t, state))
			}
		})
	}
}

func TestChain_OfNoFormIsAFaultBeforePaying(t *testing.T) {
	for _, chain := range []string{"base", "8453", "eip155:", "eip155:08453", "eip155:0", "eip155:+1", "eip155:99999999999999999999999", "solana:1"} {
		s := open(t, func(http.ResponseWriter) { t.Error("it was paid") })
		if got := s.run(t.TempDir(), "--chain", chain); got.code != 2 || !strings.Contains(got.stderr, "--chain") {
			t.Errorf("%s: %+v", chain, got)
		}
	}
}

func TestChain_TheAgentsTransactionIsOfTheNamedOne(t *testing.T) {
	node, err := devnet.Start(t.Context(), devnet.Config{ChainID: 84532, RPCAddr: "127.0.0.1:0", BlockTime: time.Second, FinalityDepth: 1}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = node.Close() })
	s := open(t, func(http.ResponseWriter) { t.Error("it was paid") })
	var stdout, stderr bytes.Buffer
	args := []string{"--url", s.server.URL, "--state", t.TempDir(), "--rpc", node.RPCURL(), "--chain", "eip155:8453"}
	code := agent.Run(
		t.Context(), "v0", args, func(string) string { return "" }, strings.NewReader(""), &stdout, &stderr)
	if code != 1 || !strings.Contains(stderr.String(), "eip155:84532") || stdout.Len() > 0 {
		t.Errorf("code %d: %s%s", code, &stdout, &stderr)
	}
}
