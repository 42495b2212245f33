package receipt

// Receipt is the evidence about one finalized transaction: what was requested, what
// was found and how it was checked. It is what a signature covers.
//
// It holds nothing that changes with time, node or replica, so that the same
// question about the same chain has the same bytes for ever. Chain quantities
// are decimal strings, bytes are 0x and lower-case hexadecimal digits.
type Receipt struct {
	Type        string      `json:"type"`    // always Type
	Version     int         `json:"version"` // always Version
	Chain       Chain       `json:"chain"`
	Request     Request     `json:"request"`
	Transaction Transaction `json:"transaction"`
	Block       Block       `json:"block"`
	Outcome     Outcome     `json:"outcome"`
	Finality    Finality    `json:"finality"`
	Checks      []Check     `json:"checks"`  // always ChecksFor
	Verdict     string      `json:"verdict"` // always Verdict
}

// Fixed words of the format.
const (
	Type         = "chain-evidence-receipt"
	Version      = 1
	Verdict      = "verified"
	TagFinalized = "finalized"
)

// Outcomes of a transaction (contract section 2).
const (
	StatusSuccess  = "success"
	StatusReverted = "reverted"
)

// Chain names a network.
type Chain struct {
	ID   string `json:"id"`   // CAIP-2, such as eip155:8453
	Name string `json:"name"` // the name in the route, such as base
}

// Request is the question as it was judged.
type Request struct {
	TransactionHash string       `json:"transactionHash"`
	Expectations    Expectations `json:"expectations"`
}

// Expectations are the caller's. An absent one is an absent member.
type Expectations struct {
	Status           string `json:"status,omitempty"` // StatusSuccess or StatusReverted
	From             string `json:"from,omitempty"`
	To               string `json:"to,omitempty"`
	Selector         string `json:"selector,omitempty"`
	MinConfirmations int    `json:"minConfirmations,omitempty"` // 1 to MaxConfirmations
}

// MaxConfirmations is the largest minConfirmations (contract section 8).
const MaxConfirmations = 100_000

// Transaction holds the facts of the transaction.
type Transaction struct {
	Hash  string `json:"hash"`
	Type  string `json:"type"`  // EIP-2718 type without leading zeros: 0x0 is legacy
	Index string `json:"index"` // place in the block
	From  string `json:"from"`
	// To is nil for a contract creation.
	To *string `json:"to"`
	// ContractAddress is the contract that a successful creation made (CREATE:
	// the hash of sender and nonce); nil for everything else.
	ContractAddress *string `json:"contractAddress"`
	// Selector is the first four bytes of a call's input; nil for a creation and
	// for shorter input.
	Selector *string `json:"selector"`
	ValueWei string  `json:"valueWei"`
	// Nonce is nil where neither the transaction nor its receipt commits to one.
	Nonce *string `json:"nonce"`
}

// Block is the identity of the block that holds the transaction.
type Block struct {
	Number           string `json:"number"`
	Hash             string `json:"hash"`
	ParentHash       string `json:"parentHash"`
	Timestamp        string `json:"timestamp"` // seconds since 1970 (Unix time)
	TransactionsRoot string `json:"transactionsRoot"`
	ReceiptsRoot     string `json:"receiptsRoot"`
}

// Outcome holds the facts of the chain's own receipt.
type Outcome struct {
	// Status is StatusSuccess or StatusReverted; nil before the Byzantium fork,
	// when receipts had none.
	Status            *string `json:"status"`
	GasUsed           string  `json:"gasUsed"`
	CumulativeGasUsed string  `json:"cumulativeGasUsed"` // up to and with this transaction
	Logs              string  `json:"logs"`              // how many
}

// Finality is which of the chain's own tags the block has reached.
type Finality struct {
	Tag string `json:"tag"` // always TagFinalized
	Met bool   `json:"met"` // always true
}
