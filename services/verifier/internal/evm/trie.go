package evm

import (
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
)

// blockTrie is the Merkle Patricia trie of a block's transactions or receipts (Yellow Paper,
// appendix D): the keys are RLP(0), RLP(1), …, the values their consensus bytes. It keeps every
// node that is not a part of its parent, so that a proof needs no hashing.
//
// No such key begins another one, so that a branch never has a value of its own.
type blockTrie struct {
	root  common.Hash
	nodes map[string][]byte // by the path from the root, one nibble a byte
	size  int               // bytes of all nodes and paths
	hash  crypto.KeccakState
}

// leaf is one key, as nibbles, and its value.
type leaf struct {
	path  []byte
	value []byte
}

// newBlockTrie builds the trie of values, none of which is empty.
func newBlockTrie(values [][]byte) *blockTrie {
	t := &blockTrie{nodes: make(map[string][]byte, len(values)+len(values)/8+1), hash: crypto.NewKeccakState()}
	if len(values) == 0 {
		t.root = crypto.Keccak256Hash(rlp.EmptyString)
		return t
	}
	leaves := make([]leaf, len(values))
	for i, value := range values {
		leaves[i] = leaf{keyPath(uint64(i)), value}
	}
	slices.SortFunc(leaves, func(a, b leaf) int { return slices.Compare(a.path, b.path) })
	root := t.build(leaves, 0)
	t.keep(nil, root)
	t.root = crypto.Keccak256Hash(root)
	return t
}

// keyPath returns the nibbles of RLP(index).
func keyPath(index uint64) []byte {
	key := rlp.AppendUint64(make([]byte, 0, 9), index)
	path := make([]byte, 0, 2*len(key))
	for _, b := range key {
		path = append(path, b>>4, b&15)
	}
	return path
}

// build returns the node above the leaves, which share the first depth nibbles of
// their paths.
func (t *blockTrie) build(leaves []leaf, depth int) rlp.RawValue {
	first, last := leaves[0].path, leaves[len(leaves)-1].path
	if len(leaves) == 1 {
		return encode(legacyType, [][]byte{hexPrefix(first[depth:], true), leaves[0].value})
	}
	shared := depth
	for first[shared] == last[shared] {
		shared++
	}
	if shared > depth {
		return encode(legacyType, []any{hexPrefix(first[depth:shared], false), t.reference(leaves, shared)})
	}
	branch := slices.Repeat([]rlp.RawValue{rlp.EmptyString}, 17)
	for len(leaves) > 0 {
		nibble, end := leaves[0].path[depth], 1
		for end < len(leaves) && leaves[end].path[depth] == nibble {
			end++
		}
		branch[nibble] = t.reference(leaves[:end], depth+1)
		leaves = leaves[end:]
	}
	return encode(legacyType, branch)
}

// reference returns what a parent holds of the node above the leaves: its hash, or the node itself
// when it is shorter than that.
func (t *blockTrie) reference(leaves []leaf, depth int) rlp.RawValue {
	node := t.build(leaves, depth)
	if len(node) < 32 {
		return node
	}
	t.keep(leaves[0].path[:depth], node)
	hash := crypto.HashData(t.hash, node)
	return encode(legacyType, hash[:])
}

func (t *blockTrie) keep(path, node []byte) {
	t.nodes[string(path)] = node
	t.size += len(path) + len(node)
}

// hexPrefix returns the hex-prefix encoding of nibbles (Yellow Paper, appendix C). terminates is set for a leaf's.
func hexPrefix(nibbles []byte, terminates bool) []byte {
	out := make([]byte, 1, 1+len(nibbles)/2)
	if terminates {
		out[0] = 0x20
	}
	if len(nibbles)%2 == 1 {
		out[0] |= 0x10 | nibbles[0]
		nibbles = nibbles[1:]
	}
	for i := 0; i < len(nibbles); i += 2 {
		out = append(out, nibbles[i]<<4|nibbles[i+1])
	}
	return out
}

// proof returns the nodes from the root down to the value at index: those whose path is a
// prefix of the key's.
func (t *blockTrie) proof(index uint64) [][]byte {
	path := keyPath(index)
	var nodes [][]byte
	for i := range len(path) + 1 {
		if node, ok := t.nodes[string(path[:i])]; ok {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// encode returns the RLP of a value after the type byte; legacy (0) has no such byte.
// Quantities and data are already the bytes that RLP stores, a nil pointer to an
// address or a hash is the empty string.
func encode(kind byte, value any) []byte {
	out, err := rlp.EncodeToBytes(value)
	if err != nil {
		panic(err) // of a Go type that RLP does not know: cannot happen
	}
	if kind == legacyType {
		return out
	}
	return append([]byte{kind}, out...)
}
