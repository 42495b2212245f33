// Package rpc reads transactions of EVM chains over JSON-RPC. It believes nothing
// that package evm can recompute: a Reader fetches a transaction, its receipt and
// the whole block around it, and evm proves the block; no setting weakens that. Two
// things remain the nodes' word: that a block hash is the canonical one at its
// height, and that the chain is finalized up to there. For both a quorum of nodes
// must agree (quorum.go, heads.go).
//
// Where things are: call.go, batch.go and http.go talk to one node, endpoint.go remembers
// how it behaves and what it said last, pool.go chooses one, heads.go and poll.go
// watch how far the chain is, guard.go keeps a panic to the call that it came in,
// locate.go, fetch.go and raw.go are the round trips of a cold read, cache.go keeps
// a proven block, reader.go joins all.
package rpc
