package receipttest

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/internal/rlp"
)

// Block is a recorded block with everything encoded as consensus has it.
type Block struct {
	Name         string
	ChainID      string // CAIP-2, such as eip155:8453
	ChainName    string
	Hash         string // as recorded
	Header       []byte
	Transactions Trie
	Receipts     Trie
	// RawTransactions and RawReceipts are the values of the tries.
	RawTransactions, RawReceipts [][]byte

	block    object
	txs      []object
	receipts []object
}

// chains names the chains of the recorded blocks by the beginning of their names.
var chains = []struct{ prefix, id, name string }{
	{"base-mainnet", "eip155:8453", "base"},
	{"base-goerli", "eip155:84531", "base-goerli"},
	{"op-mainnet", "eip155:10", "optimism"},
	{"ethereum", "eip155:1", "ethereum"},
	{"arbitrum-one", "eip155:42161", "arbitrum"},
	{"polygon", "eip155:137", "polygon"},
	{"devnet", "eip155:3503995874084926", "devnet"},
}

// Load reads the recorded blocks in a folder.
func Load(t testing.TB, folder string) []Block {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.json.gz"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recorded blocks in %s (%v)", folder, err)
	}
	blocks := make([]Block, len(files))
	for i, file := range files {
		blocks[i] = LoadFile(t, file)
	}
	return blocks
}

// LoadFile reads one recorded block.
func LoadFile(t testing.TB, path string) Block {
	t.Helper()
	file, err := os.Open(path) //nolint:gosec // a test's own file
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	text, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	var recorded struct {
		Block    object   `json:"block"`
		Receipts []object `json:"receipts"`
	}
	if err := json.NewDecoder(text).Decode(&recorded); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	b := Block{Name: strings.TrimSuffix(filepath.Base(path), ".json.gz"), block: recorded.Block, receipts: recorded.Receipts}
	for _, chain := range chains {
		if strings.HasPrefix(b.Name, chain.prefix) {
			b.ChainID, b.ChainName = chain.id, chain.name
		}
	}
	b.encode()
	return b
}

func (b *Block) encode() {
	b.Hash = b.block.text("hash")
	b.Header = encodeHeader(b.block)
	for _, tx := range b.block["transactions"].([]any) {
		tx := object(tx.(map[string]any))
		if _, ok := tx["chainId"]; !ok { // some nodes leave it out
			id := number16(strings.TrimPrefix(b.ChainID, "eip155:"))
			tx["chainId"] = id
		}
		b.txs = append(b.txs, tx)
		b.RawTransactions = append(b.RawTransactions, encodeTransaction(tx))
	}
	for _, r := range b.receipts {
		b.RawReceipts = append(b.RawReceipts, encodeReceipt(r))
	}
	b.Transactions, b.Receipts = Indexed(b.RawTransactions), Indexed(b.RawReceipts)
}

// Len is the number of transactions.
func (b *Block) Len() int { return len(b.txs) }

// Type is a transaction's type, such as 0x2.
func (b *Block) Type(i int) string { return b.txs[i].text("type") }

// Find gives the place of a transaction, or fails the test.
func (b *Block) Find(t testing.TB, hash string) int {
	t.Helper()
	for i, tx := range b.txs {
		if tx.text("hash") == hash {
			return i
		}
	}
	t.Fatalf("%s has no transaction %s", b.Name, hash)
	return 0
}

// Proof makes the portable proof of a transaction.
func (b *Block) Proof(i int) receipt.Proof {
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
