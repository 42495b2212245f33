package evm_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/evm"
	"github.com/pforte/pforte/services/verifier/internal/verification"
)

// provingReader proves a reported block for each read.
type provingReader struct{ *evm.ReportedBlock }

func (r provingReader) Read(_ context.Context, transaction chain.Hash) (chain.Snapshot, error) {
	again := *r.ReportedBlock
	proven, err := again.Prove(18_000_000, *r.Block.Hash, 1)
	if err != nil {
		return chain.Snapshot{}, err
	}
	index, found := proven.Index(common.Hash(transaction))
	if !found {
		return chain.Snapshot{}, chain.ErrTransactionNotFound
	}
	s, err := proven.Snapshot(index)
	s.Chain, s.Heads = chain.Identity{Name: "ethereum", ID: 1}, chain.Heads{Latest: 18_000_200, Finalized: 18_000_100}
	return s, err
}

// BenchmarkProveTransfer measures the signed answer about a transfer in a block of 150 transactions:
// proof makes it from what a node reported, none returns it as kept.
func BenchmarkProveTransfer(b *testing.B) {
	question, err := verification.ParseTransferRequest([]byte(`{"transactionHash":"0x513a4abc759c2d30fd7f5a7e5239e72fccc1b24491b1ed99fa9f24b96e36fc88",` +
		`"transfer":{"token":"0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48","to":"0x91a559d248a216d1dd17c4d39f51bda9bd1de7e2","minAmount":"1"}}`))
	if err != nil {
		b.Fatal(err)
	}
	key, err := receipt.GenerateKey()
	if err != nil {
		b.Fatal(err)
	}
	verifier := verification.Verifier{Reader: provingReader{evm.BlockOf(b, 150)}}
	for name, kept := range map[string]int{"proof": 0, "none": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			receipts := verification.NewReceipts(key, kept, func(bool) {}, func(int) {})
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				if _, err := receipts.Signed(b.Context(), "ethereum", verifier, question); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2])/float64(time.Millisecond), "p50-ms")
		})
	}
}
