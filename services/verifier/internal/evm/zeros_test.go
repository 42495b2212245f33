package evm

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/services/verifier/internal/chain/chaintest"
	"github.com/pforte/pforte/services/verifier/internal/chain/recorded"
)

// TestZeros_LeavingThemOutChangesNothing: hashed bytes are the same whether a node
// returns zero or nothing. What is known of a transaction must not differ either,
// else a node could make two replicas sign two receipts.
func TestZeros_LeavingThemOutChangesNothing(t *testing.T) {
	compared := 0
	for _, name := range chaintest.Names(t) {
		recording := chaintest.Load(t, name)
		for _, block := range recording.Blocks {
			if block.Receipts == nil {
				continue
			}
			want := knownOf(t, materialOf(t, block), block, recording.ChainID)
			got := knownOf(t, lean(t, block), block, recording.ChainID)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, block %d: %s", name, block.Number(), diff)
			}
			compared += len(want)
		}
	}
	if compared < 400 {
		t.Errorf("only %d transactions were compared", compared)
	}
}

// lean is a block as a node returns it that leaves out zeros and empty data.
func lean(t *testing.T, block recorded.Block) *ReportedBlock {
	t.Helper()
	text, err := json.Marshal([]any{block.Block["transactions"], block.Receipts})
	if err != nil {
		t.Fatal(err)
	}
	var tree []any
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	dropZeros(tree)
	m := materialOf(t, block)
	m.Block.Transactions, m.Receipts = nil, nil
	decodeAs(t, tree[0], &m.Block.Transactions)
	decodeAs(t, tree[1], &m.Receipts)
	return m
}

// required are members that are compared by themselves, and not only hashed:
// without them a block is refused.
var required = []string{"transactionIndex", "status", "cumulativeGasUsed"}

func dropZeros(tree any) {
	switch node := tree.(type) {
	case []any:
		for _, item := range node {
			dropZeros(item)
		}
	case map[string]any:
		for name, value := range node {
			if (value == "0x0" || value == "0x") && !slices.Contains(required, name) {
				delete(node, name)
			}
			dropZeros(value)
		}
	}
}

// knownOf proves a block and returns all that is known of its transactions.
func knownOf(t *testing.T, m *ReportedBlock, block recorded.Block, chainID uint64) (known []string) {
	t.Helper()
	b, err := m.Prove(block.Number(), *materialOf(t, block).Block.Hash, chainID)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b.entries {
		s, err := b.Snapshot(uint64(i))
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal([]any{s.Transaction, fmt.Sprint(s.Outcome)})
		if err != nil {
			t.Fatal(err)
		}
		known = append(known, string(text))
	}
	return known
}
