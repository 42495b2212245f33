package receipt_test

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/internal/rlp"
)

// recordedBlock is a recorded block with everything encoded as consensus has it.
// Its headers, transactions, receipts and tries are encoded from JSON-RPC by the
// tests' own code (encode_test.go, trie_test.go), independent of the code that reads
// proofs; the recorded roots and hashes show whether it is right.
type recordedBlock struct {
	Name         string
	ChainID      string // CAIP-2, such as eip155:8453
	ChainName    string
	Hash         string // as recorded
	Header       []byte
	Transactions trie
	Receipts     trie
	// RawTransactions and RawReceipts are the values of the tries.
	RawTransactions, RawReceipts [][]byte

	block    object
	txs      []object
	receipts []object
}

const blocksFolder = "testdata/blocks"

// chainNames are the names in the golden vectors, by chain id.
var chainNames = map[uint64]string{8453: "base", 84531: "base-goerli", 10: "optimism", 1: "ethereum", 42161: "arbitrum", 137: "polygon"}

// allBlocks reads every recorded block that has transactions and all their
// receipts.
func allBlocks(t testing.TB) (blocks []recordedBlock) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(blocksFolder, "*.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		blocks = append(blocks, loadBlocks(t, strings.TrimSuffix(filepath.Base(file), ".json.gz"))...)
	}
	if len(blocks) < 20 {
		t.Fatalf("only %d recorded blocks in %s", len(blocks), blocksFolder)
	}
	return blocks
}

// baseBlock is Base's block 2,000,000.
func baseBlock(t testing.TB) recordedBlock {
	t.Helper()
	return loadBlocks(t, "base-mainnet-2000000")[0]
}

