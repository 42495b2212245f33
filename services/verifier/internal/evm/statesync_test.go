package evm

import (
	"errors"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/chain/chaintest"
)

// withStateSync adds to a Polygon block what Bor lists beside its transactions.
func withStateSync(m *ReportedBlock) common.Hash {
	number, _ := m.Block.Number.Uint64()
	hash, index := StateSyncHash(number, *m.Block.Hash), quantityOf(uint64(len(m.Block.Transactions)))
	zero := common.Address{}
	m.Block.Transactions = append(m.Block.Transactions, Transaction{
		Type: Quantity{}, Hash: &hash, BlockHash: m.Block.Hash, BlockNumber: m.Block.Number,
		TransactionIndex: index, From: &zero, To: &zero, Nonce: Quantity{}, Gas: Quantity{},
	})
	m.Receipts = append(m.Receipts, Receipt{
		Type: Quantity{}, TransactionHash: &hash, BlockHash: m.Block.Hash, BlockNumber: m.Block.Number,
		TransactionIndex: index, Status: Quantity{1}, CumulativeGasUsed: Quantity{}, GasUsed: Quantity{},
	})
	return hash
}

func TestStateSync_OfPolygonIsNotInTheRoots(t *testing.T) {
	recording := chaintest.Load(t, "polygon-38102393")
	m := materialOf(t, recording.Blocks[0])
	count := len(m.Block.Transactions)
	sync := withStateSync(m)
	told, receipt := m.Block.Transactions[count], m.Receipts[count]
	b, err := m.Prove(38102393, *m.Block.Hash, 137)
	if err != nil {
		t.Fatalf("the other transactions: %v", err)
	}
	if _, ok := b.index[sync]; ok || len(b.entries) != count {
		t.Error("counts as proven")
	}
	if err := b.Matches(&told, &receipt); !errors.Is(err, chain.ErrUnsupportedType) {
		t.Errorf("requested by its own hash: %v", err)
	}
}

func TestStateSync_OfAnotherBlockIsNotDropped(t *testing.T) {
	m := materialOf(t, chaintest.Load(t, "polygon-38102393").Blocks[0])
	withStateSync(m)
	wrong := crypto.Keccak256Hash([]byte("matic-bor-receipt-"))
	last := len(m.Receipts) - 1
	m.Block.Transactions[last].Hash, m.Receipts[last].TransactionHash = &wrong, &wrong
	if _, err := m.Prove(38102393, *m.Block.Hash, 137); !errors.Is(err, chain.ErrIntegrity) {
		t.Errorf("got %v", err)
	}
}

// TestStateSync_PolygonsNewTypeCannotBeProven: since PIP-74 the roots hold it as
// type 0x7f, with data that RPC does not return.
func TestStateSync_PolygonsNewTypeCannotBeProven(t *testing.T) {
	m := materialOf(t, chaintest.Load(t, "polygon-38102393").Blocks[0])
	withStateSync(m)
	last := len(m.Receipts) - 1
	hash := common.Hash{1}
	m.Block.Transactions[last].Type, m.Block.Transactions[last].Hash = Quantity{0x7f}, &hash
	m.Receipts[last].Type, m.Receipts[last].TransactionHash = Quantity{0x7f}, &hash
	if _, err := m.Prove(38102393, *m.Block.Hash, 137); !errors.Is(err, chain.ErrUnsupportedType) {
		t.Errorf("got %v", err)
	}
}
