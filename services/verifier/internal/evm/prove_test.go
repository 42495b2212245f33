package evm

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/chain/chaintest"
	"github.com/pforte/pforte/services/verifier/internal/chain/recorded"
)

// TestEveryRecordedTransactionIsProven rebuilds every recorded block and looks at
// every transaction in it.
func TestEveryRecordedTransactionIsProven(t *testing.T) {
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
