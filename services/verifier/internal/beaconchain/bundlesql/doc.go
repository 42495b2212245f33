// Package bundlesql keeps proofs of finality in the database of the payments, SQLite or Postgres.
//
// The ledger of payments opens that database and migrates its tables. It also queues a sold block, in the transaction
// that ends its sale (table finality_queue); this package empties the queue, and writes all other tables of the proofs.
package bundlesql
