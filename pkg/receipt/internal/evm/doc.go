// Package evm reads what a block commits to, from the very bytes that were hashed:
// headers, the values in a Merkle Patricia trie, what a contract stores, transaction
// receipts, and transactions of Ethereum, OP-stack chains and Arbitrum.
package evm
