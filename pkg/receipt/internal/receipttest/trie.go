package receipttest

import (
	"sort"

	"golang.org/x/crypto/sha3"

	"github.com/pforte/pforte/pkg/receipt/internal/rlp"
)

// Trie is a Merkle Patricia trie that is built anew for every question.
type Trie struct {
	pairs []pair // sorted by path
}

type pair struct {
	path  []byte // nibbles
	value []byte
}

// NewTrie makes the trie of a map.
func NewTrie(values map[string][]byte) Trie {
	var t Trie
	for key, value := range values {
		t.pairs = append(t.pairs, pair{nibbles([]byte(key)), value})
	}
	sort.Slice(t.pairs, func(i, j int) bool { return string(t.pairs[i].path) < string(t.pairs[j].path) })
	return t
}

// Indexed makes the trie of a block's list: the keys are the RLP of the places.
func Indexed(values [][]byte) Trie {
	byKey := make(map[string][]byte, len(values))
	for i, value := range values {
		byKey[string(rlp.AppendUint(nil, uint64(i)))] = value
	}
	return NewTrie(byKey)
}

// Root gives the root hash.
func (t Trie) Root() [32]byte {
	if len(t.pairs) == 0 {
		return [32]byte(keccak([]byte{0x80}))
	}
	return [32]byte(keccak(build(t.pairs)))
}

// Proof lists the nodes from the root to a key.
func (t Trie) Proof(key []byte) [][]byte {
	var nodes [][]byte
	pairs, path := t.pairs, nibbles(key)
	for len(pairs) > 0 {
		if node := build(pairs); len(nodes) == 0 || len(node) >= 32 {
			nodes = append(nodes, node)
		}
		if len(pairs) == 1 {
			break
		}
		if shared := commonPrefix(pairs); shared > 0 {
			pairs, path = cut(pairs, shared), path[shared:]
			continue
		}
		pairs, path = cut(under(pairs, path[0]), 1), path[1:]
	}
	return nodes
}

// build encodes the node that holds these pairs.
func build(pairs []pair) []byte {
	if len(pairs) == 1 {
		items := rlp.AppendString(nil, hexPrefix(pairs[0].path, true))
		return rlp.AppendList(nil, rlp.AppendString(items, pairs[0].value))
	}
	if shared := commonPrefix(pairs); shared > 0 {
		items := rlp.AppendString(nil, hexPrefix(pairs[0].path[:shared], false))
		return rlp.AppendList(nil, append(items, reference(build(cut(pairs, shared)))...))
	}
	var items, value []byte
	for nibble := range byte(16) {
		if below := under(pairs, nibble); len(below) > 0 {
			items = append(items, reference(build(cut(below, 1)))...)
		} else {
			items = rlp.AppendString(items, nil)
		}
	}
	if len(pairs[0].path) == 0 {
		value = pairs[0].value
	}
	return rlp.AppendList(nil, rlp.AppendString(items, value))
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
