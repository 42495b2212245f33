package receipt

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Why a receipt or a key is not accepted; compare with errors.Is.
var (
	// ErrMalformed is a document that the format does not allow, or a receipt of another kind than is asked for.
	ErrMalformed = errors.New("malformed")
	// ErrUnknownKey is a signature by a key that the key document does not list, or by
	// another key than the one that it is checked against.
	ErrUnknownKey = errors.New("unknown key")
	// ErrRevokedKey is a key that its owner has withdrawn, or a signature by it.
	ErrRevokedKey = errors.New("revoked key")
	// ErrSignature is a signature that does not match the receipt.
	ErrSignature = errors.New("signature does not match")
	// ErrProof is a proof that does not lead to the receipt's block hash, or a
	// receipt that differs from its proof.
	ErrProof = errors.New("proof does not hold")
)

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

// Receipt is the evidence about one finalized transaction: what was requested, what
// was found and how it was checked. It is what a signature covers. A receipt of type
// TransferType is a transfer receipt.
type Receipt struct {
	Type        string      `json:"type"`    // Type, or TransferType
	Version     int         `json:"version"` // Version, or TransferVersion
	Chain       Chain       `json:"chain"`
	Request     Request     `json:"request"`
	Transaction Transaction `json:"transaction"`
	Block       Block       `json:"block"`
	Outcome     Outcome     `json:"outcome"`
	Finality    Finality    `json:"finality"`
	Checks      []Check     `json:"checks"`  // ChecksFor, or ChecksForTransfer
	Verdict     string      `json:"verdict"` // always Verdict
	// Transfer is the transfer that Request.Transfer asks for. Only a transfer receipt has
	// it; in others it is nil.
	Transfer *ProvenTransfer `json:"transfer,omitempty"`
}

// Fixed values of the format. Type and Version are those of the first kind of receipt.
const (
	Type         = "chain-evidence-receipt"
	Version      = 1
	Verdict      = "verified"
	TagFinalized = "finalized"
)

// Outcomes of a transaction.
const (
	StatusSuccess  = "success"
	StatusReverted = "reverted"
)

// Chain names a network.
type Chain struct {
	ID   string `json:"id"`   // CAIP-2, such as eip155:8453
	Name string `json:"name"` // the verifier's name for it, such as base
}

// Request is what was asked: the transaction, and what was expected of it.
type Request struct {
	TransactionHash string       `json:"transactionHash"`
	Expectations    Expectations `json:"expectations"`
	// Transfer is what a transfer receipt was asked for; nil in others. The Expectations of
	// a transfer receipt hold at most MinConfirmations.
	Transfer *ExpectedTransfer `json:"transfer,omitempty"`
}

// Expectations are what the one who asked expects of the transaction. A field that is ""
// or 0 is not expected, and is not in the JSON.
type Expectations struct {
	Status           string `json:"status,omitempty"` // StatusSuccess or StatusReverted
	From             string `json:"from,omitempty"`
	To               string `json:"to,omitempty"`
	Selector         string `json:"selector,omitempty"`
	MinConfirmations int    `json:"minConfirmations,omitempty"` // 1 to MaxConfirmations
}

// MaxConfirmations is the largest minConfirmations (VERIFIER-2.3).
const MaxConfirmations = 100_000

