package evm

import (
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
func blockOf(t testing.TB, n int) *ReportedBlock {
	t.Helper()
	m := materialOf(t, chaintest.Load(t, "ethereum-18000000").Blocks[0])
	more := materialOf(t, chaintest.Load(t, "ethereum-22119617").Blocks[0])
	transactions := slices.Concat(m.Block.Transactions, more.Block.Transactions)
	receipts := slices.Concat(m.Receipts, more.Receipts)
	m.Block.Transactions, m.Receipts = nil, nil
	for i := range n {
		m.Block.Transactions = append(m.Block.Transactions, transactions[i%len(transactions)])
		m.Receipts = append(m.Receipts, receipts[i%len(receipts)])
	}
	seal(t, m)
	return m
}

// seal adds to the material places, cumulative gas, roots and a hash that fit.
func seal(t testing.TB, m *ReportedBlock) {
	t.Helper()
	var transactions, receipts [][]byte
	for i := range m.Block.Transactions {
		tx, r := &m.Block.Transactions[i], &m.Receipts[i]
		r.CumulativeGasUsed, r.GasUsed = quantityOf(uint64(i+1)*21000), quantityOf(21000)
		tx.TransactionIndex, r.TransactionIndex = quantityOf(uint64(i)), quantityOf(uint64(i))
		tx.BlockNumber, r.BlockNumber = m.Block.Number, m.Block.Number
		value, err := tx.Encode()
		if err != nil {
			t.Fatal(err)
		}
		receipt, err := r.Encode(tx.kind())
		if err != nil {
			t.Fatal(err)
		}
		transactions, receipts = append(transactions, value), append(receipts, receipt)
		hash := crypto.Keccak256Hash(value)
		tx.Hash, r.TransactionHash = &hash, &hash
	}
	m.Block.TransactionsRoot, m.Block.ReceiptsRoot = &newBlockTrie(transactions).root, &newBlockTrie(receipts).root
	header, err := m.Block.encode()
	if err != nil {
		t.Fatal(err)
	}
	hash := crypto.Keccak256Hash(header)
	m.Block.Hash = &hash
	for i := range m.Block.Transactions {
		m.Block.Transactions[i].BlockHash, m.Receipts[i].BlockHash = &hash, &hash
	}
}

func quantityOf(n uint64) Quantity {
	var q Quantity
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
			requested := uint64(size / 2)
			b.ReportAllocs()
			start := cpuTime(b)
			for b.Loop() {
				again := *m
				proven, err := again.Prove(18_000_000, *m.Block.Hash, 1)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := proven.Snapshot(requested); err != nil {
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
