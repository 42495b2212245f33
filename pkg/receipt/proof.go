package receipt

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/pforte/pforte/pkg/receipt/internal/evm"
	"github.com/pforte/pforte/pkg/receipt/internal/rlp"
)

// Proof is the portable Merkle bundle. With it anyone can check, without
// trusting its author, that the transaction and its receipt belong to the
// block with the receipt's block hash.
type Proof struct {
	// HeaderRLP is the block header; its Keccak-256 is the block hash.
	HeaderRLP Hex `json:"headerRlp"`
	// Index is the transaction's place in the block, a decimal string; its RLP is
	// the key in both tries.
	Index string `json:"index"`
	// Transaction holds the trie nodes from transactionsRoot down to the transaction;
	// nodes below 32 bytes are inside their parent and not listed.
	Transaction []Hex `json:"transaction"`
	// Receipt holds the trie nodes from receiptsRoot down to the transaction's receipt, likewise.
	Receipt []Hex `json:"receipt"`
}

// Hex is bytes that are 0x and lower-case hexadecimal digits in JSON.
type Hex []byte

// String returns 0x and lower-case hexadecimal digits.
func (h Hex) String() string { return "0x" + hex.EncodeToString(h) }

// MarshalText returns 0x and lower-case hexadecimal digits.
func (h Hex) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText reads what MarshalText returns, and nothing else. ErrMalformed.
func (h *Hex) UnmarshalText(text []byte) error {
	digits, ok := strings.CutPrefix(string(text), "0x")
	data, err := hex.DecodeString(digits)
	if !ok || err != nil || Hex(data).String() != string(text) {
		return malformed("bytes are not 0x and lower-case hexadecimal digits")
	}
	*h = data
	return nil
}

// Fact is one member of a receipt, or one of its checks, and how it is known.
type Fact struct {
	Field string `json:"field"` // path in the receipt, such as transaction.from; checks.NAME of a check
	Value string `json:"value"` // "null" where there is none
	How   string `json:"how"`   // in plain words
}

// How a fact is known.
const (
	howHeader      = "in the block's header"
	howHeaderHash  = "hash of the block's header"
	howTransaction = "in the transaction under transactionsRoot"
	howHash        = "hash of the transaction under transactionsRoot"
	howOutcome     = "in its receipt under receiptsRoot"
	howExpectation = "the proven facts are as expected"

	howSigner = "stated by the signer"
)

// facts lists the facts and the checks of a receipt, each as stated by the signer. Type,
// Version, Verdict and Finality.Met are fixed, and Request is the question: none is a fact.
func facts(r Receipt) []Fact {
	list := []Fact{{"chain.id", r.Chain.ID, howSigner}, {"chain.name", r.Chain.Name, howSigner}}
	for _, m := range r.members() {
		list = append(list, Fact{m.field, m.value, howSigner})
	}
	list = append(list, Fact{"finality.tag", r.Finality.Tag, howSigner + ": the chain calls this block finalized"})
	for _, check := range r.Checks {
		how := howSigner
		switch check.Name {
		case CheckCanonicalBlock:
			how += ": this block is the canonical one at its height"
		case CheckMinConfirmations:
			how += ": this block has as many confirmations as expected"
		}
		list = append(list, Fact{"checks." + check.Name, check.Result, how})
	}
	return list
}

// Attested lists the facts and checks of a receipt that are not in proven: only the
// signature stands for them. When proven is empty, these are all.
func Attested(r Receipt, proven []Fact) []Fact {
	return slices.DeleteFunc(facts(r), func(fact Fact) bool {
		return slices.ContainsFunc(proven, func(known Fact) bool { return known.Field == fact.Field })
	})
}