// Transaction holds the facts of the transaction.
type Transaction struct {
	Hash  string `json:"hash"`
	Type  string `json:"type"`  // EIP-2718 type without leading zeros: 0x0 is legacy
	Index string `json:"index"` // place in the block, from 0
	From  string `json:"from"`
	// To is nil for a contract creation.
	To *string `json:"to"`
	// ContractAddress is the contract that a successful creation made, as the hash of
	// sender and nonce; nil for everything else, and where the nonce is not known or does
	// not count the sender's transactions.
	ContractAddress *string `json:"contractAddress"`
	// Selector is the first four bytes of a call's input; nil for a creation, for
	// shorter input and for an Arbitrum deposit.
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

// Date returns the block's time for people, in UTC (RFC 3339). A Timestamp that is no time
// from 1970 to 9999 is returned as it is.
func (b Block) Date() string {
	seconds, err := strconv.ParseInt(b.Timestamp, 10, 64)
	if err != nil || seconds < 0 || seconds >= 253402300800 { // the year 10000
		return b.Timestamp
	}
	return time.Unix(seconds, 0).UTC().Format(time.RFC3339)
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

// Check is one thing that was checked. A receipt exists only when all of them
// pass.
type Check struct {
	Name   string `json:"name"`
	Method string `json:"method"`
	Result string `json:"result"` // always Pass
}

// Pass is the only result in a receipt.
const Pass = "pass"

// Names of the checks, in the order of ChecksFor.
const (
	CheckCanonicalBlock   = "canonicalBlock"   // the block is the chain's at its height
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

// ChecksFor returns the checks of a receipt of the first kind: six that every receipt has,
// then one for each expectation. senderMethod is MethodSecp256k1 or MethodPreimage.
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

// maxName bounds the name of a chain in bytes.
const maxName = 64

// validate returns an error unless each member has its one spelling or its fixed value; a transfer receipt has
// Transfer and Request.Transfer, and no other receipt has either; request.transactionHash is transaction.hash;
// checksInOrder is true; and consistent, expectationsHold and, for a transfer receipt, transferHolds return none.
func (r Receipt) validate() error {
	for _, fault := range []struct {
		what string
		ok   bool
	}{
		{"type", r.payloadType() != ""},
		{"transfer", (r.Transfer != nil) == r.hasTransfer()},
		{"request.transfer", (r.Request.Transfer != nil) == r.hasTransfer()},
		{"verdict", r.Verdict == Verdict},
		{"chain.id", chainID(r.Chain.ID)},
		{"chain.name", chainName(r.Chain.Name)},
		{"finality", r.Finality == Finality{Tag: TagFinalized, Met: true}},
		{"checks", r.checksInOrder()},
		{"request.transactionHash", r.Request.TransactionHash == r.Transaction.Hash},
	} {
		if !fault.ok {
			return malformed("%s is not as the format has it", fault.what)
		}
	}
	for _, m := range r.members() {
		if !m.ok {
			return malformed("%s is not in its one spelling", m.field)
		}
	}
	if err := r.consistent(); err != nil {
		return err
	}
	if r.hasTransfer() {
		if err := r.transferHolds(); err != nil {
			return err
		}
	}
	return r.expectationsHold()
}

// payloadType returns the payload type that belongs to the receipt's Type and Version;
// "" when there is none.
func (r Receipt) payloadType() string {
	switch {
	case r.Type == Type && r.Version == Version:
		return PayloadType
	case r.Type == TransferType && r.Version == TransferVersion:
		return TransferPayloadType
	}
	return ""
}

func (r Receipt) hasTransfer() bool { return r.Type == TransferType }

// checksInOrder reports whether the checks are those that follow from the request, in their order.
func (r Receipt) checksInOrder() bool {
	return slices.ContainsFunc([]string{MethodSecp256k1, MethodPreimage}, func(method string) bool {
		if r.Request.Transfer != nil {
			return slices.Equal(r.Checks, ChecksForTransfer(method, *r.Request.Transfer, r.Request.Expectations))
		}
		return slices.Equal(r.Checks, ChecksFor(method, r.Request.Expectations))
	})
}

// member is one JSON member of a receipt's transaction, block, outcome or transfer.
type member struct {
	field string // path in the receipt, such as transaction.from
	value string // "null" where there is none
	ok    bool   // whether it is in its one spelling
}

func (r Receipt) members() []member {
	t, b, o := r.Transaction, r.Block, r.Outcome
	return append([]member{
		{"transaction.hash", t.Hash, lowerHex(t.Hash, 32)},
		{"transaction.type", t.Type, transactionType(t.Type)},
		{"transaction.index", t.Index, quantity(t.Index, 64)},
		{"transaction.from", t.From, lowerHex(t.From, 20)},
		{"transaction.to", orNull(t.To), t.To == nil || lowerHex(*t.To, 20)},
		{"transaction.contractAddress", orNull(t.ContractAddress), t.ContractAddress == nil ||
			lowerHex(*t.ContractAddress, 20)},
		{"transaction.selector", orNull(t.Selector), t.Selector == nil || lowerHex(*t.Selector, 4)},
		{"transaction.valueWei", t.ValueWei, quantity(t.ValueWei, 256)},
		{"transaction.nonce", orNull(t.Nonce), t.Nonce == nil || quantity(*t.Nonce, 64)},
		{"block.number", b.Number, quantity(b.Number, 64)},
		{"block.hash", b.Hash, lowerHex(b.Hash, 32)},
		{"block.parentHash", b.ParentHash, lowerHex(b.ParentHash, 32)},
		{"block.timestamp", b.Timestamp, quantity(b.Timestamp, 64)},
		{"block.transactionsRoot", b.TransactionsRoot, lowerHex(b.TransactionsRoot, 32)},
		{"block.receiptsRoot", b.ReceiptsRoot, lowerHex(b.ReceiptsRoot, 32)},
		{"outcome.status", orNull(o.Status), o.Status == nil || *o.Status == StatusSuccess ||
			*o.Status == StatusReverted},
		{"outcome.gasUsed", o.GasUsed, quantity(o.GasUsed, 64)},
		{"outcome.cumulativeGasUsed", o.CumulativeGasUsed, quantity(o.CumulativeGasUsed, 64)},
		{"outcome.logs", o.Logs, quantity(o.Logs, 64)},
	}, r.Transfer.members()...)
}

// consistent returns an error where the selector, the contract address or gasUsed contradicts other facts.
func (r Receipt) consistent() error {
	t, o := r.Transaction, r.Outcome
	creation := t.To == nil
	switch {
	case creation && t.Selector != nil:
		return malformed("a contract creation has no selector")
	case t.ContractAddress != nil && (!creation || o.Status == nil || *o.Status != StatusSuccess || t.Nonce == nil):
		return malformed("only a successful creation with a nonce has a contract address")
	case more(o.GasUsed, o.CumulativeGasUsed):
		return malformed("gasUsed is above cumulativeGasUsed")
	case t.Index == "0" && o.GasUsed != o.CumulativeGasUsed:
		return malformed("the first transaction's gasUsed is not its cumulativeGasUsed")
	}
	return nil
}

// expectationsHold returns an error unless the expectations hold for the receipt's facts.
// Of minConfirmations it checks only the range, because a receipt carries no head.
func (r Receipt) expectationsHold() error {
	e := r.Request.Expectations
	for _, expectation := range []struct {
		name     string
		expected string
		found    *string
	}{
		{CheckStatus, e.Status, r.Outcome.Status},
		{CheckFrom, e.From, &r.Transaction.From},
		{CheckTo, e.To, r.Transaction.To},
		{CheckSelector, e.Selector, r.Transaction.Selector},
	} {
		if expectation.expected != "" && (expectation.found == nil || *expectation.found != expectation.expected) {
			return malformed("the expectation %s does not hold", expectation.name)
		}
	}
	if e.MinConfirmations < 0 || e.MinConfirmations > MaxConfirmations {
		return malformed("minConfirmations is not from 1 to %d", MaxConfirmations)
	}
	return nil
}

func chainID(text string) bool {
	reference, ok := strings.CutPrefix(text, "eip155:")
	return ok && quantity(reference, 64) && reference != "0"
}

func chainName(text string) bool {
	return text != "" && len(text) <= maxName && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// lowerHex reports whether text is 0x and lower-case hexadecimal digits for size bytes.
func lowerHex(text string, size int) bool {
	var data Hex
	return data.UnmarshalText([]byte(text)) == nil && len(data) == size
}

// quantity reports whether text is a decimal number without a sign or leading
// zeros that fits into so many bits.
func quantity(text string, bits int) bool {
	const most = 87 // digits of 2^288
	if len(text) > most {
		return false
	}
	n, ok := new(big.Int).SetString(text, 10)
	return ok && n.Sign() >= 0 && n.BitLen() <= bits && n.String() == text
}

// more reports whether the quantity a is greater than b.
func more(a, b string) bool {
	return len(a) > len(b) || len(a) == len(b) && a > b
}

// transactionType reports whether text is an EIP-2718 type, 0x0 to 0x7f, without
// leading zeros.
func transactionType(text string) bool {
	n, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 7)
	return err == nil && text == typeText(byte(n))
}

func typeText(kind byte) string { return "0x" + strconv.FormatUint(uint64(kind), 16) }

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

func orNull(text *string) string {
	if text == nil {
		return "null"
	}
	return *text
}

// decodeBase64 reads base64 with padding (RFC 4648 section 4) in its one spelling.
// Go's decoder ignores line ends, strict or not.
func decodeBase64(text string) (data []byte, ok bool) {
	data, err := base64.StdEncoding.Strict().DecodeString(text)
	return data, err == nil && base64.StdEncoding.EncodeToString(data) == text
}
