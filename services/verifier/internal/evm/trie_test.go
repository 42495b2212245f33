package evm

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethdb/memorydb"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/ethereum/go-ethereum/trie"
)

// values is a list that go-ethereum can derive a root from.
type values [][]byte

func (v values) Len() int                             { return len(v) }
func (v values) EncodeIndex(i int, buf *bytes.Buffer) { buf.Write(v[i]) }

// TestTrie_IsGoEthereums compares roots, and checks our proofs with
// go-ethereum's verifier, around the sizes where keys grow.
func TestTrie_IsGoEthereums(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, size := range []int{0, 1, 2, 3, 15, 16, 17, 18, 126, 127, 128, 129, 130, 255, 256, 257, 300, 1000} {
		for _, longest := range []int{4, 40, 600} { // values that fit into their parent, and others
			list := make(values, size)
			for i := range list {
				list[i] = make([]byte, 1+random.IntN(longest))
				for j := range list[i] {
					list[i][j] = byte(random.Uint32())
				}
			}
			got := newBlockTrie(list)
			if want := types.DeriveSha(list, trie.NewStackTrie(nil)); got.root != want {
				t.Fatalf("%d values of up to %d bytes: root %v, want %v", size, longest, got.root, want)
			}
			for i, value := range list {
				checkProof(t, got, uint64(i), value)
			}
		}
	}
}

func checkProof(t *testing.T, b *blockTrie, index uint64, value []byte) {
	t.Helper()
	nodes := memorydb.New()
	for _, node := range b.proof(index) {
		if err := nodes.Put(crypto.Keccak256(node), node); err != nil {
			t.Fatal(err)
		}
	}
	found, err := trie.VerifyProof(b.root, rlp.AppendUint64(nil, index), nodes)
	if err != nil || !bytes.Equal(found, value) {
		t.Fatalf("proof of %d: %x, %v", index, found, err)
	}
	if nodes.Len() != len(b.proof(index)) {
		t.Fatalf("proof of %d has a node twice", index)
	}
}
