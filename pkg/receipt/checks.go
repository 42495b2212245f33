package receipt

// Check is one thing that was checked. A receipt exists only when all of them
// pass.
type Check struct {
	Name   string `json:"name"`
	Method string `json:"method"`
	Result string `json:"result"` // always Pass
}

// Pass is the only result in a receipt.
const Pass = "pass"

// Names of the checks, in their fixed order.
const (
	CheckCanonicalBlock   = "canonicalBlock"   // the block at this height, by number and by hash
	CheckTransactionHash  = "transactionHash"  // recomputed from the transaction
	CheckSender           = "sender"           // by MethodSecp256k1 or MethodPreimage
	CheckTransactionsRoot = "transactionsRoot" // rebuilt from all transactions of the block
	CheckReceiptsRoot     = "receiptsRoot"     // rebuilt from all receipts of the block
	CheckHeaderHash       = "headerHash"       // recomputed from the header
	CheckStatus           = "status"
	CheckFrom             = "from"
	CheckTo               = "to"
	CheckSelector         = "selector"
	CheckMinConfirmations = "minConfirmations"
)

// Methods of the checks.
const (
	MethodBlock     = "block"     // comparison of block identities
	MethodKeccak256 = "keccak256" // hash of the encoding
	MethodSecp256k1 = "secp256k1" // sender recovered from the signature
	// MethodPreimage is a sender that the transaction hash itself commits to, or
	// that its type fixes: deposits and other types without a signature.
	MethodPreimage    = "preimage"
	MethodMPT         = "mpt"         // root of a Merkle Patricia trie
	MethodExpectation = "expectation" // comparison with the caller's expectation
)

// ChecksFor lists the checks of a receipt: the six of the block, then one for
// each expectation. senderMethod is MethodSecp256k1 or MethodPreimage.
func ChecksFor(senderMethod string, e Expectations) []Check {
	checks := []Check{
		{CheckCanonicalBlock, MethodBlock, Pass},
		{CheckTransactionHash, MethodKeccak256, Pass},
		{CheckSender, senderMethod, Pass},
		{CheckTransactionsRoot, MethodMPT, Pass},
		{CheckReceiptsRoot, MethodMPT, Pass},
		{CheckHeaderHash, MethodKeccak256, Pass},
	}
	for _, expectation := range []struct {
		name  string
		given bool
	}{
		{CheckStatus, e.Status != ""},
		{CheckFrom, e.From != ""},
		{CheckTo, e.To != ""},
		{CheckSelector, e.Selector != ""},
		{CheckMinConfirmations, e.MinConfirmations != 0},
	} {
		if expectation.given {
			checks = append(checks, Check{expectation.name, MethodExpectation, Pass})
		}
	}
	return checks
}
