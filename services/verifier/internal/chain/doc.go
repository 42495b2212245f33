// Package chain has the nouns of reading a public blockchain: one proven transaction
// at one moment (Snapshot), and every reason why it cannot be read (Fault).
//
// It holds meanings only. Package evm proves blocks, chain/rpc talks to nodes, package
// verification compares with expectations.
package chain
