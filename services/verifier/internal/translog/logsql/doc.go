// Package logsql keeps the log of receipts in the database of the payments, SQLite or Postgres.
//
// The ledger of payments opens that database and migrates its tables. It also queues the entry of what is sold, in
// the transaction that begins the settlement (table log_queue); this package reads the queue, the payments and their
// answers, and writes everything else of the log.
package logsql
