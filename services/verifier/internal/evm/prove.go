package evm

import (
	"encoding/binary"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// Material is what a node says of one block.
type Material struct {
	Block    Block
	Receipts Receipts

	// Of transactions that cannot be encoded, by their place in the block.
	transactionBytes, receiptBytes map[int][]byte
}

// Prove rebuilds the block and compares everything with the hash and number that
// it must have.
func Prove(m *Material, number uint64, hash common.Hash, chainID uint64) (*ProvenBlock, error) {
	header, err := proveHeader(&m.Block.Header, number, hash)
	if err != nil {
		return nil, err
	}
	m.dropStateSync(number, hash)
	if err := m.sortReceipts(); err != nil {
		return nil, err
	}
	b := &ProvenBlock{
		chainID:  chainID,
		identity: m.Block.identity(),
		header:   header,
		index:    make(map[common.Hash]uint64, len(m.Block.Transactions)),
	}
	if err := b.proveTransactions(m); err != nil {
		return nil, err
	}
	if err := b.proveReceipts(m); err != nil {
		return nil, err
	}
	return b, b.keepFacts(m)
}

func proveHeader(h *Header, number uint64, hash common.Hash) ([]byte, error) {
	if h.Hash == nil || !h.Number.Is(number) {
		return nil, fmt.Errorf("asked for block %d, got another: %w", number, chain.ErrInconsistent)
	}
	if *h.Hash != hash {
		return nil, fmt.Errorf("block %d is %v, not %v: %w", number, *h.Hash, hash, chain.ErrNotCanonical)
	}
	header, err := h.encode()
	if err != nil {
		return nil, err
	}
	if _, ok := h.Timestamp.Uint64(); !ok || crypto.Keccak256Hash(header) != hash {
		return nil, fmt.Errorf("header hash: %w", chain.ErrIntegrity)
	}
	return header, nil
}

func (h *Header) identity() chain.Block {
	number, _ := h.Number.Uint64()
	timestamp, _ := h.Timestamp.Uint64()
	return chain.Block{
		Number: number, Hash: chain.Hash(*h.Hash), ParentHash: chain.Hash(*h.ParentHash), Timestamp: timestamp,
		TransactionsRoot: chain.Hash(*h.TransactionsRoot), ReceiptsRoot: chain.Hash(*h.ReceiptsRoot),
	}
}

// StateSyncHash is the hash that Polygon gives to the transaction by which it
// brings state over from Ethereum. RPC lists it, the roots do not hold it.
func StateSyncHash(number uint64, block common.Hash) common.Hash {
	return crypto.Keccak256Hash([]byte("matic-bor-receipt-"), binary.BigEndian.AppendUint64(nil, number), block[:])
}

// dropStateSync takes Polygon's state-sync transaction out of both lists.
func (m *Material) dropStateSync(number uint64, block common.Hash) {
	listed := m.Block.Transactions
	if len(listed) == 0 {
		return
	}
	sync := StateSyncHash(number, block)
	if last := listed[len(listed)-1].Hash; last == nil || *last != sync {
		return
	}
	m.Block.Transactions = listed[:len(listed)-1]
	kept := m.Receipts[:0:0]
	for _, r := range m.Receipts {
		if r.TransactionHash == nil || *r.TransactionHash != sync {
			kept = append(kept, r)
		}
	}
	m.Receipts = kept
}

// sortReceipts puts the receipts into the order of the transactions: nodes are
// known to shuffle and to leave some out.
func (m *Material) sortReceipts() error {
	count := uint64(len(m.Block.Transactions))
	if uint64(len(m.Receipts)) != count {
		return fmt.Errorf("%d receipts for %d transactions: %w", len(m.Receipts), count, chain.ErrInconsistent)
	}
	sorted := make([]Receipt, count)
	for _, r := range m.Receipts {
		i, ok := r.TransactionIndex.Uint64()
		if !ok || i >= count || sorted[i].TransactionHash != nil || r.TransactionHash == nil {
			return fmt.Errorf("receipts do not match the transactions: %w", chain.ErrInconsistent)
		}
		sorted[i] = r
	}
	m.Receipts = sorted
	return nil
}

// proveTransactions recomputes every transaction's hash and the root over all.
func (b *ProvenBlock) proveTransactions(m *Material) error {
	values := make([][]byte, len(m.Block.Transactions))
	hasher := crypto.NewKeccakState()
	for i := range m.Block.Transactions {
		t := &m.Block.Transactions[i]
		if !m.Block.holds(t.BlockHash, t.BlockNumber, t.TransactionIndex, i) || t.Hash == nil {
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
	if b.transactions.root != *m.Block.TransactionsRoot {
		return fmt.Errorf("transactionsRoot: %w", chain.ErrIntegrity)
	}
	return nil
}

// ofChain refuses a transaction that was signed for another chain.
func (t *Transaction) ofChain(chainID uint64) error {
	kind, err := t.kind()
	if err != nil {
		return err
	}
	if !known(kind) {
		return nil // it is not read
	}
	if signed := t.signedChainID(kind); len(signed) > 0 && !signed.Is(chainID) {
		return fmt.Errorf("signed for another chain: %w", chain.ErrWrongChain)
	}
	return nil
}

// holds tells whether a transaction or receipt says that it is the i-th of this
// block.
func (b *Block) holds(block *common.Hash, number, index Quantity, i int) bool {
	want, _ := b.Number.Uint64()
	return block != nil && *block == *b.Hash && number.Is(want) && index.Is(uint64(i))
}

// proveReceipts checks that every receipt belongs to its transaction and
// rebuilds the root over all.
func (b *ProvenBlock) proveReceipts(m *Material) error {
	values := make([][]byte, len(m.Receipts))
	for i := range m.Receipts {
		r, t := &m.Receipts[i], &m.Block.Transactions[i]
		if !m.Block.holds(r.BlockHash, r.BlockNumber, r.TransactionIndex, i) || *r.TransactionHash != *t.Hash {
			return fmt.Errorf("receipt %d is not of this block: %w", i, chain.ErrInconsistent)
		}
		kind, err := t.kind()
		if err != nil {
			return err
		}
		if r.Type != nil && !r.Type.Is(uint64(kind)) {
			return fmt.Errorf("receipt %d has another type than its transaction: %w", i, chain.ErrInconsistent)
		}
		if values[i], err = m.encodedReceipt(i, kind); err != nil {
			return fmt.Errorf("receipt %d: %w", i, err)
		}
	}
	b.receipts = newBlockTrie(values)
	if b.receipts.root != *m.Block.ReceiptsRoot {
		return ErrReceiptsRoot
	}
	return nil
}
