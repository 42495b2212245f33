// Package ledger keeps the payment ledger in SQLite (one machine) or
// Postgres (replicas).
//
// It owns the tables, their migrations and the group commit: writes of many payments share one
// transaction, which waits for the disk if one of them must: a settlement's beginning, and what
// operators write, among others. The rest may be lost with the power, and what a sale needs of it
// is restored from the chain and by a deterministic receipt. The writes of a sale are in sale.go
// until its settlement begins, and then in apply.go.
//
// The log of receipts and the proofs of finality have their tables in the same database, and
// stores of their own. What a sale leaves for them is queued here, in the sale's transaction:
// outbox.go.
package ledger
