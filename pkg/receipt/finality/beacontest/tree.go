package beacontest

import (
	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/pkg/receipt/finality/internal/ssz"
)

// tree is a Merkle tree that holds only some leaves, by generalized index. A node above
// none of them is zero.
type tree map[uint64]finality.Root

// root returns the hash of the node at a generalized index; 1 is the whole tree's.
func (t tree) root(index uint64) finality.Root {
	if leaf, ok := t[index]; ok {
		return leaf
	}
	for above := range t {
		for above > index {
			above >>= 1
		}
		if above == index {
			return ssz.Hash(t.root(2*index), t.root(2*index+1))
		}
	}
	return finality.Root{}
}

// branch returns the siblings from a leaf up to the root.
func (t tree) branch(index uint64) []finality.Root {
	var branch []finality.Root
	for ; index > 1; index >>= 1 {
		branch = append(branch, t.root(index^1))
	}
	return branch
}
