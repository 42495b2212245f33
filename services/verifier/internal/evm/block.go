package evm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// ReportedBlock is what a node reports of one block.
type ReportedBlock struct {
	Block
	Receipts Receipts
}

// ProvenBlock is a block whose hash was recomputed from its header and whose roots
// were rebuilt from all its transactions and receipts. It never changes.
type ProvenBlock struct {
	chainID      uint64
	identity     chain.Block
	header       []byte // RLP
	entries      []entry
	index        map[common.Hash]uint64
	transactions *blockTrie
	receipts     *blockTrie
}

// entry holds the facts of one transaction and its receipt. The sender is recovered
// when it is needed: recovering all would cost more than all hashing together, and a
// transaction's hash commits to its sender already.
type entry struct {
	transaction chain.Transaction // From only where signed is nil
	signed      *signed
	outcome     chain.Outcome
	unknownType bool // it is proven, but not read
}

// Prove rebuilds the block, and compares it with the hash and number that it must have, and the chain
// ids that its transactions are signed for with chainID. It may drop and reorder elements of r.
func (r *ReportedBlock) Prove(number uint64, hash common.Hash, chainID uint64) (*ProvenBlock, error) {
	header, err := r.ProveHeader(number, hash)
	if err != nil {
		return nil, err
	}
	r.dropStateSync(number, hash)
	if err := r.sortReceipts(); err != nil {
		return nil, err
	}
	timestamp, _ := r.Timestamp.Uint64()
	b := &ProvenBlock{
		chainID: chainID,
		identity: chain.Block{
			Number: number, Hash: chain.Hash(hash), ParentHash: chain.Hash(*r.ParentHash), Timestamp: timestamp,
			TransactionsRoot: chain.Hash(*r.TransactionsRoot), ReceiptsRoot: chain.Hash(*r.ReceiptsRoot),
		},
		header: header,
		index:  make(map[common.Hash]uint64, len(r.Transactions)),
	}
	if err := b.proveTransactions(r); err != nil {
		return nil, err
	}
	return b, b.proveReceipts(r)
}

