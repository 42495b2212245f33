package evm

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/pforte/pforte/pkg/receipt/internal/rlp"
)

// ErrTrieProof is a proof that does not lead from the root to a value.
var ErrTrieProof = errors.New("trie proof")

// branchItems is how many items a branch has, a child for each nibble and a value. No node has more.
const branchItems = 17

var errAbsent = errors.New("the trie does not hold the key")

// VerifyTrie returns the value that the Merkle Patricia trie (yellow paper, appendix D) with this
// root holds under key. nodes are the encoded nodes on the way from the root to the value, in that
// order; below the root's, those of less than 32 bytes stand inside their parent and are not listed.
// Proofs of absence are not accepted, nor are nodes off the path. ErrTrieProof.
func VerifyTrie[N ~[]byte](root Hash, key []byte, nodes []N) ([]byte, error) {
	value, err := walk(root, nibbles(key), nodes)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTrieProof, err)
	}
	return value, nil
}

func walk[N ~[]byte](root Hash, path []byte, nodes []N) ([]byte, error) {
	child := rlp.Item{Content: root[:]}
	for found := false; !found; {
		raw := child.Raw // a node that stands inside its parent
		switch {
		case child.List && len(raw) >= len(root), !child.List && len(child.Content) != len(root):
			return nil, errAbsent
		case !child.List && len(nodes) == 0:
			return nil, errors.New("a node is missing")
		case !child.List: // the hash of the next node
			raw, nodes = nodes[0], nodes[1:]
			if Keccak256(raw) != Hash(child.Content) {
				return nil, errors.New("a node does not have the hash that its parent names")
			}
		}
		node, err := decodeList(raw, branchItems)
		if err != nil {
			return nil, err
		}
		switch len(node.Items) {
		case branchItems:
			if found = len(path) == 0; found {
				child = node.Items[branchItems-1]
			} else {
				child, path = node.Items[path[0]], path[1:]
			}
		case 2: // a leaf or an extension: a part of the path, and a value or a child
			part, leaf, err := unpackPath(node.Bytes(0))
			if err != nil {
				return nil, err
			}
			rest, ok := bytes.CutPrefix(path, part)
			if !ok || leaf && len(rest) > 0 {
				return nil, errAbsent
			}
			child, path, found = node.Items[1], rest, leaf
		default:
			return nil, fmt.Errorf("a node has %d items", len(node.Items))
		}
	}
	switch {
	case child.List:
		return nil, errors.New("rlp: a list, not a string")
	case len(child.Content) == 0:
		return nil, errAbsent
	case len(nodes) > 0:
		return nil, errors.New("a node that is not on the path")
	}
	return child.Content, nil
}

// unpackPath reads the hex-prefix encoding of a part of a path (yellow paper,
// appendix C). leaf reports whether the node is a leaf and not an extension.
func unpackPath(text []byte) (part []byte, leaf bool, err error) {
	if len(text) == 0 || text[0] > 0x3f {
		return nil, false, errors.New("a path is not hex-prefix encoded")
	}
	part = nibbles(text)
	leaf, odd := part[0]&2 != 0, part[0]&1 != 0
	switch {
	case odd:
		part = part[1:]
	case part[1] != 0:
		return nil, false, errors.New("a path is not hex-prefix encoded")
	default:
		part = part[2:]
	}
	if !leaf && len(part) == 0 {
		return nil, false, errors.New("an extension without a path")
	}
	return part, leaf, nil
}

func nibbles(text []byte) []byte {
	out := make([]byte, 0, 2*len(text))
	for _, b := range text {
		out = append(out, b>>4, b&0xf)
	}
	return out
}
