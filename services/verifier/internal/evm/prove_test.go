package evm

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/chain/chaintest"
	"github.com/pforte/pforte/services/verifier/internal/chain/recorded"
)

// TestRecorded_EveryTransactionIsProven rebuilds every recorded block and looks at
// every transaction in it.
func TestRecorded_EveryTransactionIsProven(t *testing.T) {
	for _, name := range chaintest.Names(t) {
		recording := chaintest.Load(t, name)
		for _, block := range recording.Blocks {
			t.Run(fmt.Sprintf("%s/%d", name, block.Number()), func(t *testing.T) {
				if block.Receipts == nil {
					t.Skip("recorded without receipts")
				}
				m := materialOf(t, block)
				told := m.Block.Transactions
				proven, err := m.Prove(block.Number(), *m.Block.Hash, recording.ChainID)
				if err != nil {
					t.Fatal(err)
				}
				for i, raw := range told {
					t.Run(raw.Hash.String(), func(t *testing.T) { checkTransaction(t, proven, uint64(i), &told[i], &m.Receipts[i]) })
				}
			})
		}
	}
}

// checkTransaction compares what is proven with what the network's own node told
// about things that proving does not take from it.
func checkTransaction(t *testing.T, b *ProvenBlock, index uint64, told *Transaction, receipt *Receipt) {
	snapshot, err := b.Snapshot(index)
	if err != nil {
		t.Fatal(err)
	}
	got := snapshot.Transaction
	if got.Hash != chain.Hash(*told.Hash) || b.index[*told.Hash] != index || got.Index != index {
		t.Errorf("another transaction: %v", got.Hash)
	}
	if got.From != chain.Address(*told.From) {
		t.Errorf("sender %v, the node returns %v", got.From, told.From)
	}
	if (got.To == nil) != (told.To == nil) || got.To != nil && *got.To != chain.Address(*told.To) {
		t.Errorf("recipient %v, the node returns %v", got.To, told.To)
	}
	if !receipt.GasUsed.Is(snapshot.Outcome.GasUsed) {
		t.Errorf("gas used %d, the node returns %x", snapshot.Outcome.GasUsed, []byte(receipt.GasUsed))
	}
	if len(snapshot.Proof.Transaction) == 0 || len(snapshot.Proof.Receipt) == 0 {
		t.Error("no proof")
	}
	events, err := snapshot.Outcome.Events()
	if err != nil || len(events) != len(receipt.Logs) {
		t.Fatalf("%d events of %d logs: %v", len(events), len(receipt.Logs), err)
	}
	for i, log := range receipt.Logs {
		want := chain.Event{Address: chain.Address(log.Address), Topics: []chain.Hash{}, Data: log.Data}
		for _, topic := range log.Topics {
			want.Topics = append(want.Topics, chain.Hash(topic))
		}
		if diff := cmp.Diff(want, events[i], cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("log %d: %s", i, diff)
		}
	}
}

func TestReceipt_LeavesWithoutOneHaveNoEvents(t *testing.T) {
	for name, leaf := range map[string][]byte{
		"nothing": nil, "a string": {0x80}, "a branch": encode(legacyType, make([][]byte, 17)), "an empty value": encode(legacyType, [][]byte{{1}, {}}),
		"a type alone": encode(legacyType, [][]byte{{1}, {2}}), "too few fields": encode(legacyType, [][]byte{{1}, encode(2, [][]byte{{1}, {2}, {3}})}),
		"logs that are a string": encode(legacyType, [][]byte{{1}, encode(2, [][]byte{{1}, {2}, {3}, {4}})}),
	} {
		if found, err := events(leaf); err == nil {
			t.Errorf("%s: %v", name, found)
		}
	}
}

func materialOf(t testing.TB, block recorded.Block) *ReportedBlock {
	t.Helper()
	var m ReportedBlock
	decodeAs(t, block.Block, &m.Block)
	decodeAs(t, block.Receipts, &m.Receipts)
	return &m
}

func decodeAs(t testing.TB, from, into any) {
	t.Helper()
	text, err := json.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}
