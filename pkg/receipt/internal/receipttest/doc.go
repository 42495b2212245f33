// Package receipttest makes receipts and proofs for tests out of recorded blocks.
// It encodes headers, transactions and receipts from their JSON-RPC form and
// builds the tries by itself, so that what it makes is independent of the code
// that reads proofs; the recorded roots and hashes say whether it is right.
package receipttest
