// Package chain has the types for reading a public blockchain: one proven transaction at
// one moment (Snapshot), every reason why it cannot be read (Fault), and how a chain is
// configured (Config). It reads nothing itself: package evm proves blocks, chain/rpc talks
// to nodes, package verification compares with expectations.
package chain
