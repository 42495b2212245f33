// Package recorded serves recorded blocks over JSON-RPC, as a node would: for
// tests, and for trying the service on real blocks without a network.
//
// It serves what verification needs (eth_chainId, transactions and receipts by hash,
// blocks by number, tag and hash, receipts of a block), and eth_blockNumber, in
// batches and compressed too. It executes nothing. All that it serves is from its files,
// except a head that is not a recorded block, which it makes up.
package recorded
