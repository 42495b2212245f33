package receipt_test

import (
	"sort"

	"golang.org/x/crypto/sha3"

	"github.com/pforte/pforte/pkg/receipt/internal/rlp"
)

// trie is a Merkle Patricia trie.
type trie struct{ root *node }

// node is a leaf (no children), an extension (one child) or a branch.
type node struct {
	raw      []byte // the encoding
	path     []byte // nibbles of a leaf or an extension
	child    *node
	children [16]*node
}

type pair struct {
	path  []byte // nibbles
	value []byte
}

// newTrie returns the trie of a map that is not empty.
func newTrie(values map[string][]byte) trie {
	var pairs []pair
	for key, value := range values {
		pairs = append(pairs, pair{nibbles([]byte(key)), value})
	}
	sort.Slice(pairs, func(i, j int) bool { return string(pairs[i].path) < string(pairs[j].path) })
	return trie{build(pairs)}
}

// indexedTrie returns the trie of a block's list: the keys are the RLP of the places.
func indexedTrie(values [][]byte) trie {
	byKey := make(map[string][]byte, len(values))
	for i, value := range values {
		byKey[string(rlp.AppendUint(nil, uint64(i)))] = value
	}
	return newTrie(byKey)
}

// Root returns the root hash.
func (t trie) Root() [32]byte { return [32]byte(keccak(t.root.raw)) }

// Proof lists the nodes from the root to a key that the trie holds.
func (t trie) Proof(key []byte) [][]byte {
	var nodes [][]byte
	path := nibbles(key)
	for at := t.root; at != nil; {
		if at == t.root || len(at.raw) >= 32 {
			nodes = append(nodes, at.raw)
		}
		switch {
		case at.child != nil:
			path, at = path[len(at.path):], at.child
		case at.path == nil && len(path) > 0:
			path, at = path[1:], at.children[path[0]]
		default:
			at = nil
		}
	}
	return nodes
}

// build returns the node that holds these pairs, which are sorted.
func build(pairs []pair) *node {
	first := pairs[0]
	if len(pairs) == 1 {
		items := rlp.AppendString(nil, hexPrefix(first.path, true))
		return &node{path: append([]byte{}, first.path...), raw: rlp.AppendList(nil, rlp.AppendString(items, first.value))}
	}
	if shared := commonPrefix(pairs); shared > 0 {
		child := build(cut(pairs, shared))
		items := rlp.AppendString(nil, hexPrefix(first.path[:shared], false))
		return &node{path: first.path[:shared], child: child, raw: rlp.AppendList(nil, append(items, reference(child.raw)...))}
	}
	var branch node
	var items, value []byte
	for nibble := range byte(16) {
		below := under(pairs, nibble)
		if len(below) == 0 {
			items = rlp.AppendString(items, nil)
			continue
		}
		branch.children[nibble] = build(cut(below, 1))
		items = append(items, reference(branch.children[nibble].raw)...)
	}
	if len(first.path) == 0 {
		value = first.value
	}
	branch.raw = rlp.AppendList(nil, rlp.AppendString(items, value))
	return &branch
}

// reference is how a parent names a node: by its hash, or whole when it is small.
func reference(node []byte) []byte {
	if len(node) < 32 {
		return node
	}
	return rlp.AppendString(nil, keccak(node))
}

func under(pairs []pair, nibble byte) []pair {
	from := sort.Search(len(pairs), func(i int) bool { return len(pairs[i].path) > 0 && pairs[i].path[0] >= nibble })
	to := sort.Search(len(pairs), func(i int) bool { return len(pairs[i].path) > 0 && pairs[i].path[0] > nibble })
	return pairs[from:to]
}

func cut(pairs []pair, nibbles int) []pair {
	out := make([]pair, len(pairs))
	for i, p := range pairs {
		out[i] = pair{p.path[nibbles:], p.value}
	}
	return out
}

func commonPrefix(pairs []pair) int {
	first, last := pairs[0].path, pairs[len(pairs)-1].path
	n := 0
	for n < len(first) && n < len(last) && first[n] == last[n] {
		n++
	}
	return n
}

func hexPrefix(path []byte, leaf bool) []byte {
	flag := byte(0)
	if leaf {
		flag = 2
	}
	if len(path)%2 == 1 {
		path = append([]byte{flag + 1}, path...)
	} else {
		path = append([]byte{flag, 0}, path...)
	}
	out := make([]byte, len(path)/2)
	for i := range out {
		out[i] = path[2*i]<<4 | path[2*i+1]
	}
	return out
}

func nibbles(text []byte) []byte {
	out := make([]byte, 0, 2*len(text))
	for _, b := range text {
		out = append(out, b>>4, b&0xf)
	}
	return out
}

func keccak(data []byte) []byte {
	h := sha3.NewLegacyKeccak256()
	_, _ = h.Write(data)
	return h.Sum(nil)
}
