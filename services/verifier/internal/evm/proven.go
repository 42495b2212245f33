package evm

import (
	"fmt"
	"iter"
	"maps"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// ProvenBlock is a block whose hash was recomputed from its header and whose
// roots were rebuilt from all its transactions and receipts. It never changes.
type ProvenBlock struct {
	chainID      uint64
	identity     chain.Block
	header       []byte // RLP
	entries      []entry
	index        map[common.Hash]uint64
	transactions *blockTrie
	receipts     *blockTrie
}

// entry holds the facts of one transaction and its receipt. Whoever signed
// it is recovered when somebody asks for it: recovering all would cost more
// than all hashing together, and a transaction's hash binds its sender already.
type entry struct {
	transaction chain.Transaction // From only where signed is nil
	signed      *signing
	outcome     chain.Outcome
	opaque      bool // its type is not known: it is proven, but not read
}

// keepFacts reads the facts out of what was proven.
func (b *ProvenBlock) keepFacts(m *Material) error {
	b.entries = make([]entry, len(m.Block.Transactions))
	before := uint64(0)
	for i := range b.entries {
		t, r := &m.Block.Transactions[i], &m.Receipts[i]
		cumulative, ok := r.CumulativeGasUsed.Uint64()
		if !ok || cumulative < before {
			return fmt.Errorf("cumulative gas of receipt %d: %w", i, chain.ErrIntegrity)
		}
		// What is signed as gasUsed is this difference. A fork may give the two
		// another relation, as drafts of EIP-7778 did: then nothing is signed.
		if r.GasUsed != nil && !r.GasUsed.Is(cumulative-before) {
			return fmt.Errorf("gas used by transaction %d is not the difference of the cumulative gas: %w", i, chain.ErrInconsistent)
		}
		kind, err := t.kind()
		if err != nil {
			return err
		}
		e := &b.entries[i]
		if e.opaque = !known(kind); !e.opaque {
			e.transaction, e.signed = t.facts(kind, r)
		}
		e.transaction.Hash, e.transaction.Index = chain.Hash(*t.Hash), uint64(i)
		e.outcome = chain.Outcome{
			Status: r.status(), GasUsed: cumulative - before, CumulativeGasUsed: cumulative, Logs: len(r.Logs),
		}
		before = cumulative
	}
	return nil
}

// Snapshot gives all that is known of the transaction at index; it recovers the
// sender.
func (b *ProvenBlock) Snapshot(index uint64) (chain.Snapshot, error) {
	entry := b.entries[index]
	if entry.opaque {
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
		made := chain.Address(crypto.CreateAddress(common.Address(transaction.From), *transaction.Nonce))
		transaction.ContractAddress = &made
	}
	return chain.Snapshot{
		Transaction: transaction,
		Block:       b.identity,
		Outcome:     entry.outcome,
		Proof: chain.Proof{
			HeaderRLP: b.header, Index: index,
			Transaction: b.transactions.proof(index), Receipt: b.receipts.proof(index),
		},
	}, nil
}

// Memory is about how many bytes the block holds on to.
func (b *ProvenBlock) Memory() int64 {
	const (
		perEntry = 600 // facts, signature, index
		perNode  = 64  // map entry, slice header
	)
	nodes := len(b.transactions.nodes) + len(b.receipts.nodes)
	return int64(len(b.header) + b.transactions.size + b.receipts.size + perNode*nodes + perEntry*len(b.entries) + 1024)
}

// ChainID returns the id of the block's chain.
func (b *ProvenBlock) ChainID() uint64 { return b.chainID }

// Hash returns the block's hash.
func (b *ProvenBlock) Hash() common.Hash { return common.Hash(b.identity.Hash) }

// Index returns the place of a transaction in the block.
func (b *ProvenBlock) Index(transaction common.Hash) (uint64, bool) {
	i, ok := b.index[transaction]
	return i, ok
}

// Transactions lists the hashes of the block's transactions, in no order.
func (b *ProvenBlock) Transactions() iter.Seq[common.Hash] { return maps.Keys(b.index) }

// Matches is nil when what a node said of a transaction alone, and of its receipt,
// is what the block proves: a node that answers the two differently is not to be
// trusted.
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
