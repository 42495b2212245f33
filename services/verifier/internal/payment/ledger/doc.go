// Package ledger keeps the payment ledger in SQLite (one machine) or
// Postgres (replicas).
//
// It owns the tables, their migrations and the group commit: writes of many
// payments share one transaction, and only a settlement's beginning waits for
// the disk. The others may be lost with the power, because the chain and a
// deterministic receipt restore them. The writes of a sale are in sale.go, in
// their order.
package ledger
