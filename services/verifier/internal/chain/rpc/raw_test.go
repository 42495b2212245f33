package rpc

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/ethereum/go-ethereum/trie"

	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/chain/chaintest"
	"github.com/pforte/pforte/services/verifier/internal/chain/recorded"
	"github.com/pforte/pforte/services/verifier/internal/evm"
	"github.com/pforte/pforte/services/verifier/internal/verification"
)

// rawWorld is a node with Base's recorded block in which one transaction is told
// with a type that is unknown, and the block's bytes as the chain has them. The type is
// a false one until the block is resealed with it.
type rawWorld struct {
	transactions, receipts [][]byte
	offers                 map[string]func() any
	block                  recorded.Block
}

const opaqueAt = 5

func newRawWorld(t *testing.T) *rawWorld {
	t.Helper()
	w := &rawWorld{block: chaintest.Load(t, chaintest.BaseBlock).Blocks[0]}
	var m evm.ReportedBlock
	decoded(t, w.block.Block, &m.Block)
	decoded(t, w.block.Receipts, &m.Receipts)
	for i := range m.Block.Transactions {
		tx, err := m.Block.Transactions[i].Encode()
		if err != nil {
			t.Fatal(err)
		}
		kind := tx[0]
		if kind >= 0xc0 { // legacy
			kind = 0
		}
		receipt, err := m.Receipts[i].Encode(kind)
		if err != nil {
			t.Fatal(err)
		}
		w.transactions, w.receipts = append(w.transactions, tx), append(w.receipts, receipt)
	}
	w.offers = map[string]func() any{
		"eth_getRawTransactionByHash": func() any { return hexOf(w.transactions[opaqueAt]) },
		"debug_getRawBlock":           func() any { return hexOf(w.encodedBlock(t)) },
		"debug_getRawReceipts": func() any {
			var all []string
			for _, receipt := range w.receipts {
				all = append(all, hexOf(receipt))
			}
			return all
		},
	}
	return w
}

// reseal returns the recording of the block with that transaction really of the unknown type:
// its hash, the root over all and the block's hash follow. Its receipt stays as it is, which is
// not the usual form of one.
func (w *rawWorld) reseal(t *testing.T) recorded.Recording {
	t.Helper()
	var header types.Header
	decoded(t, w.block.Block, &header)
	transaction := append([]byte{0x7b}, w.transactions[opaqueAt][1:]...)
	w.transactions[opaqueAt] = transaction
	block, root := header.Hash().String(), header.TxHash.String()
	header.TxHash = types.DeriveSha(values(w.transactions), trie.NewStackTrie(nil))
	recording := chaintest.Load(t, chaintest.BaseBlock)
	recording, err := recorded.Parse([]byte(strings.NewReplacer(
		recorded.Member(w.block.Transactions()[opaqueAt], "hash"), crypto.Keccak256Hash(transaction).String(),
		root, header.TxHash.String(), block, header.Hash().String(),
	).Replace(string(raw(recording)))))
	if err != nil {
		t.Fatal(err)
	}
	w.block = recording.Blocks[0]
	return recording
}

// values implements types.DerivableList.
type values [][]byte

func (v values) Len() int                              { return len(v) }
func (v values) EncodeIndex(i int, into *bytes.Buffer) { into.Write(v[i]) }

func hexOf(data []byte) string { return fmt.Sprintf("0x%x", data) }

