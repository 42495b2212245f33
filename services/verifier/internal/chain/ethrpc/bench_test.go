package ethrpc

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/pforte/pforte/services/verifier/internal/chain/chaintest"
)

// blockOf joins the transactions of two recorded Ethereum blocks, again and again,
// into a block of n, with places, roots and hash that fit.
func blockOf(t testing.TB, n int) *material {
	t.Helper()
	m := materialOf(t, chaintest.Load(t, "ethereum-18000000").Blocks[0])
	more := materialOf(t, chaintest.Load(t, "ethereum-22119617").Blocks[0])
	transactions := slices.Concat(m.block.Transactions, more.block.Transactions)
	receipts := slices.Concat(m.receipts, more.receipts)
	m.block.Transactions, m.receipts = nil, nil
	for i := range n {
		m.block.Transactions = append(m.block.Transactions, transactions[i%len(transactions)])
		m.receipts = append(m.receipts, receipts[i%len(receipts)])
	}
	seal(t, m)
	return m
}

// seal gives the material places, cumulative gas, roots and a hash that fit.
func seal(t testing.TB, m *material) {
	t.Helper()
	var transactions, receipts [][]byte
	for i := range m.block.Transactions {
		tx, r := &m.block.Transactions[i], &m.receipts[i]
		r.CumulativeGasUsed, r.GasUsed = quantityOf(uint64(i+1)*21000), quantityOf(21000)
		tx.TransactionIndex, r.TransactionIndex = quantityOf(uint64(i)), quantityOf(uint64(i))
		tx.BlockNumber, r.BlockNumber = m.block.Number, m.block.Number
		kind, err := tx.kind()
		if err != nil {
			t.Fatal(err)
		}
		value, err := m.encoded(i)
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
		panic(err) // a number in hexadecimal digits
	}
	return q
}

// BenchmarkProveBlock is the work of proving alone, on one core.
func BenchmarkProveBlock(b *testing.B) {
	for _, size := range []int{10, 100, 1000} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			m := blockOf(b, size)
			asked := uint64(size / 2)
			b.ReportAllocs()
			start := cpuTime(b)
			for b.Loop() {
				again := *m
				proven, err := prove(&again, 18_000_000, *m.block.Hash, 1)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := proven.snapshot(asked); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((cpuTime(b)-start).Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
}

// cpuTime is what this process has used of all cores: unlike the time of day it
// is the same on a busy machine.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkDecodeBlock is the reading of a node's answer before that: 94
// transactions in 924 KB of JSON.
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
		var m material
		if err := decodeJSON(replies[0].result, &m.block); err != nil {
			b.Fatal(err)
		}
		if err := decodeJSON(replies[1].result, &m.receipts); err != nil {
			b.Fatal(err)
		}
	}
}
