// Package ledger keeps the payment ledger in SQLite (one machine) or
// Postgres (replicas).
//
// It owns the tables, their migrations and the group commit: writes of many
// payments share one transaction, and only a settlement's beginning waits for
// the disk. The others may be lost with the power, because the chain and a
// deterministic receipt restore them. The writes of a sale are in sale.go, in
// their order.
//
// The log of receipts and the proofs of finality have their tables in the same
// database, and stores of their own. What a sale leaves for them is queued here, in
// the sale's transaction: outbox.go.
package ledger
