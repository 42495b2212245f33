// Package ledger keeps the payment ledger in SQLite (one machine) or
// Postgres (replicas).
//
// It owns the tables, their migrations and the group commit: writes of many
// payments share one transaction, which waits for the disk if one of them must: a
// settlement's beginning, and what operators write, among others. The rest may be lost
// with the power, because the chain and a deterministic receipt restore it. The writes
// of a sale are in sale.go, in their order.
//
// The log of receipts and the proofs of finality have their tables in the same
// database, and stores of their own. What a sale leaves for them is queued here, in
// the sale's transaction: outbox.go.
package ledger
