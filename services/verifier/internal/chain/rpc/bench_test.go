package rpc

import (
	"encoding/json"
	"testing"

	"github.com/pforte/pforte/services/verifier/internal/chain/chaintest"
	"github.com/pforte/pforte/services/verifier/internal/evm"
)

// BenchmarkDecodeBlock measures the reading of what a node returns of a block, before
// the block is proven: 94 transactions in 924 KB of JSON.
func BenchmarkDecodeBlock(b *testing.B) {
	block := chaintest.Load(b, "ethereum-18000000").Blocks[0]
	body, err := json.Marshal([]any{
		map[string]any{"id": 1, "result": block.Block}, map[string]any{"id": 2, "result": block.Receipts},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		replies, _, err := decodeReplies(body)
		if err != nil {
			b.Fatal(err)
		}
		var m evm.ReportedBlock
		if err := evm.Decode(replies[0].result, &m.Block); err != nil {
			b.Fatal(err)
		}
		if err := evm.Decode(replies[1].result, &m.Receipts); err != nil {
			b.Fatal(err)
		}
	}
}
