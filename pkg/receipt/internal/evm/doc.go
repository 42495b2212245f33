// Package evm reads what a block commits to, out of the very bytes that were
// hashed: headers, the values in a Merkle Patricia trie, transactions of every type
// of Ethereum, OP-stack chains and Arbitrum, and transaction receipts.
package evm
