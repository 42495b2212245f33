package recorded

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Recording is what a file holds: one block or several of one chain.
type Recording struct {
	ChainID uint64  `json:"chainId"`
	Blocks  []Block `json:"blocks"`

	// A file with a single block has it beside the chain id.
	Block
}

// Block is a block with all its transactions and their receipts, as a node reported
// them. Receipts is nil where none are recorded.
type Block struct {
	Block    map[string]json.RawMessage `json:"block"`    // eth_getBlockByNumber, with whole transactions
	Receipts []json.RawMessage          `json:"receipts"` // eth_getBlockReceipts
}

// Load reads a recording: a compressed file (.json.gz) with chainId and block and
// receipts, or with blocks; or a folder with block.json, meta.json, which has the
// chainId, and, if there are any, receipts.json.
func Load(path string) (r Recording, err error) {
	if strings.HasSuffix(path, ".json.gz") {
		return loadFile(path)
	}
	for name, into := range map[string]any{
		"meta.json": &struct{ ChainID *uint64 }{&r.ChainID}, "block.json": &r.Block.Block, "receipts.json": &r.Receipts,
	} {
		data, err := os.ReadFile(filepath.Join(path, name)) //nolint:gosec // the operator names the folder
		if errors.Is(err, fs.ErrNotExist) && name == "receipts.json" {
			continue
		}
		if err == nil {
			err = json.Unmarshal(data, into)
		}
		if err != nil {
			return r, fmt.Errorf("read recording %s: %w", name, err)
		}
	}
	return r.folded()
}

func loadFile(path string) (Recording, error) {
	data, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err == nil {
		var unzipped *gzip.Reader
		if unzipped, err = gzip.NewReader(bytes.NewReader(data)); err == nil {
			data, err = io.ReadAll(unzipped)
		}
	}
	if err != nil {
		return Recording{}, fmt.Errorf("read recording: %w", err)
	}
	return Parse(data)
}

// Parse reads a recording's JSON.
func Parse(data []byte) (r Recording, err error) {
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("read recording: %w", err)
	}
	return r.folded()
}

// folded moves a single block into Blocks, and returns an error unless there are entries and each has a block.
func (r Recording) folded() (Recording, error) {
	if r.Block.Block != nil {
		r.Blocks = append(r.Blocks, r.Block)
		r.Block = Block{}
	}
	if len(r.Blocks) == 0 {
		return r, errors.New("read recording: it has no block")
	}
	for i, b := range r.Blocks {
		if b.Block == nil {
			return r, fmt.Errorf("read recording: entry %d has no block", i)
		}
	}
	return r, nil
}

// Number returns the block's height.
func (b Block) Number() uint64 {
	n, _ := strconv.ParseUint(b.text("number"), 0, 64)
	return n
}

// Hash returns the block's hash, as the node spelt it.
func (b Block) Hash() string { return b.text("hash") }

func (b Block) text(member string) (text string) {
	_ = json.Unmarshal(b.Block[member], &text) // absent stays empty
	return text
}

// Transactions returns the block's transactions.
func (b Block) Transactions() (list []json.RawMessage) {
	_ = json.Unmarshal(b.Block["transactions"], &list) // recordings are well formed
	return list
}
