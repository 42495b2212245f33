package ethrpc

import (
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// provenBlock is a block whose hash was recomputed from its header and whose
// roots were rebuilt from all its transactions and receipts. It never changes.
type provenBlock struct {
	chainID      uint64
	identity     chain.Block
	header       []byte // RLP
	entries      []provenEntry
	index        map[common.Hash]uint64
	transactions *blockTrie
	receipts     *blockTrie
}

// provenEntry holds the facts of one transaction and its receipt. Whoever signed
// it is recovered when somebody asks for it: recovering all would cost more
// than all hashing together, and a transaction's hash binds its sender already.
type provenEntry struct {
	transaction chain.Transaction // From only where signed is nil
	signed      *signing
	outcome     chain.Outcome
	opaque      bool // its type is not known: it is proven, but not read
}

// keepFacts reads the facts out of what was proven.
func (b *provenBlock) keepFacts(m *material) error {
	b.entries = make([]provenEntry, len(m.block.Transactions))
	before := uint64(0)
	for i := range b.entries {
		t, r := &m.block.Transactions[i], &m.receipts[i]
		cumulative, ok := r.CumulativeGasUsed.uint64()
		if !ok || cumulative < before {
			return fmt.Errorf("cumulative gas of receipt %d: %w", i, chain.ErrIntegrity)
		}
		// What is signed as gasUsed is this difference. A fork may give the two
		// another relation, as drafts of EIP-7778 did: then nothing is signed.
		if r.GasUsed != nil && !r.GasUsed.is(cumulative-before) {
			return fmt.Errorf("gas used by transaction %d is not the difference of the cumulative gas: %w", i, chain.ErrInconsistent)
		}
		kind, err := t.kind()
		if err != nil {
			return err
		}
		entry := &b.entries[i]
		if entry.opaque = !known(kind); !entry.opaque {
			entry.transaction, entry.signed = t.facts(kind, r)
		}
		entry.transaction.Hash, entry.transaction.Index = chain.Hash(*t.Hash), uint64(i)
		entry.outcome = chain.Outcome{
			Status: r.status(), GasUsed: cumulative - before, CumulativeGasUsed: cumulative, Logs: len(r.Logs),
		}
		before = cumulative
	}
	return nil
}

// snapshot gives all that is known of the transaction at index; it recovers the
// sender.
func (b *provenBlock) snapshot(index uint64) (chain.Snapshot, error) {
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

// memory is about how many bytes the block holds on to.
func (b *provenBlock) memory() int64 {
	const (
		perEntry = 600 // facts, signature, index
		perNode  = 64  // map entry, slice header
	)
	nodes := len(b.transactions.nodes) + len(b.receipts.nodes)
	return int64(len(b.header) + b.transactions.size + b.receipts.size + perNode*nodes + perEntry*len(b.entries) + 1024)
}