// loadBlocks reads the blocks of one recording, which may hold a part of a block
// only: then there are none.
func loadBlocks(t testing.TB, name string) (blocks []recordedBlock) {
	t.Helper()
	file, err := os.Open(filepath.Join(blocksFolder, name+".json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	text, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	type block struct {
		Block    object   `json:"block"`
		Receipts []object `json:"receipts"`
	}
	var recording struct {
		ChainID uint64  `json:"chainId"`
		Blocks  []block `json:"blocks"`
		block
	}
	if err := json.NewDecoder(text).Decode(&recording); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	chainName := chainNames[recording.ChainID]
	if chainName == "" {
		chainName = "devnet"
	}
	for i, recorded := range append(recording.Blocks, recording.block) {
		if len(recorded.Receipts) == 0 {
			continue
		}
		b := recordedBlock{
			Name: name, ChainID: fmt.Sprintf("eip155:%d", recording.ChainID), ChainName: chainName,
			block: recorded.Block, receipts: recorded.Receipts,
		}
		if i < len(recording.Blocks) {
			b.Name = fmt.Sprintf("%s, block %d", name, i)
		}
		b.encode(recording.ChainID)
		blocks = append(blocks, b)
	}
	return blocks
}

func (b *recordedBlock) encode(chainID uint64) {
	b.Hash = b.block.text("hash")
	b.Header = encodeHeader(b.block)
	for _, tx := range b.block["transactions"].([]any) {
		tx := object(tx.(map[string]any))
		if _, ok := tx["chainId"]; !ok { // some nodes leave it out
			tx["chainId"] = fmt.Sprintf("0x%x", chainID)
		}
		b.txs = append(b.txs, tx)
		b.RawTransactions = append(b.RawTransactions, encodeTransaction(tx))
	}
	for _, r := range b.receipts {
		b.RawReceipts = append(b.RawReceipts, encodeReceipt(r))
	}
	b.Transactions, b.Receipts = indexedTrie(b.RawTransactions), indexedTrie(b.RawReceipts)
}

// Len is the number of transactions.
func (b *recordedBlock) Len() int { return len(b.txs) }

// Type is a transaction's type, such as 0x2.
func (b *recordedBlock) Type(i int) string { return b.txs[i].text("type") }

// Find returns the place of a transaction, or fails the test.
func (b *recordedBlock) Find(t testing.TB, hash string) int {
	t.Helper()
	for i, tx := range b.txs {
		if tx.text("hash") == hash {
			return i
		}
	}
	t.Fatalf("%s has no transaction %s", b.Name, hash)
	return 0
}

// Proof returns the portable proof of a transaction.
func (b *recordedBlock) Proof(i int) receipt.Proof {
	key := rlp.AppendUint(nil, uint64(i))
	return receipt.Proof{
		HeaderRLP: b.Header, Index: decimalOf(i),
		Transaction: hexes(b.Transactions.Proof(key)), Receipt: hexes(b.Receipts.Proof(key)),
	}
}

func hexes(nodes [][]byte) []receipt.Hex {
	out := make([]receipt.Hex, len(nodes))
	for i, node := range nodes {
		out[i] = node
	}
	return out
}

// Receipt returns the receipt of a transaction from what the recording node returned,
// with these expectations.
func (b *recordedBlock) Receipt(i int, expectations receipt.Expectations) receipt.Receipt {
	tx, outcome := b.txs[i], b.receipts[i]
	method := receipt.MethodSecp256k1
	if tx.text("r") == "0x0" {
		method = receipt.MethodPreimage
	}
	return receipt.Receipt{
		Type: receipt.Type, Version: receipt.Version, Verdict: receipt.Verdict,
		Chain:       receipt.Chain{ID: b.ChainID, Name: b.ChainName},
		Request:     receipt.Request{TransactionHash: tx.text("hash"), Expectations: expectations},
		Transaction: b.transaction(i),
		Block: receipt.Block{
			Number: decimalText(b.block.text("number")), Hash: b.Hash, ParentHash: b.block.text("parentHash"),
			Timestamp:        decimalText(b.block.text("timestamp")),
			TransactionsRoot: b.block.text("transactionsRoot"), ReceiptsRoot: b.block.text("receiptsRoot"),
		},
		Outcome: receipt.Outcome{
			Status: statusOf(outcome), GasUsed: decimalText(outcome.text("gasUsed")),
			CumulativeGasUsed: decimalText(outcome.text("cumulativeGasUsed")),
			Logs:              decimalOf(len(outcome["logs"].([]any))),
		},
		Finality: receipt.Finality{Tag: receipt.TagFinalized, Met: true},
		Checks:   receipt.ChecksFor(method, expectations),
	}
}

func (b *recordedBlock) transaction(i int) receipt.Transaction {
	tx, outcome := b.txs[i], b.receipts[i]
	out := receipt.Transaction{
		Hash: tx.text("hash"), Type: tx.text("type"), Index: decimalOf(i),
		From: tx.text("from"), To: optionalText(tx, "to"), ValueWei: decimalText(tx.text("value")),
	}
	if input := tx.text("input"); out.To != nil && len(input) >= 10 {
		selector := input[:10]
		out.Selector = &selector
	}
	nonce := tx.text("nonce")
	if out.Type == "0x7e" {
		nonce = ""
		if _, canyon := outcome["depositReceiptVersion"]; canyon {
			nonce = outcome.text("depositNonce")
		}
	}
	if nonce != "" && out.Type != "0x6a" {
		n := decimalText(nonce)
		out.Nonce = &n
	}
	if s := statusOf(outcome); s != nil && *s == receipt.StatusSuccess && out.To == nil {
		out.ContractAddress = optionalText(outcome, "contractAddress")
	}
	return out
}

// expected returns the expectations that hold for a receipt, all that there can be.
func expected(r receipt.Receipt, minConfirmations int) receipt.Expectations {
	e := receipt.Expectations{From: r.Transaction.From, MinConfirmations: minConfirmations}
	if r.Outcome.Status != nil {
		e.Status = *r.Outcome.Status
	}
	if r.Transaction.To != nil {
		e.To = *r.Transaction.To
	}
	if r.Transaction.Selector != nil {
		e.Selector = *r.Transaction.Selector
	}
	return e
}

func statusOf(outcome object) *string {
	if _, ok := outcome["status"]; !ok {
		return nil
	}
	text := receipt.StatusReverted
	if outcome.text("status") == "0x1" {
		text = receipt.StatusSuccess
	}
	return &text
}

func optionalText(o object, name string) *string {
	text, ok := o[name].(string)
	if !ok {
		return nil
	}
	return &text
}

func decimalText(hexNumber string) string { return number(hexNumber).String() }

func decimalOf(n int) string { return strconv.Itoa(n) }