// encodedBlock is the block's RLP as far as it is read.
func (w *rawWorld) encodedBlock(t *testing.T) []byte {
	t.Helper()
	var list []any
	for _, tx := range w.transactions {
		if tx[0] >= 0xc0 {
			list = append(list, rlp.RawValue(tx))
		} else {
			list = append(list, tx)
		}
	}
	data, err := rlp.EncodeToBytes([]any{[]any{"header"}, list, []any{}, []any{}})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// script returns the transaction and its receipt with an unknown type, and offers
// some methods.
func (w *rawWorld) script(offered ...string) chaintest.Script {
	disguise := func(list any) any {
		var objects []any
		if evm.Decode(raw(list), &objects) != nil {
			return list
		}
		objects[opaqueAt] = chaintest.Edit(objects[opaqueAt], map[string]any{"type": "0x7b"})
		return objects
	}
	return chaintest.Script{Answer: func(c recorded.Request, result any, err *recorded.Error) (any, *recorded.Error) {
		for _, name := range offered {
			if c.Method == name {
				return w.offers[name](), nil
			}
		}
		switch {
		case c.Method == "eth_getBlockReceipts":
			return disguise(result), err
		case c.Method == "eth_getBlockByNumber" && string(c.Params[1]) == "true":
			var block map[string]any
			_ = evm.Decode(raw(result), &block) // recorded
			block["transactions"] = disguise(block["transactions"])
			return block, err
		case strings.HasPrefix(c.Method, "eth_getTransaction") && strings.Contains(string(c.Params[0]), recorded.Member(w.block.Transactions()[opaqueAt], "hash")[2:]):
			return chaintest.Edit(result, map[string]any{"type": "0x7b"}), err
		}
		return result, err
	}}
}

// TestBlock_AnUnknownTypeDoesNotSpoilIt where the node returns its raw
// bytes; every other transaction then has evidence that pkg/receipt accepts, the
// same as ever, and the unknown one has ErrUnsupportedType.
func TestBlock_AnUnknownTypeDoesNotSpoilIt(t *testing.T) {
	const one, block, receipts = "eth_getRawTransactionByHash", "debug_getRawBlock", "debug_getRawReceipts"
	for name, c := range map[string]struct {
		offered []string
		spoil   func(w *rawWorld)
		want    *chain.Fault
	}{
		"transactions and receipts":      {offered: []string{one, receipts}},
		"blocks and receipts":            {offered: []string{block, receipts}},
		"nothing":                        {want: chain.ErrUnsupportedType},
		"transactions alone":             {offered: []string{one}, want: chain.ErrUnsupportedType},
		"receipts alone":                 {offered: []string{receipts}, want: chain.ErrUnsupportedType},
		"a transaction that is not it":   {[]string{one, receipts}, func(w *rawWorld) { w.transactions[opaqueAt] = w.transactions[opaqueAt+1] }, chain.ErrIntegrity},
		"a transaction that is changed":  {[]string{one, receipts}, func(w *rawWorld) { w.transactions[opaqueAt][9] ^= 1 }, chain.ErrIntegrity},
		"a receipt that is not it":       {[]string{one, receipts}, func(w *rawWorld) { w.receipts[opaqueAt] = w.receipts[opaqueAt+1] }, chain.ErrUnsupportedType},
		"a receipt with a wrong outcome": {[]string{one, receipts}, func(w *rawWorld) { w.receipts[opaqueAt][4] ^= 1 }, chain.ErrIntegrity},
		"a receipt too few":              {[]string{one, receipts}, func(w *rawWorld) { w.receipts = w.receipts[1:] }, chain.ErrUnsupportedType},
		"a block without end":            {[]string{block, receipts}, func(w *rawWorld) { w.offers[block] = func() any { return "0xf9ffff80" } }, chain.ErrUnsupportedType},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRawWorld(t)
			recording := w.reseal(t)
			if c.spoil != nil {
				c.spoil(w)
			}
			r, nodes := openOver(t, recording, 1)
			nodes[0].Play(w.script(c.offered...))
			for i, tx := range w.block.Transactions() {
				request, err := verification.ParseRequest([]byte(`{"transactionHash":"` + recorded.Member(tx, "hash") + `"}`))
				if err != nil {
					t.Fatal(err)
				}
				_, err = verification.Verifier{Reader: r}.Verify(t.Context(), request)
				want := c.want
				if want == nil && i == opaqueAt {
					want = chain.ErrUnsupportedType
				}
				if (want == nil) != (err == nil) || want != nil && !errors.Is(err, want) {
					t.Errorf("transaction %d: %v", i, err)
				}
				if c.want != nil {
					break // one stands for all
				}
			}
		})
	}
}
