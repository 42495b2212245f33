package ethrpc

import (
	"errors"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/chain/chaintest"
)

// withStateSync adds to a Polygon block what Bor lists beside its transactions.
func withStateSync(m *material) common.Hash {
	number, _ := m.block.Number.uint64()
	hash, index := stateSyncHash(number, *m.block.Hash), quantityOf(uint64(len(m.block.Transactions)))
	zero := common.Address{}
	m.block.Transactions = append(m.block.Transactions, rpcTransaction{
		Type: quantity{}, Hash: &hash, BlockHash: m.block.Hash, BlockNumber: m.block.Number,
		TransactionIndex: index, From: &zero, To: &zero, Nonce: quantity{}, Gas: quantity{},
	})
	m.receipts = append(m.receipts, rpcReceipt{
		Type: quantity{}, TransactionHash: &hash, BlockHash: m.block.Hash, BlockNumber: m.block.Number,
		TransactionIndex: index, Status: quantity{1}, CumulativeGasUsed: quantity{}, GasUsed: quantity{},
	})
	return hash
}

func TestPolygonsStateSyncTransactionIsNotInTheRoots(t *testing.T) {
	recording := chaintest.Load(t, "polygon-38102393")
	m := materialOf(t, recording.Blocks[0])
	count := len(m.block.Transactions)
	sync := withStateSync(m)
	at := &location{number: 38102393, block: *m.block.Hash, transaction: m.block.Transactions[count], receipt: m.receipts[count]}
	b, err := prove(m, 38102393, *m.block.Hash, 137)
	if err != nil {
		t.Fatalf("the other transactions: %v", err)
	}
	if _, ok := b.index[sync]; ok || len(b.entries) != count {
		t.Error("counts as proven")
	}
	if err := at.agrees(b); !errors.Is(err, chain.ErrUnsupportedType) {
		t.Errorf("asked for itself: %v", err)
	}
}

func TestAStateSyncTransactionOfAnotherBlockIsNotDropped(t *testing.T) {
	m := materialOf(t, chaintest.Load(t, "polygon-38102393").Blocks[0])
	withStateSync(m)
	wrong := crypto.Keccak256Hash([]byte("matic-bor-receipt-"))
	last := len(m.receipts) - 1
	m.block.Transactions[last].Hash, m.receipts[last].TransactionHash = &wrong, &wrong
	if _, err := prove(m, 38102393, *m.block.Hash, 137); !errors.Is(err, chain.ErrIntegrity) {
		t.Errorf("got %v", err)
	}
}

// TestPolygonsNewStateSyncTypeCannotBeProven: since PIP-74 the roots hold it as
// type 0x7f, with data that RPC does not tell.
func TestPolygonsNewStateSyncTypeCannotBeProven(t *testing.T) {
	m := materialOf(t, chaintest.Load(t, "polygon-38102393").Blocks[0])
	withStateSync(m)
	last := len(m.receipts) - 1
	hash := common.Hash{1}
	m.block.Transactions[last].Type, m.block.Transactions[last].Hash = quantity{0x7f}, &hash
	m.receipts[last].Type, m.receipts[last].TransactionHash = quantity{0x7f}, &hash
	if _, err := prove(m, 38102393, *m.block.Hash, 137); !errors.Is(err, chain.ErrUnsupportedType) {
		t.Errorf("got %v", err)
	}
}
