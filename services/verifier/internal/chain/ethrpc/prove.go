package ethrpc

import (
	"encoding/binary"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// material is what a node says of one block.
type material struct {
	block    rpcBlock
	receipts array[rpcReceipt]

	// Of transactions that cannot be encoded, by their place in the block.
	transactionBytes, receiptBytes map[int][]byte
}

// prove rebuilds the block and compares everything with the hash and number that
// it must have.
func prove(m *material, number uint64, hash common.Hash, chainID uint64) (*provenBlock, error) {
	header, err := proveHeader(&m.block.rpcHeader, number, hash)
	if err != nil {
		return nil, err
	}
	m.dropStateSync(number, hash)
	if err := m.sortReceipts(); err != nil {
		return nil, err
	}
	b := &provenBlock{
		chainID:  chainID,
		identity: m.block.identity(),
		header:   header,
		index:    make(map[common.Hash]uint64, len(m.block.Transactions)),
	}
	if err := b.proveTransactions(m); err != nil {
		return nil, err
	}
	if err := b.proveReceipts(m); err != nil {
		return nil, err
	}
	return b, b.keepFacts(m)
}

func proveHeader(h *rpcHeader, number uint64, hash common.Hash) ([]byte, error) {
	if h.Hash == nil || !h.Number.is(number) {
		return nil, fmt.Errorf("asked for block %d, got another: %w", number, chain.ErrInconsistent)
	}
	if *h.Hash != hash {
		return nil, fmt.Errorf("block %d is %v, not %v: %w", number, *h.Hash, hash, chain.ErrNotCanonical)
	}
	header, err := h.encode()
	if err != nil {
		return nil, err
	}
	if _, ok := h.Timestamp.uint64(); !ok || crypto.Keccak256Hash(header) != hash {
		return nil, fmt.Errorf("header hash: %w", chain.ErrIntegrity)
	}
	return header, nil
}

func (h *rpcHeader) identity() chain.Block {
	number, _ := h.Number.uint64()
	timestamp, _ := h.Timestamp.uint64()
	return chain.Block{
		Number: number, Hash: chain.Hash(*h.Hash), ParentHash: chain.Hash(*h.ParentHash), Timestamp: timestamp,
		TransactionsRoot: chain.Hash(*h.TransactionsRoot), ReceiptsRoot: chain.Hash(*h.ReceiptsRoot),
	}
}

// stateSyncHash is the hash that Polygon gives to the transaction by which it
// brings state over from Ethereum. RPC lists it, the roots do not hold it.
func stateSyncHash(number uint64, block common.Hash) common.Hash {
	return crypto.Keccak256Hash([]byte("matic-bor-receipt-"), binary.BigEndian.AppendUint64(nil, number), block[:])
}

// dropStateSync takes Polygon's state-sync transaction out of both lists.
func (m *material) dropStateSync(number uint64, block common.Hash) {
	listed := m.block.Transactions
	if len(listed) == 0 {
		return
	}
	sync := stateSyncHash(number, block)
	if last := listed[len(listed)-1].Hash; last == nil || *last != sync {
		return
	}
	m.block.Transactions = listed[:len(listed)-1]
	kept := m.receipts[:0:0]
	for _, r := range m.receipts {
		if r.TransactionHash == nil || *r.TransactionHash != sync {
			kept = append(kept, r)
		}
	}
	m.receipts = kept
}

// sortReceipts puts the receipts into the order of the transactions: nodes are
// known to shuffle and to leave some out.
func (m *material) sortReceipts() error {
	count := uint64(len(m.block.Transactions))
	if uint64(len(m.receipts)) != count {
		return fmt.Errorf("%d receipts for %d transactions: %w", len(m.receipts), count, chain.ErrInconsistent)
	}
	sorted := make([]rpcReceipt, count)
	for _, r := range m.receipts {
		i, ok := r.TransactionIndex.uint64()
		if !ok || i >= count || sorted[i].TransactionHash != nil || r.TransactionHash == nil {
			return fmt.Errorf("receipts do not match the transactions: %w", chain.ErrInconsistent)
		}
		sorted[i] = r
	}
	m.receipts = sorted
	return nil
}

// proveTransactions recomputes every transaction's hash and the root over all.
func (b *provenBlock) proveTransactions(m *material) error {
	values := make([][]byte, len(m.block.Transactions))
	hasher := crypto.NewKeccakState()
	for i := range m.block.Transactions {
		t := &m.block.Transactions[i]
		if !m.block.holds(t.BlockHash, t.BlockNumber, t.TransactionIndex, i) || t.Hash == nil {
			return fmt.Errorf("transaction %d is not of this block: %w", i, chain.ErrInconsistent)
		}
		value, err := m.encoded(i)
		if err != nil {
			return fmt.Errorf("transaction %d: %w", i, err)
		}
		if crypto.HashData(hasher, value) != *t.Hash {
			return fmt.Errorf("hash of transaction %d: %w", i, chain.ErrIntegrity)
		}
		if err := t.ofChain(b.chainID); err != nil {
			return fmt.Errorf("transaction %d: %w", i, err)
		}
		values[i], b.index[*t.Hash] = value, uint64(i)
	}
	b.transactions = newBlockTrie(values)
	if b.transactions.root != *m.block.TransactionsRoot {
		return fmt.Errorf("transactionsRoot: %w", chain.ErrIntegrity)
	}
	return nil
}

// ofChain refuses a transaction that was signed for another chain.
func (t *rpcTransaction) ofChain(chainID uint64) error {
	kind, err := t.kind()
	if err != nil {
		return err
	}
	if !known(kind) {
		return nil // it is not read
	}
	if signed := t.signedChainID(kind); len(signed) > 0 && !signed.is(chainID) {
		return fmt.Errorf("signed for another chain: %w", chain.ErrWrongChain)
	}
	return nil
}

// holds tells whether a transaction or receipt says that it is the i-th of this
// block.
func (b *rpcBlock) holds(block *common.Hash, number, index quantity, i int) bool {
	want, _ := b.Number.uint64()
	return block != nil && *block == *b.Hash && number.is(want) && index.is(uint64(i))
}

// proveReceipts checks that every receipt belongs to its transaction and
// rebuilds the root over all.
func (b *provenBlock) proveReceipts(m *material) error {
	values := make([][]byte, len(m.receipts))
	for i := range m.receipts {
		r, t := &m.receipts[i], &m.block.Transactions[i]
		if !m.block.holds(r.BlockHash, r.BlockNumber, r.TransactionIndex, i) || *r.TransactionHash != *t.Hash {
			return fmt.Errorf("receipt %d is not of this block: %w", i, chain.ErrInconsistent)
		}
		kind, err := t.kind()
		if err != nil {
			return err
		}
		if r.Type != nil && !r.Type.is(uint64(kind)) {
			return fmt.Errorf("receipt %d has another type than its transaction: %w", i, chain.ErrInconsistent)
		}
		if values[i], err = m.encodedReceipt(i, kind); err != nil {
			return fmt.Errorf("receipt %d: %w", i, err)
		}
	}
	b.receipts = newBlockTrie(values)
	if b.receipts.root != *m.block.ReceiptsRoot {
		return errReceiptsRoot
	}
	return nil
}