// VerifyProof checks that the header of proof hashes to the block hash of r, that its roots
// hold the transaction and its receipt at the index, and that these agree with r. It does not
// compare the expectations of r with its facts; Parse and Sign do. It returns the facts and
// checks that are proven, and the transaction's logs. Every error is ErrProof.
func VerifyProof(r Receipt, proof Proof) ([]Fact, []Log, error) {
	e, err := follow(proof)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrProof, err)
	}
	claimed := map[string]string{}
	for _, fact := range facts(r) {
		claimed[fact.Field] = fact.Value
	}
	var faults []error
	proven, events := e.facts(), logs(e.receipt.Logs)
	if r.hasTransfer() {
		transfer, err := e.transfer(r, events)
		if err != nil {
			faults = append(faults, err)
		}
		proven = append(proven, transfer...)
	}
	proven = append(proven, e.checks(r.Checks)...)
	for _, fact := range proven {
		if claimed[fact.Field] != fact.Value {
			faults = append(faults, fmt.Errorf("%s is %s, the receipt says %s", fact.Field, fact.Value,
				claimed[fact.Field]))
		}
	}
	for _, check := range r.Checks {
		if check.Name == CheckSender && check.Method != e.senderMethod() {
			faults = append(faults, fmt.Errorf("the sender is known by %s, the receipt says %s", e.senderMethod(),
				check.Method))
		}
	}
	if len(faults) > 0 {
		return nil, nil, fmt.Errorf("%w: %w", ErrProof, errors.Join(faults...))
	}
	return proven, events, nil
}

// evidence is what a proof leads to.
type evidence struct {
	header      evm.Header
	index       uint64
	transaction evm.Transaction
	receipt     evm.TxReceipt
}

// follow returns what the proof leads to, from the header through both tries.
func follow(proof Proof) (e evidence, err error) {
	if e.index, err = strconv.ParseUint(proof.Index, 10, 64); err != nil || decimal(e.index) != proof.Index {
		return e, errors.New("index is not a decimal number")
	}
	if e.header, err = evm.DecodeHeader(proof.HeaderRLP); err != nil {
		return e, err
	}
	key := rlp.AppendUint(nil, e.index)
	raw, err := evm.VerifyTrie(e.header.TransactionsRoot, key, proof.Transaction)
	if err != nil {
		return e, fmt.Errorf("transaction: %w", err)
	}
	if e.transaction, err = evm.DecodeTransaction(raw); err != nil {
		return e, err
	}
	if raw, err = evm.VerifyTrie(e.header.ReceiptsRoot, key, proof.Receipt); err != nil {
		return e, fmt.Errorf("transaction receipt: %w", err)
	}
	if e.receipt, err = evm.DecodeReceipt(raw); err != nil {
		return e, err
	}
	if e.receipt.Type != e.transaction.Type {
		return e, errors.New("transaction and receipt are of different types")
	}
	return e, nil
}

func (e evidence) facts() []Fact {
	h, tx := e.header, e.transaction
	list := []Fact{
		{"block.hash", hexText(h.Hash[:]), howHeaderHash},
		{"block.parentHash", hexText(h.ParentHash[:]), howHeader},
		{"block.number", decimal(h.Number), howHeader},
		{"block.timestamp", decimal(h.Timestamp), howHeader},
		{"block.transactionsRoot", hexText(h.TransactionsRoot[:]), howHeader},
		{"block.receiptsRoot", hexText(h.ReceiptsRoot[:]), howHeader},
		{"transaction.index", decimal(e.index), "its key under transactionsRoot"},
		{"transaction.hash", hexText(tx.Hash[:]), howHash},
		{"transaction.type", typeText(tx.Type), howTransaction},
	}
	if tx.ChainID != nil {
		list = append(list, Fact{"chain.id", "eip155:" + tx.ChainID.String(), howTransaction})
	}
	sender := "in what the transaction's hash covers, or fixed by its type"
	if tx.Signed {
		sender = "recovered from the transaction's signature"
	}
	to, selector, nonce, status := "null", "null", "null", "null"
	if tx.To != nil {
		to = hexText(tx.To[:])
	}
	if tx.Selector != nil {
		selector = hexText(tx.Selector[:])
	}
	howNonce := howTransaction
	if n := e.nonce(); n != nil {
		nonce = decimal(*n)
		if n == e.receipt.DepositNonce {
			howNonce = howOutcome
		}
	}
	address, howAddress := e.contractAddress()
	if success := e.receipt.Success; success != nil {
		status = StatusReverted
		if *success {
			status = StatusSuccess
		}
	}
	gas := decimal(e.receipt.CumulativeGas)
	list = append(list,
		Fact{"transaction.from", hexText(tx.From[:]), sender},
		Fact{"transaction.to", to, howTransaction},
		Fact{"transaction.selector", selector, howTransaction},
		Fact{"transaction.valueWei", tx.Value.String(), howTransaction},
		Fact{"transaction.nonce", nonce, howNonce},
		Fact{"transaction.contractAddress", address, howAddress},
		Fact{"outcome.status", status, howOutcome},
		Fact{"outcome.cumulativeGasUsed", gas, howOutcome},
		Fact{"outcome.logs", strconv.Itoa(len(e.receipt.Logs)), howOutcome},
	)
	if e.index == 0 {
		list = append(list, Fact{"outcome.gasUsed", gas, "cumulative gas of the block's first transaction"})
	}
	return list
}

