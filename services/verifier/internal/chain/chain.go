package chain

import (
	"context"
	"math/big"
	"time"
)

// Identity names a chain.
type Identity struct {
	Name string // the word in the route, such as "base"
	ID   uint64 // EIP-155 chain id, such as 8453
}

// Snapshot is all we know of one transaction at one moment. Everything in it but
// Heads is proven from the block's own roots and never changes; Heads says how
// far the chain had come at that moment, so that no judgement mixes two reads.
type Snapshot struct {
	Chain       Identity
	Transaction Transaction
	Block       Block
	Outcome     Outcome
	Proof       Proof
	Heads       Heads
}

// SenderMethod says how the sender of a transaction is known.
type SenderMethod string

const (
	// SenderRecovered is a sender recovered from the secp256k1 signature.
	SenderRecovered SenderMethod = "secp256k1"
	// SenderInPreimage is a sender that the transaction hash itself commits to:
	// deposits and other types without a signature.
	SenderInPreimage SenderMethod = "preimage"
)

// Transaction holds the proven facts of a transaction.
type Transaction struct {
	Hash         Hash
	Type         byte // EIP-2718 type; 0 for legacy
	Index        uint64
	From         Address
	SenderMethod SenderMethod
	To           *Address // nil for a contract creation
	// ContractAddress is the contract that a successful creation made; nil
	// otherwise, and where the nonce it derives from is not proven.
	ContractAddress *Address
	Selector        *Selector // nil for a creation and for input below 4 bytes
	Value           *big.Int  // wei
	// Nonce is nil where the type has none that its hash or its receipt commits to.
	Nonce *uint64
}

// Block is the identity of the block that holds the transaction.
type Block struct {
	Number           uint64
	Hash             Hash
	ParentHash       Hash
	Timestamp        uint64 // Unix seconds
	TransactionsRoot Hash
	ReceiptsRoot     Hash
}

// Status is how the execution of a transaction ended.
type Status string

// The outcomes. Before the Byzantium fork receipts carry a state root instead of
// a status: StatusUnknown is never to be read as reverted.
const (
	StatusUnknown  Status = ""
	StatusSuccess  Status = "success"
	StatusReverted Status = "reverted"
)

// Outcome holds the proven facts of the transaction's own receipt.
type Outcome struct {
	Status            Status
	GasUsed           uint64 // difference of two proven cumulative values
	CumulativeGasUsed uint64
	Logs              int
}

// Proof is the portable Merkle bundle: with it anyone can check that the
// transaction and its receipt belong to the block with the hash of HeaderRLP.
type Proof struct {
	HeaderRLP   []byte
	Index       uint64
	Transaction [][]byte // trie nodes from transactionsRoot down
	Receipt     [][]byte // trie nodes from receiptsRoot down
}

// Heads is how far a chain has come by what nodes said last. Asked again, another
// node behind the same address may be a few blocks behind.
type Heads struct {
	Latest    uint64
	Finalized uint64
	// BlockTime is an estimate, for telling callers when to ask again; 0 = unknown.
	BlockTime time.Duration
}

// Confirmations counts the blocks from number up to the latest, both included;
// 0 when the chain has not come as far.
func (h Heads) Confirmations(number uint64) uint64 {
	if h.Latest < number {
		return 0
	}
	return h.Latest - number + 1
}

// Wait estimates how long the chain takes to make a number of blocks: at least
// a second, at most an hour.
func (h Heads) Wait(blocks uint64) time.Duration {
	const most = time.Hour
	each := max(h.BlockTime, 50*time.Millisecond)
	if blocks > uint64(most/each) {
		return most
	}
	return max(time.Duration(blocks)*each, time.Second)
}

// Reader tells what is known of a transaction of one chain.
type Reader interface {
	// Identity names the chain.
	Identity() Identity
	// Read gives the proven snapshot of a finalized transaction. Every error
	// holds a *Fault (errors.As): also when ctx ends, ErrUpstreamUnavailable.
	Read(ctx context.Context, transaction Hash) (Snapshot, error)
	// Heads gives how far the chain has come, never older than the reader's
	// bound; ErrFinalityUnavailable when that is not known.
	Heads(ctx context.Context) (Heads, error)
}
