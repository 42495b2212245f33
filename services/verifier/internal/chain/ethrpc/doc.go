// Package ethrpc reads transactions of EVM chains over JSON-RPC and believes
// nothing that it can recompute.
//
// A Reader asks a node for a transaction, its receipt and the whole block around
// it, and then rebuilds, always: the transaction's hash and sender, the block's
// transactionsRoot and receiptsRoot from all transactions and receipts, and the
// header's hash (file prove.go). What cannot be rebuilt is refused; no setting
// weakens that. Two things remain the nodes' word: that a block hash is the
// canonical one at its height, and that the chain is finalized up to there. For
// both a quorum of nodes must agree (quorum.go, heads.go).
//
// The package speaks raw JSON-RPC with its own types, because go-ethereum's
// ethclient refuses every block that holds an OP-stack or Arbitrum transaction.
//
// Where things are: rpc.go and batch.go talk to one node, endpoint.go remembers
// how it behaves, pool.go chooses one, heads.go watches how far the chain is,
// locate.go and fetch.go are the two round trips of a cold read, wire.go,
// transaction.go, receipt.go and header.go turn JSON into consensus bytes,
// prove.go and trie.go rebuild a block, cache.go keeps it, reader.go joins all.
package ethrpc
