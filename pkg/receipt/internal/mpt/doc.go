// Package mpt checks Merkle proofs in Ethereum's Merkle Patricia trie (yellow
// paper, appendix D): that a root hash commits to one value under one key.
//
// It reads proofs only and builds no tries; what the value means is package
// evm's.
package mpt
