package receipt_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/crypto/sha3"

	"github.com/pforte/pforte/pkg/receipt/internal/evm"
	"github.com/pforte/pforte/pkg/receipt/internal/rlp"
)

// tries covers every shape of node: values in branches, extensions, nodes small
// enough to stand in their parent, a root that is a leaf, the trie of a block.
func tries() map[string]map[string][]byte {
	block := map[string][]byte{}
	for i := range uint64(300) {
		block[string(rlp.AppendUint(nil, i))] = bytes.Repeat([]byte{byte(i), 1}, 30)
	}
	random, rng := map[string][]byte{}, rand.New(rand.NewPCG(1, 2))
	for range 200 {
		key := make([]byte, 1+rng.IntN(4))
		for i := range key {
			key[i] = byte(rng.IntN(4) * 0x11)
		}
		random[string(key)] = []byte{1 + byte(rng.IntN(100))}
	}
	return map[string]map[string][]byte{
		"words":  {"do": []byte("verb"), "dog": []byte("puppy"), "doge": []byte("coin"), "horse": []byte("stallion")},
		"one":    {"key": []byte("value")},
		"block":  block,
		"random": random,
	}
}

func TestTrie_OfTheTestsIsEthereums(t *testing.T) {
	// github.com/ethereum/tests, TrieTests/trieanyorder.json, "puppy".
	const want = "5991bb8c6514148a29db676a14ac506cd2cd5775ace63c30a4fe457715e9ac84"
	root := newTrie(tries()["words"]).Root()
	if got := hex.EncodeToString(root[:]); got != want {
		t.Errorf("root %s, want %s", got, want)
	}
}

func TestTrie_EveryValueIsProven(t *testing.T) {
	for name, values := range tries() {
		tree := newTrie(values)
		for key, want := range values {
			got, err := evm.VerifyTrie(tree.Root(), []byte(key), tree.Proof([]byte(key)))
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s, %q: %q, %v; want %q", name, key, got, err, want)
			}
		}
	}
}

func TestTrie_NoOtherProofIsAccepted(t *testing.T) {
	for name, values := range tries() {
		tree := newTrie(values)
		for key := range values {
			proof := tree.Proof([]byte(key))
			forgeries := map[string][][]byte{
				"no node":    nil,
				"one less":   proof[:len(proof)-1],
				"one more":   append(slices.Clone(proof), proof[0]),
				"first lost": proof[1:],
			}
			for i, node := range proof {
				for _, at := range []int{0, len(node) / 2, len(node) - 1} {
					changed := slices.Clone(proof)
					changed[i] = slices.Clone(node)
					changed[i][at] ^= 1
					forgeries[fmt.Sprintf("node %d byte %d", i, at)] = changed
				}
			}
			for what, nodes := range forgeries {
				if got, err := evm.VerifyTrie(tree.Root(), []byte(key), nodes); !errors.Is(err, evm.ErrTrieProof) {
					t.Errorf("%s, %q, %s: %q, %v; want ErrProof", name, key, what, got, err)
				}
			}
		}
	}
}

func TestTrie_AProofIsForItsOwnKey(t *testing.T) {
	for name, values := range tries() {
		tree := newTrie(values)
		for key := range values {
			for _, other := range []string{key + "x", "absent", "", key[:len(key)-1]} {
				got, err := evm.VerifyTrie(tree.Root(), []byte(other), tree.Proof([]byte(key)))
				if err == nil && !bytes.Equal(got, values[other]) {
					t.Errorf("%s: the proof of %q yields %q for %q", name, key, got, other)
				}
			}
		}
	}
}

// A node whose path is not encoded in the one way must not be walked, even when
// its hash is right.
func TestTrie_AMisshapenNodeIsRefused(t *testing.T) {
	list := func(items ...[]byte) []byte {
		var content []byte
		for _, item := range items {
			content = rlp.AppendString(content, item)
		}
		return rlp.AppendList(nil, content)
	}
	value := []byte("value")
	for name, node := range map[string][]byte{
		"a string":                   rlp.AppendString(nil, value),
		"three items":                list([]byte{0x20, 'k'}, value, value),
		"no path":                    list(nil, value),
		"an unknown flag":            list([]byte{0x40, 'k'}, value),
		"padding that is not zero":   list([]byte{0x25, 'k'}, value),
		"a leaf that ends early":     list([]byte{0x36}, value),
		"an extension without path":  list([]byte{0x00}, value),
		"an extension to a value":    list([]byte{0x00, 'k'}, value),
		"a leaf without a value":     list([]byte{0x20, 'k'}, nil),
		"a path that is a list":      rlp.AppendList(nil, append(rlp.AppendList(nil, nil), rlp.AppendString(nil, value)...)),
		"bytes after the node":       append(list([]byte{0x20, 'k'}, value), 0),
		"a value that is a list":     rlp.AppendList(nil, append(rlp.AppendString(nil, []byte{0x20, 'k'}), rlp.AppendList(nil, nil)...)),
		"a branch without the child": rlp.AppendList(nil, bytes.Repeat([]byte{0x80}, 17)),
	} {
		if got, err := evm.VerifyTrie(rootOf(node), []byte("k"), [][]byte{node}); !errors.Is(err, evm.ErrTrieProof) {
			t.Errorf("%s: %q, %v; want ErrProof", name, got, err)
		}
	}
	good := list([]byte{0x20, 'k'}, value)
	if got, err := evm.VerifyTrie(rootOf(good), []byte("k"), [][]byte{good}); err != nil || !bytes.Equal(got, value) {
		t.Errorf("the right shape: %q, %v", got, err)
	}
}

func rootOf(node []byte) [32]byte {
	h := sha3.NewLegacyKeccak256()
	_, _ = h.Write(node)
	return [32]byte(h.Sum(nil))
}

// FuzzTrieProof checks that nothing but the true proof of a value is accepted.
func FuzzTrieProof(f *testing.F) {
	values := tries()["random"]
	tree := newTrie(values)
	for key := range values {
		proof := tree.Proof([]byte(key))
		f.Add([]byte(key), bytes.Join(proof, nil), uint16(len(proof[0])))
	}
	f.Fuzz(func(t *testing.T, key, nodes []byte, cut uint16) {
		at := min(int(cut), len(nodes))
		list := [][]byte{nodes[:at]}
		if at < len(nodes) {
			list = append(list, nodes[at:])
		}
		if got, err := evm.VerifyTrie(tree.Root(), key, list); err == nil && !bytes.Equal(got, values[string(key)]) {
			t.Errorf("%q is proven for %q", got, key)
		}
		// With a root of its own, whatever is given is walked.
		_, _ = evm.VerifyTrie(rootOf(nodes[:at]), key, list)
	})
}
