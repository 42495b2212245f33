// Package ledger keeps the payment ledger in SQLite (one machine) or
// Postgres (replicas).
//
// It owns the tables, their migrations and the group commit: writes of many payments share one
// transaction, which waits for the disk if one of them must: a settlement's beginning, and what
// operators write, among others. The rest may be lost with the power, and what a sale needs of it
// is restored from the chain and by a deterministic receipt. The claim of a payment and the beginning
// of its settlement are in sale.go, what other events write is in apply.go.
//
// The log of receipts and the proofs of finality have their tables in the same database, and
// stores of their own. What a sale leaves for them is queued here, in the sale's transaction:
// outbox.go.
package ledger
