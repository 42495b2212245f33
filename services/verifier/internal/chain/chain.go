package chain

import (
	"math/big"
	"time"
)

// Identity names a chain.
type Identity struct {
	Name string // the name in the route, such as "base"
	ID   uint64 // EIP-155 chain id, such as 8453
}

// Snapshot is all that is known of one transaction at one moment. All of it but Chain
// and Heads is proven from the block's hash and never changes. Heads is how far the
// chain was at that moment, so that no evaluation mixes two reads.
type Snapshot struct {
	Chain       Identity
	Transaction Transaction
	Block       Block
	Outcome     Outcome
	Proof       Proof
	Heads       Heads
}

// SenderMethod is how the sender of a transaction is known.
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
	// ContractAddress is the contract that a successful creation created; nil
	// otherwise, and where the nonce it derives from is not proven.
	ContractAddress *Address
	Selector        *Selector // nil where no function is called, as by a creation or with input below 4 bytes
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

// The outcomes. A receipt of before the Byzantium fork has a state root in place of a
// status; its status is StatusUnknown, which must never be taken for reverted.
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
	// Events decodes the logs, in their order, from the receipt's bytes in the Proof.
	Events func() ([]Event, error)
}

// Event is a log that a contract wrote.
type Event struct {
	Address Address
	Topics  []Hash
	Data    []byte
}

// Proof is the portable Merkle bundle: with it everyone can check that the
// transaction and its receipt belong to the block with the hash of HeaderRLP.
type Proof struct {
	HeaderRLP   []byte
	Index       uint64
	Transaction [][]byte // trie nodes from transactionsRoot down
	Receipt     [][]byte // trie nodes from receiptsRoot down
}

// Heads is how far a chain is by what its nodes reported last. A node may be a few
// blocks behind that when it is asked again.
type Heads struct {
	Latest    uint64
	Finalized uint64
	// BlockTime is an estimate, for the time after which to retry; 0 = unknown.
	BlockTime time.Duration
}

// Confirmations counts the blocks from number up to the latest, both included;
// 0 when the chain is not as far.
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

// Stage is how far a transaction is on a chain.
type Stage string

// The stages, in their order.
const (
	// Unknown is the stage of a transaction that no node which answered knows.
	Unknown  Stage = "unknown"
	Pending  Stage = "pending"
	Included Stage = "included"
	Final    Stage = "final"
)

// Progress is how far a transaction is. That a block holds it may be the word of one node, so that a Progress
// is a hint before a purchase, and no evidence.
type Progress struct {
	Stage Stage
	// Block is the number of the block that holds the transaction, once it is included.
	Block uint64
	// FinalIn estimates how long an included transaction takes to be final.
	FinalIn time.Duration
}
