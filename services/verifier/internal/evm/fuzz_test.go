package evm

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/chain/chaintest"
)

// FuzzProve proves what a node could send: nothing may panic, and whatever is
// proven must be the block that was requested.
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
		var m ReportedBlock
		parts := []any{&m.Block, &m.Receipts}
		var raw []json.RawMessage
		if json.Unmarshal(text, &raw) != nil || len(raw) != len(parts) {
			return
		}
		for i, part := range raw {
			if Decode(part, parts[i]) != nil {
				return
			}
		}
		tryProve(t, &m)
	})
}

// tryProve proves whatever the material contains.
func tryProve(t *testing.T, m *ReportedBlock) {
	t.Helper()
	number, ok := m.Block.Number.Uint64()
	if !ok || m.Block.Hash == nil {
		return
	}
	b, err := m.Prove(number, *m.Block.Hash, 8453)
	if err != nil {
		if !isFault(err) {
			t.Errorf("no reason in %v", err)
		}
		return
	}
	for i := range b.entries {
		if _, err := b.Snapshot(uint64(i)); err != nil && !errors.Is(err, chain.ErrUnsupportedType) {
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
		var told Transaction
		var r Receipt
		if Decode(tx, &told) != nil || Decode(receipt, &r) != nil {
			return
		}
		encoded, err := told.Encode()
		if err != nil {
			if !isFault(err) {
				t.Errorf("no reason in %v", err)
			}
			return
		}
		kind := told.kind()
		if _, err := r.Encode(kind); err != nil && !isFault(err) {
			t.Errorf("no reason in %v", err)
		}
		facts, signed := told.facts(kind, &r)
		if signed != nil {
			sameAsGoEthereum(t, encoded, kind, facts, signed)
			if _, err := signed.sender(); err != nil && !errors.Is(err, chain.ErrUnsupportedType) {
				t.Errorf("no reason in %v", err)
			}
		}
	})
}

// TestProve_NeverAMutatedBlock changes one value somewhere in a recorded block
// or its receipts, again and again.
func TestProve_NeverAMutatedBlock(t *testing.T) {
	for _, name := range []string{chaintest.BaseBlock, "ethereum-1000000", "arbitrum-one-150000000", "base-goerli-12399126"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			recording := chaintest.Load(t, name)
			block := recording.Blocks[0]
			hash := *materialOf(t, block).Block.Hash
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
				_, err := m.Prove(block.Number(), hash, recording.ChainID)
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
func mutated(t *testing.T, random *rand.Rand, text []byte) (m *ReportedBlock, where string, harmless bool) {
	t.Helper()
	var tree []any
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	where, harmless = mutate(random, tree)
	m = new(ReportedBlock)
	for i, into := range []any{&m.Block, &m.Receipts} {
		part, err := json.Marshal(tree[i])
		if err != nil {
			t.Fatal(err)
		}
		if Decode(part, into) != nil {
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

func FuzzQuantity(f *testing.F) {
	for _, seed := range []string{`"0x0"`, `"0x"`, `"0x00ff"`, `"0xfff"`, `null`, `"1"`, `12`, `"0x` + string(slices.Repeat([]byte("f"), 65)) + `"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var q Quantity
		if q.UnmarshalJSON(text) != nil || q == nil {
			return
		}
		if len(q) > 32 || len(q) > 0 && q[0] == 0 {
			t.Errorf("%s became %x", text, []byte(q))
		}
	})
}

// FuzzBlob reads hexadecimal data.
func FuzzBlob(f *testing.F) {
	for _, seed := range []string{`"0x"`, `"0x00"`, `"0xabc"`, `null`, `""`, `"0X0f"`, `7`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var b Data
		if b.UnmarshalJSON(text) == nil && b != nil && 2*len(b)+4 != len(text) {
			t.Errorf("%q became %d bytes", text, len(b))
		}
	})
}

// sameAsGoEthereum compares a transaction of Ethereum's own types with what
// go-ethereum reads out of its encoding: a second opinion.
func sameAsGoEthereum(t *testing.T, encoded []byte, kind byte, facts chain.Transaction, signed *signed) {
	t.Helper()
	var tx types.Transaction
	if kind > setCodeType || tx.UnmarshalBinary(encoded) != nil {
		return
	}
	if to := tx.To(); (to == nil) != (facts.To == nil) || to != nil && chain.Address(*to) != *facts.To {
		t.Errorf("to %v, go-ethereum returns %v", facts.To, to)
	}
	if facts.Nonce == nil || *facts.Nonce != tx.Nonce() || facts.Value.Cmp(tx.Value()) != 0 {
		t.Errorf("nonce %v, value %v, go-ethereum returns %d, %v", facts.Nonce, facts.Value, tx.Nonce(), tx.Value())
	}
	if tx.Protected() && tx.ChainId().Sign() == 0 {
		return // go-ethereum panics
	}
	signer := types.Signer(types.FrontierSigner{})
	if tx.Protected() {
		signer = types.LatestSignerForChainID(tx.ChainId())
	}
	want, err := types.Sender(signer, &tx)
	if err != nil {
		return // signatures that only old blocks may have
	}
	if got, err := signed.sender(); err != nil || common.Address(got) != want {
		t.Errorf("sender %v, %v; go-ethereum returns %v", got, err, want)
	}
}

func isFault(err error) bool {
	var fault *chain.Fault
	return errors.As(err, &fault)
}