// ProveHeader returns the header in RLP, whose Keccak-256 is the hash and which has the
// number, or an error.
func (h *Header) ProveHeader(number uint64, hash common.Hash) ([]byte, error) {
	if h.Hash == nil || !h.Number.Is(number) {
		return nil, fmt.Errorf("another block than %d was returned: %w", number, chain.ErrInconsistent)
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

// encode returns the bytes whose Keccak-256 is the block's hash: the fifteen fields
// of Ethereum's first headers and the optional ones that later forks appended. Headers that
// lack one of the fifteen (AuRa seals, some rollups) cannot be recomputed.
func (h *Header) encode() ([]byte, error) {
	fields := []any{
		h.ParentHash, h.UncleHash, h.Miner, h.StateRoot, h.TransactionsRoot, h.ReceiptsRoot, h.LogsBloom,
		h.Difficulty, h.Number, h.GasLimit, h.GasUsed, h.Timestamp, h.ExtraData, h.MixHash, h.Nonce,
	}
	isNil := func(field any) bool { return reflect.ValueOf(field).IsNil() }
	if len(h.LogsBloom) != 256 || len(h.Nonce) != 8 || slices.ContainsFunc(fields, isNil) {
		return nil, fmt.Errorf("header lacks standard fields: %w", chain.ErrHeaderUnverifiable)
	}
	optional := []any{ // by fork: London, Shanghai, Cancun (three), Prague, Amsterdam (two)
		h.BaseFeePerGas, h.WithdrawalsRoot, h.BlobGasUsed, h.ExcessBlobGas, h.ParentBeaconBlockRoot,
		h.RequestsHash, h.BlockAccessListHash, h.SlotNumber,
	}
	for len(optional) > 0 && isNil(optional[len(optional)-1]) {
		optional = optional[:len(optional)-1]
	}
	return encode(legacyType, append(fields, optional...)), nil
}

// StateSyncHash returns the hash of the transaction by which Polygon brought state over from
// Ethereum before PIP-74. RPC lists it, the roots do not hold it. Since PIP-74 they do, as type 0x7f.
func StateSyncHash(number uint64, block common.Hash) common.Hash {
	return crypto.Keccak256Hash([]byte("matic-bor-receipt-"), binary.BigEndian.AppendUint64(nil, number), block[:])
}

// dropStateSync takes Polygon's transaction with StateSyncHash out of transactions and receipts.
func (r *ReportedBlock) dropStateSync(number uint64, block common.Hash) {
	last := len(r.Transactions) - 1
	hash := StateSyncHash(number, block)
	if last < 0 || r.Transactions[last].Hash == nil || *r.Transactions[last].Hash != hash {
		return
	}
	r.Transactions = r.Transactions[:last]
	r.Receipts = slices.DeleteFunc(slices.Clone(r.Receipts), func(receipt Receipt) bool {
		return receipt.TransactionHash != nil && *receipt.TransactionHash == hash
	})
}

// sortReceipts puts the receipts into the order of the transactions: nodes are known to shuffle
// them. It is an error when nodes leave some out.
func (r *ReportedBlock) sortReceipts() error {
	count := uint64(len(r.Transactions))
	if uint64(len(r.Receipts)) != count {
		return fmt.Errorf("%d receipts for %d transactions: %w", len(r.Receipts), count, chain.ErrInconsistent)
	}
	sorted := make(Receipts, count)
	for _, receipt := range r.Receipts {
		i, ok := receipt.TransactionIndex.Uint64()
		if !ok || i >= count || sorted[i].TransactionHash != nil || receipt.TransactionHash == nil {
			return fmt.Errorf("receipts do not match the transactions: %w", chain.ErrInconsistent)
		}
		sorted[i] = receipt
	}
	r.Receipts = sorted
	return nil
}

// proveTransactions recomputes every transaction's hash and the root over all.
func (b *ProvenBlock) proveTransactions(r *ReportedBlock) error {
	values := make([][]byte, len(r.Transactions))
	hasher := crypto.NewKeccakState()
	for i := range r.Transactions {
		t := &r.Transactions[i]
		if !b.holds(t.BlockHash, t.BlockNumber, t.TransactionIndex, i) || t.Hash == nil {
			return fmt.Errorf("transaction %d is not of this block: %w", i, chain.ErrInconsistent)
		}
		value, err := t.Encode()
		if err != nil {
			return fmt.Errorf("transaction %d: %w", i, err)
		}
		if crypto.HashData(hasher, value) != *t.Hash {
			return fmt.Errorf("hash of transaction %d: %w", i, chain.ErrIntegrity)
		}
		if id := t.signedChainID(); len(id) > 0 && !id.Is(b.chainID) {
			return fmt.Errorf("transaction %d: signed for another chain: %w", i, chain.ErrWrongChain)
		}
		values[i], b.index[*t.Hash] = value, uint64(i)
	}
	b.transactions = newBlockTrie(values)
	if b.transactions.root != *r.TransactionsRoot {
		return fmt.Errorf("transactionsRoot: %w", chain.ErrIntegrity)
	}
	return nil
}

// holds reports whether a transaction or receipt is the i-th of this block by its own
// members.
func (b *ProvenBlock) holds(block *common.Hash, number, index Quantity, i int) bool {
	return block != nil && *block == b.Hash() && number.Is(b.identity.Number) && index.Is(uint64(i))
}

// proveReceipts checks that every receipt belongs to its transaction, rebuilds the
// root over all, and reads the facts out of what is proven by it.
func (b *ProvenBlock) proveReceipts(r *ReportedBlock) error {
	values := make([][]byte, len(r.Receipts))
	for i := range r.Receipts {
		receipt, t := &r.Receipts[i], &r.Transactions[i]
		if !b.holds(receipt.BlockHash, receipt.BlockNumber, receipt.TransactionIndex, i) ||
			*receipt.TransactionHash != *t.Hash {
			return fmt.Errorf("receipt %d is not of this block: %w", i, chain.ErrInconsistent)
		}
		if receipt.Type != nil && !bytes.Equal(receipt.Type, t.Type) {
			return fmt.Errorf("receipt %d has another type than its transaction: %w", i, chain.ErrInconsistent)
		}
		value, err := receipt.Encode(t.kind())
		if err != nil {
			return fmt.Errorf("receipt %d: %w", i, err)
		}
		values[i] = value
	}
	b.receipts = newBlockTrie(values)
	if b.receipts.root != *r.ReceiptsRoot {
		return ErrReceiptsRoot
	}
	b.entries = make([]entry, len(r.Transactions))
	before := uint64(0)
	for i := range b.entries {
		t, receipt := &r.Transactions[i], &r.Receipts[i]
		cumulative, ok := receipt.CumulativeGasUsed.Uint64()
		if !ok || cumulative < before {
			return fmt.Errorf("cumulative gas of receipt %d: %w", i, chain.ErrIntegrity)
		}
		// What is signed as gasUsed is this difference. A fork may define another
		// relation, as drafts of EIP-7778 did: then nothing is signed.
		if receipt.GasUsed != nil && !receipt.GasUsed.Is(cumulative-before) {
			return fmt.Errorf("gas used by transaction %d is not the difference of the cumulative gas: %w", i,
				chain.ErrInconsistent)
		}
		kind, e := t.kind(), &b.entries[i]
		if e.unknownType = !isKnown(kind); !e.unknownType {
			e.transaction, e.signed = t.facts(kind, receipt)
		}
		e.transaction.Hash, e.transaction.Index = chain.Hash(*t.Hash), uint64(i)
		e.outcome = chain.Outcome{
			Status: receipt.status(), GasUsed: cumulative - before, CumulativeGasUsed: cumulative,
			Logs: len(receipt.Logs),
		}
		before = cumulative
	}
	return nil
}

// ChainID returns the id of the block's chain.
func (b *ProvenBlock) ChainID() uint64 { return b.chainID }

// Number returns the block's number.
func (b *ProvenBlock) Number() uint64 { return b.identity.Number }

// Hash returns the block's hash.
func (b *ProvenBlock) Hash() common.Hash { return common.Hash(b.identity.Hash) }

// Index returns the place of a transaction in the block.
func (b *ProvenBlock) Index(transaction common.Hash) (index uint64, found bool) {
	index, found = b.index[transaction]
	return index, found
}

// Transactions returns the hashes of the block's transactions, in no order.
func (b *ProvenBlock) Transactions() iter.Seq[common.Hash] { return maps.Keys(b.index) }

// Memory returns about how many bytes the block holds on to.
func (b *ProvenBlock) Memory() int64 {
	const (
		perEntry = 600 // facts, signature, index
		perNode  = 64  // map entry, slice header
	)
	nodes := len(b.transactions.nodes) + len(b.receipts.nodes)
	return int64(len(b.header) + b.transactions.size + b.receipts.size + perNode*nodes + perEntry*len(b.entries) + 1024)
}

// Snapshot returns all that is known of the transaction at index, with its sender
// recovered. Chain and heads are left to the caller. chain.ErrUnsupportedType, also where no sender can be
// recovered.
func (b *ProvenBlock) Snapshot(index uint64) (chain.Snapshot, error) {
	entry := b.entries[index]
	if entry.unknownType {
		return chain.Snapshot{}, fmt.Errorf("transaction %d: %w", index, chain.ErrUnsupportedType)
	}
	transaction := entry.transaction
	if entry.signed != nil {
		from, err := entry.signed.sender()
		if err != nil {
			return chain.Snapshot{}, err
		}
		transaction.From = from
	}
	// An Arbitrum retry's nonce counts its ticket's retries: no address follows from it.
	creation := transaction.To == nil && transaction.Nonce != nil && transaction.Type != arbRetryType
	if creation && entry.outcome.Status == chain.StatusSuccess {
		created := chain.Address(crypto.CreateAddress(common.Address(transaction.From), *transaction.Nonce))
		transaction.ContractAddress = &created
	}
	proof := chain.Proof{
		HeaderRLP: b.header, Index: index,
		Transaction: b.transactions.proof(index), Receipt: b.receipts.proof(index),
	}
	outcome := entry.outcome
	outcome.Events = func() ([]chain.Event, error) { return events(proof.Receipt[len(proof.Receipt)-1]) }
	return chain.Snapshot{Transaction: transaction, Block: b.identity, Outcome: outcome, Proof: proof}, nil
}

// Matches returns nil when what a node reported of a transaction alone (place, sender) and of its receipt
// (status, cumulative gas, number of logs) is what the block proves. chain.ErrUnsupportedType: the transaction cannot
// be read, or is one of Polygon's with StateSyncHash. After any other error the node is not trusted.
func (b *ProvenBlock) Matches(t *Transaction, r *Receipt) error {
	index, ok := b.index[*t.Hash]
	if !ok {
		if *t.Hash == StateSyncHash(b.identity.Number, b.Hash()) {
			return fmt.Errorf("state-sync transaction: %w", chain.ErrUnsupportedType)
		}
		return fmt.Errorf("transaction is not in its block: %w", chain.ErrInconsistent)
	}
	outcome := b.entries[index].outcome
	if !t.TransactionIndex.Is(index) || r.status() != outcome.Status ||
		!r.CumulativeGasUsed.Is(outcome.CumulativeGasUsed) || len(r.Logs) != outcome.Logs {
		return fmt.Errorf("receipt alone and in its block differ: %w", chain.ErrInconsistent)
	}
	snapshot, err := b.Snapshot(index)
	if err != nil {
		return err
	}
	if t.From == nil || chain.Address(*t.From) != snapshot.Transaction.From {
		return fmt.Errorf("sender: %w", chain.ErrIntegrity)
	}
	return nil
}
