// Package ssz hashes what the proofs of a beacon chain lead through: Merkle trees of
// SHA-256 over chunks of 32 bytes (consensus-specs, ssz/simple-serialize.md and
// ssz/merkle-proofs.md), and where in the trees the leaves are that a light client reads.
package ssz

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
)

// Hash returns the parent of two nodes.
func Hash[R ~[32]byte](left, right R) R {
	var both [64]byte
	copy(both[:32], left[:])
	copy(both[32:], right[:])
	return sha256.Sum256(both[:])
}

// Uint64 returns the chunk of a number: little endian, padded with zeros.
func Uint64[R ~[32]byte](v uint64) (chunk R) {
	binary.LittleEndian.PutUint64(chunk[:], v)
	return chunk
}

// Chunks splits bytes into chunks, the last of them padded with zeros.
func Chunks[R ~[32]byte](data []byte) []R {
	chunks := make([]R, (len(data)+31)/32)
	for i := range chunks {
		copy(chunks[i][:], data[32*i:])
	}
	return chunks
}

// Merkleize returns the root over leaves, which are padded with zero chunks to a power of two.
func Merkleize[R ~[32]byte](leaves []R) R {
	rows := Tree(leaves)
	return rows[len(rows)-1][0]
}

// Tree returns all rows of the tree over leaves, from the leaves, padded with zero chunks to a
// power of two, to the root.
func Tree[R ~[32]byte](leaves []R) [][]R {
	size := 1
	for size < len(leaves) {
		size *= 2
	}
	row := make([]R, size)
	copy(row, leaves)
	rows := [][]R{row}
	for len(row) > 1 {
		above := make([]R, len(row)/2)
		for i := range above {
			above[i] = Hash(row[2*i], row[2*i+1])
		}
		rows, row = append(rows, above), above
	}
	return rows
}

// Branch returns the proof of one leaf of a [Tree]: its sibling in each row but the root.
func Branch[R ~[32]byte](rows [][]R, leaf int) []R {
	branch := make([]R, 0, len(rows)-1)
	for _, row := range rows[:len(rows)-1] {
		branch = append(branch, row[leaf^1])
		leaf /= 2
	}
	return branch
}

// Depth returns how many hashes a branch to a generalized index has; -1 for the index 0, which
// no node has.
func Depth(index uint64) int { return bits.Len64(index) - 1 }

// Leads reports whether branch leads from leaf, at a generalized index, to root. The
// branch must have exactly the index's depth. For the index 0 it returns false.
func Leads[R ~[32]byte](root, leaf R, branch []R, index uint64) bool {
	if len(branch) != Depth(index) {
		return false
	}
	for _, sibling := range branch {
		if index&1 == 0 {
			leaf = Hash(leaf, sibling)
		} else {
			leaf = Hash(sibling, leaf)
		}
		index >>= 1
	}
	return leaf == root
}

// Indices are the generalized indices of what a light client reads; 0 where the fork has no such
// field.
type Indices struct {
	Finalized        uint64 // finalized_checkpoint.root in BeaconState
	CurrentCommittee uint64 // current_sync_committee in BeaconState
	NextCommittee    uint64 // next_sync_committee in BeaconState
	// BlockHash is the hash of an execution block in BeaconBlockBody: of the block's own, and
	// from Gloas on, where it is in the builder's bid, of its parent.
	BlockHash uint64
}

// Payload is the generalized index of the execution payload in BeaconBlockBody, from
// Capella to Fulu.
const Payload = 25

// Forks are the names of the forks that have light clients, in their order.
var Forks = []string{"altair", "bellatrix", "capella", "deneb", "electra", "fulu", "gloas"}

// IndicesOf returns the indices of a fork; false when it is unknown
// (consensus-specs, */light-client/sync-protocol.md).
func IndicesOf(fork string) (Indices, bool) {
	switch fork {
	case "altair", "bellatrix":
		return Indices{Finalized: 105, CurrentCommittee: 54, NextCommittee: 55}, true
	case "capella":
		return Indices{Finalized: 105, CurrentCommittee: 54, NextCommittee: 55, BlockHash: 412}, true
	case "deneb":
		return Indices{Finalized: 105, CurrentCommittee: 54, NextCommittee: 55, BlockHash: 812}, true
	case "electra", "fulu":
		return Indices{Finalized: 169, CurrentCommittee: 86, NextCommittee: 87, BlockHash: 812}, true
	case "gloas":
		return Indices{Finalized: 735, CurrentCommittee: 2945, NextCommittee: 2946, BlockHash: 2856}, true
	}
	return Indices{}, false
}
