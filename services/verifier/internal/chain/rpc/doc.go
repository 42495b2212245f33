// Package rpc reads transactions of EVM chains over JSON-RPC. Of what Read returns,
// nodes are trusted with nothing that package evm can recompute: a Reader fetches a
// transaction, its receipt and the whole block around it, and evm proves the block; no
// setting weakens that. Two things remain what nodes report: that a block hash is the
// canonical one at its height, and how far the chain is and is finalized. For both a
// quorum of nodes must agree.
//
// The flow of a read is in read.go; heads, finality and quorum in heads.go; the choice
// of a node, its detected capabilities and its circuit in nodes.go; the exchange with
// one node in transport.go; bounds of memory and the cache in memory.go; how a Reader
// is opened in reader.go. What is less than proven is in state.go, whose results the
// caller verifies, and in progress.go.
//
// The transport is our own, and not go-ethereum's rpc.Client, because it bounds the
// memory of responses together, reads results in place, accepts partial and
// shuffled batches, and falls back to single calls where a provider refuses batches.
package rpc