// checks lists those of the checks made that the proof confirms. An expectation was compared with
// the receipt's facts by Parse or Sign, and VerifyProof compares these facts with the proof.
func (e evidence) checks(made []Check) []Fact {
	how := map[string]string{
		CheckTransactionHash: howHash, CheckSender: "by " + e.senderMethod(), CheckHeaderHash: howHeaderHash,
		CheckTransactionsRoot: howTransaction, CheckReceiptsRoot: howOutcome,
		CheckStatus: howExpectation, CheckFrom: howExpectation, CheckTo: howExpectation, CheckSelector: howExpectation,
		CheckTransfer: howExpectation, CheckAuthorization: howExpectation,
	}
	var list []Fact
	for _, check := range made {
		if how[check.Name] != "" {
			list = append(list, Fact{"checks." + check.Name, Pass, how[check.Name]})
		}
	}
	return list
}

func (e evidence) senderMethod() string {
	if e.transaction.Signed {
		return MethodSecp256k1
	}
	return MethodPreimage
}

// nonce returns the nonce; nil where neither the transaction nor its receipt commits to one.
func (e evidence) nonce() *uint64 { return cmp.Or(e.transaction.Nonce, e.receipt.DepositNonce) }

// contractAddress returns the address of the contract that a successful creation made, if it
// follows from proven facts, else "null", and Fact.How for it.
func (e evidence) contractAddress() (address, how string) {
	tx, nonce := e.transaction, e.nonce()
	if tx.To != nil || nonce == nil || !tx.AccountNonce || e.receipt.Success == nil || !*e.receipt.Success {
		return "null", "no contract whose address follows from proven facts"
	}
	made := evm.ContractAddress(tx.From, *nonce)
	return hexText(made[:]), "hash of the proven sender and nonce"
}

func hexText(b []byte) string { return Hex(b).String() }

// Log is an event of the transaction, as its proven receipt holds it.
type Log struct {
	Address string   `json:"address"` // the contract that wrote it
	Topics  []string `json:"topics"`
	Data    Hex      `json:"data"`
}

// Transfer is a token movement as the token's own contract logged it (ERC-20).
// It is worth what that contract is worth: everyone can write a token that logs
// what it likes, so compare Token with the address that you trust.
type Transfer struct {
	Token string `json:"token"`
	From  string `json:"from"`
	To    string `json:"to"`
	Value string `json:"value"` // atomic units, decimal
}

// transferTopic is the Keccak-256 of Transfer(address,address,uint256).
const transferTopic = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"

// Transfer returns the log as an ERC-20 transfer, and reports whether it is one. (ERC-721
// has the same event with the token's number as a fourth topic, and is none.)
func (l Log) Transfer() (Transfer, bool) {
	if len(l.Topics) != 3 || l.Topics[0] != transferTopic || len(l.Data) != 32 {
		return Transfer{}, false
	}
	from, ok := strings.CutPrefix(l.Topics[1], paddedAddress)
	to, also := strings.CutPrefix(l.Topics[2], paddedAddress)
	if !ok || !also || len(from) != 40 || len(to) != 40 {
		return Transfer{}, false
	}
	return Transfer{Token: l.Address, From: "0x" + from, To: "0x" + to, Value: new(big.Int).SetBytes(l.Data).String()},
		true
}

// paddedAddress is what a topic of 32 bytes that holds an address begins with.
const paddedAddress = "0x000000000000000000000000"

func logs(in []evm.Log) []Log {
	out := make([]Log, len(in))
	for i, log := range in {
		out[i] = Log{Address: hexText(log.Address[:]), Topics: make([]string, len(log.Topics)), Data: log.Data}
		for j, topic := range log.Topics {
			out[i].Topics[j] = hexText(topic[:])
		}
	}
	return out
}
