// Package bundlesql keeps proofs of finality in the database of the payments, SQLite or Postgres.
//
// The ledger of payments opens that database and migrates its tables. It also queues the sold blocks (table
// finality_queue); this package empties the queue, and writes all other tables of the proofs.
package bundlesql
