package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/internal/stack"
	"github.com/pforte/pforte/deploy/test/internal/fixture"
	"github.com/pforte/pforte/pkg/receipt"
)

// networks are the recorded blocks of five networks, by the golden vector of
// pkg/receipt that one of their transactions has.
var networks = map[string]struct {
	name, block string
	id, number  int
}{
	"base":             {"base", "base-mainnet-2000000", 8453, 2_000_000},
	"optimism-deposit": {"optimism", "op-mainnet-109860869", 10, 109_860_869},
	"arbitrum":         {"arbitrum", "arbitrum-one-150000000", 42161, 150_000_000},
	"polygon-reverted": {"polygon", "polygon-38102393", 137, 38_102_393},
	"ethereum-blob":    {"ethereum", "ethereum-22119617", 1, 22_119_617},
}

// networksWorld verifies all networks at once and is paid on the development
// chain.
func networksWorld(t *testing.T) *world {
	t.Helper()
	addrs := map[string]string{}
	var chains []map[string]any
	for vector, n := range networks {
		addrs[vector] = freeAddr(t)
		chains = append(chains, map[string]any{"name": n.name, "id": n.id, "rpcUrls": []string{"http://" + addrs[vector]}, "quorum": 1})
	}
	text, err := json.Marshal(map[string]any{"chains": chains})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "chains.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return newWorld(t, options{
		change: func(l *layout.Layout) {
			l.Extra["verifier"] = map[string]string{"CHAINS_FILE": file, "CHAIN_RPC_URLS": "", "PAYMENT_RPC_URL": "http://" + l.Chain}
		},
		before: func(l layout.Layout) []stack.Program {
			var nodes []stack.Program
			for vector, n := range networks {
				block := filepath.Join(filepath.Dir(recordedBlock), n.block+".json.gz")
				nodes = append(nodes, fixture.RecordedNode(l, "node-"+n.name, block, addrs[vector], n.number+100, n.number+50))
			}
			return nodes
		},
	})
}

func TestNetworks_OneReceiptOfEachIsTheGoldenOne(t *testing.T) {
	w := networksWorld(t)
	for vector, n := range networks {
		t.Run(n.name, func(t *testing.T) {
			golden := goldenReceipt(t, vector)
			e := golden.Request.Expectations
			before := w.income(t)
			args := []string{"--path", "/v1/verify/" + n.name + "-transaction", "--tx", golden.Request.TransactionHash, "--json", "--min-confirmations", fmt.Sprint(e.MinConfirmations)}
			for flag, value := range map[string]string{"--status": e.Status, "--from": e.From, "--to": e.To, "--selector": e.Selector} {
				if value != "" {
					args = append(args, flag, value)
				}
			}
			code, out := w.agent(t, args...)
			var p purchase
			if err := json.Unmarshal(out, &p); code != 0 || err != nil || !p.Verified {
				t.Fatalf("code %d, %v: %s", code, err, out)
			}
			bought, err := receipt.Parse(p.Answer)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(golden, bought.Receipt); diff != "" {
				t.Error(diff)
			}
			if got := w.income(t) - before; got != price {
				t.Errorf("%d moved", got)
			}
		})
	}
	resp, err := http.Post(w.PublicURL+"/v1/verify/gnosis-transaction", "application/json", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("a network that is not configured answers %d", resp.StatusCode)
	}
}

func goldenReceipt(t *testing.T, vector string) receipt.Receipt {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, "pkg/receipt/testdata/vectors", vector, "response.json"))
	if err != nil {
		t.Fatal(err)
	}
	document, err := receipt.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return document.Receipt
}
