package mpt

import (
	"bytes"
	"errors"
	"fmt"

	"golang.org/x/crypto/sha3"

	"github.com/pforte/pforte/pkg/receipt/internal/rlp"
)

// ErrProof is a proof that does not lead from the root to a value.
var ErrProof = errors.New("trie proof")

// Nodes have one shape each: 17 items are a branch, two are a leaf or an extension.
const (
	branchItems = 17
	shortItems  = 2
	hashSize    = 32
)

// Verify returns the value that the trie with this root holds under key. nodes are
// the encoded nodes on the way from the root to the value, in that order; those
// below 32 bytes stand inside their parent and are not listed. Proofs of absence
// are not accepted, nor are nodes off the path.
func Verify(root [hashSize]byte, key []byte, nodes [][]byte) ([]byte, error) {
	w := walk{path: nibbles(key), nodes: nodes}
	node, err := w.load(root[:])
	if err != nil {
		return nil, err
	}
	for {
		child, found, err := w.step(node)
		if err != nil {
			return nil, err
		}
		if found {
			return w.end(child)
		}
		if node, err = w.follow(child); err != nil {
			return nil, err
		}
	}
}

// walk is the way through the trie: what is left of the path and of the nodes.
type walk struct {
	path  []byte // one nibble each
	nodes [][]byte
}

// load takes the next listed node, which must have this hash.
func (w *walk) load(hash []byte) ([]rlp.Item, error) {
	if len(w.nodes) == 0 {
		return nil, fmt.Errorf("%w: a node is missing", ErrProof)
	}
	raw := w.nodes[0]
	w.nodes = w.nodes[1:]
	if !bytes.Equal(keccak(raw), hash) {
		return nil, fmt.Errorf("%w: a node does not have the hash that its parent names", ErrProof)
	}
	item, err := rlp.Decode(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProof, err)
	}
	return split(item)
}

// follow goes to a child: a hash names a listed node, a list is the node itself.
func (w *walk) follow(child rlp.Item) ([]rlp.Item, error) {
	switch {
	case child.List && len(child.Raw) < hashSize:
		return split(child)
	case !child.List && len(child.Content) == hashSize:
		return w.load(child.Content)
	default:
		return nil, fmt.Errorf("%w: the trie does not hold the key", ErrProof)
	}
}

// step goes through one node: to a child, or to the value when found.
func (w *walk) step(node []rlp.Item) (to rlp.Item, found bool, err error) {
	if len(node) == branchItems {
		if len(w.path) == 0 {
			return node[branchItems-1], true, nil
		}
		to = node[w.path[0]]
		w.path = w.path[1:]
		return to, false, nil
	}
	part, leaf, err := compact(node[0])
	if err != nil {
		return rlp.Item{}, false, err
	}
	rest, ok := bytes.CutPrefix(w.path, part)
	if !ok || leaf && len(rest) > 0 {
		return rlp.Item{}, false, fmt.Errorf("%w: the trie does not hold the key", ErrProof)
	}
	w.path = rest
	return node[1], leaf, nil
}

// end takes the value at the end of the way.
func (w *walk) end(value rlp.Item) ([]byte, error) {
	content, err := value.Bytes()
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrProof, err)
	case len(content) == 0:
		return nil, fmt.Errorf("%w: the trie does not hold the key", ErrProof)
	case len(w.nodes) > 0:
		return nil, fmt.Errorf("%w: a node that is not on the path", ErrProof)
	}
	return content, nil
}

func split(item rlp.Item) ([]rlp.Item, error) {
	items, err := item.Split()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProof, err)
	}
	if len(items) != branchItems && len(items) != shortItems {
		return nil, fmt.Errorf("%w: a node has %d items", ErrProof, len(items))
	}
	return items, nil
}

// compact reads the hex-prefix encoding of a part of a path (yellow paper,
// appendix C) and whether it ends in a leaf.
func compact(item rlp.Item) (part []byte, leaf bool, err error) {
	text, err := item.Bytes()
	if err != nil || len(text) == 0 || text[0] > 0x3f {
		return nil, false, fmt.Errorf("%w: a path is not hex-prefix encoded", ErrProof)
	}
	part = nibbles(text)
	leaf, odd := part[0]&2 != 0, part[0]&1 != 0
	if odd {
		part = part[1:]
	} else {
		if part[1] != 0 {
			return nil, false, fmt.Errorf("%w: a path is not hex-prefix encoded", ErrProof)
		}
		part = part[2:]
	}
	if !leaf && len(part) == 0 {
		return nil, false, fmt.Errorf("%w: an extension without a path", ErrProof)
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

func keccak(data []byte) []byte {
	h := sha3.NewLegacyKeccak256()
	_, _ = h.Write(data) // a hash.Hash never fails
	return h.Sum(nil)
}
