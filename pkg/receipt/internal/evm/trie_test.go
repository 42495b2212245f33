package evm_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/pforte/pforte/pkg/receipt/internal/evm"
)

// A trie has one form: what no client writes is refused, also where it leads to the value.
func TestVerifyTrie_RefusesNodesThatNoTrieHas(t *testing.T) {
	key := []byte{0x12}
	list := func(payload ...byte) []byte { return append([]byte{byte(0xc0 + len(payload))}, payload...) }
	named := func(node []byte) []byte {
		hash := evm.Keccak256(node)
		return append([]byte{0xa0}, hash[:]...)
	}
	leaf := list(0x82, 0x20, 0x12, 'v')
	long := list(slices.Concat([]byte{0x32, 0xa8}, bytes.Repeat([]byte{'v'}, 40))...)
	short := list(0x32, 'v')
	for name, c := range map[string]struct {
		nodes [][]byte
		value int // bytes; 0 is refused
	}{
		"a leaf":                                   {[][]byte{leaf}, 1},
		"an extension without a path":              {[][]byte{list(append([]byte{0x00}, named(leaf)...)...), leaf}, 0},
		"a short node inside its parent":           {[][]byte{list(append([]byte{0x11}, short...)...)}, 1},
		"a node of 32 bytes and more, by its hash": {[][]byte{list(append([]byte{0x11}, named(long)...)...), long}, 40},
		"a node of 32 bytes and more inside":       {[][]byte{list(append([]byte{0x11}, long...)...)}, 0},
	} {
		value, err := evm.VerifyTrie(evm.Keccak256(c.nodes[0]), key, c.nodes)
		if (err != nil) != (c.value == 0) || len(value) != c.value || err != nil && !errors.Is(err, evm.ErrTrieProof) {
			t.Errorf("%s: %q, %v", name, value, err)
		}
	}
}
