// Package beaconchain makes proofs that sold blocks are final (package finality of
// pkg/receipt), for readers who trust one checkpoint of their own and not the seller.
//
// A Chain follows one beacon chain as a light client does: it verifies finality updates
// of its nodes with the code that readers verify with, and keeps how the sync committees
// hand over, one step a period. That is in follow.go. A worker makes a bundle for a sold
// block soon after the sale, while nodes still have the state that links the block to the
// finalized one: bundle.go. A document is put together of both when it is asked for:
// document.go.
//
// Nothing here is in the way of a sale: it only queues its blocks, which the worker finds.
// Everything that is kept is in the payments' database (package bundlesql), and may be
// written by any process that shares it.
package beaconchain
