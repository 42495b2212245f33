package ethrpc

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/chain/chaintest"
)

// FuzzProve proves what a node could send: nothing may panic, and whatever is
// proven must be the block that was asked for.
func FuzzProve(f *testing.F) {
	for _, name := range []string{"ethereum-1000000", "arbitrum-one-150000000", "base-goerli-12399126", "execution-apis-devnet"} {
		for _, block := range chaintest.Load(f, name).Blocks {
			text, err := json.Marshal([]any{block.Block, block.Receipts})
			if err != nil {
				f.Fatal(err)
			}
			if len(text) < 32<<10 { // others are slow to mutate
				f.Add(text)
			}
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var m material
		parts := []any{&m.block, &m.receipts}
		var raw []json.RawMessage
		if json.Unmarshal(text, &raw) != nil || len(raw) != len(parts) {
			return
		}
		for i, part := range raw {
			if decodeJSON(part, parts[i]) != nil {
				return
			}
		}
		tryProve(t, &m)
	})
}

// tryProve proves whatever the material says of itself.
func tryProve(t *testing.T, m *material) {
	t.Helper()
	number, ok := m.block.Number.uint64()
	if !ok || m.block.Hash == nil {
		return
	}
	b, err := prove(m, number, *m.block.Hash, 8453)
	if err != nil {
		if !isFault(err) {
			t.Errorf("no reason in %v", err)
		}
		return
	}
	for i := range b.entries {
		if _, err := b.snapshot(uint64(i)); err != nil && !isAny(err, chain.ErrUnsupportedType) {
			t.Errorf("transaction %d: %v", i, err)
		}
	}
}

// FuzzTransaction reads one transaction of any type and its receipt.
func FuzzTransaction(f *testing.F) {
	for _, name := range []string{chaintest.BaseBlock, "ethereum-22119617", "arbitrum-one-150000000", "execution-apis-devnet"} {
		for _, block := range chaintest.Load(f, name).Blocks {
			for i, tx := range block.Transactions() {
				if len(tx) < 2000 && len(block.Receipts) > i && len(block.Receipts[i]) < 4000 {
					f.Add([]byte(tx), []byte(block.Receipts[i]))
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, tx, receipt []byte) {
		var told rpcTransaction
		var r rpcReceipt
		if decodeJSON(tx, &told) != nil || decodeJSON(receipt, &r) != nil {
			return
		}
		encoded, err := told.encode()
		if err != nil {
			if !isFault(err) {
				t.Errorf("no reason in %v", err)
			}
			return
		}
		kind, err := told.kind()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.encode(kind); err != nil && !isFault(err) {
			t.Errorf("no reason in %v", err)
		}
		facts, signed := told.facts(kind, &r)
		if signed != nil {
			sameAsGoEthereum(t, encoded, kind, facts, signed)
			if _, err := signed.sender(); err != nil && !isAny(err, chain.ErrUnsupportedType) {
				t.Errorf("no reason in %v", err)
			}
		}
	})
}

// TestMutatedBlocksAreNeverProven changes one value somewhere in a recorded block
// or its receipts, again and again.
func TestMutatedBlocksAreNeverProven(t *testing.T) {
	for _, name := range []string{chaintest.BaseBlock, "ethereum-1000000", "arbitrum-one-150000000", "base-goerli-12399126"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			recording := chaintest.Load(t, name)
			block := recording.Blocks[0]
			hash := *materialOf(t, block).block.Hash
			text, err := json.Marshal([]any{block.Block, block.Receipts})
			if err != nil {
				t.Fatal(err)
			}
			random := rand.New(rand.NewPCG(1, 2))
			for range 2_000_000 / len(text) {
				m, where, harmless := mutated(t, random, text)
				if m == nil {
					continue
				}
				_, err := prove(m, block.Number(), hash, recording.ChainID)
				if err == nil && !harmless {
					t.Fatalf("proven with another %s", where)
				}
				if err != nil && !isFault(err) {
					t.Fatalf("%s: no reason in %v", where, err)
				}
			}
		})
	}
}

