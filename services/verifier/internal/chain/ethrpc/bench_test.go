package ethrpc

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/pforte/pforte/services/verifier/internal/chain/chaintest"
)

// blockOf150 joins the transactions of two recorded Ethereum blocks into one of
// 150 and gives it fitting roots and hash.
func blockOf150(t testing.TB) (*material, []byte, []byte) {
	t.Helper()
	m := materialOf(t, chaintest.Load(t, "ethereum-18000000").Blocks[0])
	more := materialOf(t, chaintest.Load(t, "ethereum-22119617").Blocks[0])
	m.block.Transactions = append(m.block.Transactions, more.block.Transactions...)[:150]
	m.receipts = append(m.receipts, more.receipts...)[:150]
	return m, nil, nil
}

func BenchmarkProveBlockOf150(b *testing.B) {
	m, _, _ := blockOf150(b)
	seal(b, m)
	b.ReportAllocs()
	for b.Loop() {
		again := *m
		if _, err := prove(&again, 18000000, *m.block.Hash, 1); err != nil {
			b.Fatal(err)
		}
	}
}

// seal gives the material a block hash that fits.
func seal(t testing.TB, m *material) {
	t.Helper()
	cumulative := uint64(0)
	var transactions, receipts [][]byte
	for i := range m.block.Transactions {
		tx, r := &m.block.Transactions[i], &m.receipts[i]
		cumulative += 21000
		r.CumulativeGasUsed = quantityOf(cumulative)
		tx.TransactionIndex, r.TransactionIndex = quantityOf(uint64(i)), quantityOf(uint64(i))
		tx.BlockNumber, r.BlockNumber = m.block.Number, m.block.Number
		kind, err := tx.kind()
		if err != nil {
			t.Fatal(err)
		}
		value, err := tx.encode()
		if err != nil {
			t.Fatal(err)
		}
		receipt, err := r.encode(kind)
		if err != nil {
			t.Fatal(err)
		}
		transactions, receipts = append(transactions, value), append(receipts, receipt)
		hash := crypto.Keccak256Hash(value)
		tx.Hash, r.TransactionHash = &hash, &hash
	}
	m.block.TransactionsRoot, m.block.ReceiptsRoot = &newBlockTrie(transactions).root, &newBlockTrie(receipts).root
	header, err := m.block.encode()
	if err != nil {
		t.Fatal(err)
	}
	hash := crypto.Keccak256Hash(header)
	m.block.Hash = &hash
	for i := range m.block.Transactions {
		m.block.Transactions[i].BlockHash, m.receipts[i].BlockHash = &hash, &hash
	}
}

func quantityOf(n uint64) quantity {
	var q quantity
	if err := q.UnmarshalJSON(fmt.Appendf(nil, `"0x%x"`, n)); err != nil {
		panic(err)
	}
	return q
}

var _ = json.Marshal
var _ common.Hash

func BenchmarkDecodeEthereumBlock(b *testing.B) {
	block := chaintest.Load(b, "ethereum-18000000").Blocks[0]
	x, _ := json.Marshal(block.Block)
	y, _ := json.Marshal(block.Receipts)
	b.SetBytes(int64(len(x) + len(y)))
	for b.Loop() {
		var m material
		json.Unmarshal(x, &m.block)
		json.Unmarshal(y, &m.receipts)
	}
}
