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
// Where things are: call.go, batch.go and http.go talk to one node, endpoint.go remembers
// how it behaves and what it said last, pool.go chooses one, heads.go and poll.go
// watch how far the chain is, guard.go keeps a panic to the call that it came in,
// locate.go and fetch.go are the two round trips of a cold read, wire.go,
// transaction.go, receipt.go and header.go turn JSON into consensus bytes,
// prove.go and trie.go rebuild a block, raw.go has the bytes of transactions whose
// type is not known, cache.go keeps a proven block, reader.go joins all.
package ethrpc
