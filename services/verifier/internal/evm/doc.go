// Package evm rebuilds blocks of EVM chains: from what a node reports of a block, as JSON, it
// recomputes the hash of every transaction, the roots of transactions and receipts, and the hash
// of the header; and, of a transaction that is asked for, its sender. What cannot be rebuilt is
// refused. It also has the rule which transfer an authorization made (EIP-3009). The package is
// pure: it does no I/O and knows no node.
//
// It has its own types, because go-ethereum's refuse every block that holds an OP-stack or
// Arbitrum transaction.
package evm
