// Package chain is the vocabulary for what is known of a public blockchain: one
// proven transaction at one moment (Snapshot), who can tell it (Reader), and
// every reason why it cannot be told (Fault).
//
// It holds meanings only. It talks to no node, knows no HTTP, judges no
// expectation and signs nothing: package chain/rpc reads and package evm proves, package
// verification judges.
package chain