// mutated reads the block and receipts in text with one value changed; nil when
// they can no longer be read.
func mutated(t *testing.T, random *rand.Rand, text []byte) (m *material, where string, harmless bool) {
	t.Helper()
	var tree []any
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	where, harmless = mutate(random, tree)
	m = new(material)
	for i, into := range []any{&m.block, &m.receipts} {
		part, err := json.Marshal(tree[i])
		if err != nil {
			t.Fatal(err)
		}
		if decodeJSON(part, into) != nil {
			return nil, where, harmless
		}
	}
	return m, where, harmless
}

// unproven are members that no root commits to; evidence is not made of them.
var unproven = []string{
	"size", "totalDifficulty", "uncles", "from", "gasPrice", "effectiveGasPrice", "contractAddress", "gasUsed", "to",
	"l1BlockNumber", "sendRoot", "sendCount", "gasUsedForL1", "l1Fee", "l1FeeScalar", "l1GasPrice", "l1GasUsed", "blockTimestamp",
	"logIndex", "removed", "logsBloom", "withdrawals", "depositNonce", "mint", "chainId", "v", "yParity", "r", "s", "nonce", "type",
	"maxPriorityFeePerGas", "maxFeePerGas", "gas", "blockNumber", "blockHash", "transactionHash", "transactionIndex",
}

// mutate changes one text somewhere in the tree. Members of the same name are
// hashed in one place and not in another (v beside yParity, gasUsed of receipts,
// the block's number in logs): those count as harmless, and only must not panic.
func mutate(random *rand.Rand, tree any) (where string, harmless bool) {
	for {
		switch node := tree.(type) {
		case []any:
			if len(node) == 0 {
				return "an empty list", true
			}
			i := random.IntN(len(node))
			if text, ok := node[i].(string); ok {
				node[i] = twist(random, text)
				return where, node[i] == text
			}
			tree = node[i]
		case map[string]any:
			names := make([]string, 0, len(node))
			for name := range node {
				names = append(names, name)
			}
			slices.Sort(names)
			where = names[random.IntN(len(names))]
			switch value := node[where].(type) {
			case string:
				node[where] = twist(random, value)
				return where, node[where] == value || slices.Contains(unproven, where)
			case nil, bool, float64:
				return where, true
			default:
				tree = value
			}
		default:
			return where, true
		}
	}
}

// twist changes one hexadecimal digit, or drops the text. Empty data stays: null
// means the same.
func twist(random *rand.Rand, text string) any {
	if len(text) <= 2 {
		return text
	}
	if random.IntN(10) == 0 {
		return nil
	}
	digits := []byte(text)
	at := 2 + random.IntN(len(digits)-2)
	digits[at] = "0123456789abcdef"[random.IntN(16)]
	return string(digits)
}

func FuzzReplies(f *testing.F) {
	f.Add([]byte(`[{"jsonrpc":"2.0","id":1,"result":"0x1"},{"id":2,"error":{"code":-32000,"message":"x"}}]`))
	f.Add([]byte(`{"id":"1","result":null}`))
	f.Add([]byte(`{"error":"text"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		replies, _, err := decodeReplies(body)
		if err != nil {
			return
		}
		calls := []*call{newCall("a"), newCall("b")}
		for _, r := range replies {
			settle(calls, r)
		}
		for _, c := range calls {
			var tx rpcTransaction
			if _, err := c.into(&tx); err != nil && !isFault(err) {
				t.Errorf("no reason in %v", err)
			}
		}
	})
}

func FuzzQuantity(f *testing.F) {
	for _, seed := range []string{`"0x0"`, `"0x"`, `"0x00ff"`, `"0xfff"`, `null`, `"1"`, `12`, `"0x` + string(slices.Repeat([]byte("f"), 65)) + `"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var q quantity
		if q.UnmarshalJSON(text) != nil || q == nil {
			return
		}
		if len(q) > 32 || len(q) > 0 && q[0] == 0 {
			t.Errorf("%s became %x", text, []byte(q))
		}
	})
}
