package evm

import (
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
)

// blockTrie is the Merkle Patricia trie of a block's transactions or receipts
// (Yellow Paper, appendix D): the keys are RLP(0), RLP(1), …, the values their
// consensus bytes. It keeps every node, so that a proof needs no hashing.
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

// newBlockTrie builds the trie of values, which are not empty.
func newBlockTrie(values [][]byte) *blockTrie {
	t := &blockTrie{nodes: make(map[string][]byte, len(values)+len(values)/8+1), hash: crypto.NewKeccakState()}
	if len(values) == 0 {
		t.root = crypto.Keccak256Hash([]byte{0x80})
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

// build returns the node above all leaves; they share the first depth
// nibbles of their paths.
func (t *blockTrie) build(leaves []leaf, depth int) []byte {
	first := leaves[0]
	if len(leaves) == 1 {
		e := newEncoder()
		e.list(func() { e.bytes(hexPrefix(first.path[depth:], true), first.value) })
		return e.finish(legacyType)
	}
	last := leaves[len(leaves)-1].path
	shared := depth
	for first.path[shared] == last[shared] {
		shared++
	}
	branch := t.branch(leaves, shared)
	if shared == depth {
		return branch
	}
	e := newEncoder()
	e.list(func() {
		e.bytes(hexPrefix(first.path[depth:shared], false))
		t.refer(e, first.path[:shared], branch)
	})
	return e.finish(legacyType)
}

// branch returns the node that splits the leaves by their nibble at depth.
func (t *blockTrie) branch(leaves []leaf, depth int) []byte {
	e := newEncoder()
	e.list(func() {
		for nibble := range byte(16) {
			end := 0
			for end < len(leaves) && leaves[end].path[depth] == nibble {
				end++
			}
			if end == 0 {
				e.bytes(nil)
				continue
			}
			t.refer(e, leaves[0].path[:depth+1], t.build(leaves[:end], depth+1))
			leaves = leaves[end:]
		}
		e.bytes(nil)
	})
	return e.finish(legacyType)
}

// refer writes a parent's reference to the node at path: its hash, or, when that is
// not shorter, the node itself.
func (t *blockTrie) refer(e encoder, path, node []byte) {
	if len(node) < 32 {
		_, _ = e.Write(node) // into a buffer
		return
	}
	t.keep(path, node)
	hash := crypto.HashData(t.hash, node)
	e.hash(&hash)
}

func (t *blockTrie) keep(path, node []byte) {
	t.nodes[string(path)] = node
	t.size += len(path) + len(node)
}

// hexPrefix returns the hex-prefix encoding of nibbles (Yellow Paper, appendix C).
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

// proof returns the nodes from the root down to the value at index: those whose
// path begins the key's path.
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

// encoder writes consensus RLP. Its fields are already the bytes that RLP stores, so
// one method serves numbers, hashes and data alike.
type encoder struct{ rlp.EncoderBuffer }

func newEncoder() encoder { return encoder{rlp.NewEncoderBuffer(nil)} }

// list writes a list with what body writes in it.
func (e encoder) list(body func()) {
	at := e.List()
	body()
	e.ListEnd(at)
}

// bytes writes each value as one RLP string.
func (e encoder) bytes(values ...[]byte) {
	for _, value := range values {
		e.WriteBytes(value)
	}
}

func (e encoder) hash(h *common.Hash) { e.WriteBytes(h[:]) }

func (e encoder) hashes(list []common.Hash) {
	e.list(func() {
		for i := range list {
			e.hash(&list[i])
		}
	})
}

// address writes 20 bytes, or the empty string for nil (contract creation).
func (e encoder) address(a *common.Address) {
	if a == nil {
		e.WriteBytes(nil)
		return
	}
	e.WriteBytes(a[:])
}

// finish returns the encoding after the type byte; legacy (0) has no such byte. It
// ends the use of the encoder.
func (e encoder) finish(kind byte) []byte {
	out := make([]byte, 0, 1+e.Size())
	if kind != legacyType {
		out = append(out, kind)
	}
	out = e.AppendToBytes(out)
	_ = e.Flush() // returns the pooled buffer; without a writer it cannot fail
	return out
}
