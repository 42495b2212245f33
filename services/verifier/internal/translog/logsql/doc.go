// Package logsql keeps the log of receipts in the database of the payments, SQLite or Postgres.
//
// The ledger of payments opens that database and migrates its tables. It also queues the entries of what is sold
// (table log_queue). This package reads the payments and their answers, takes entries from the queue and adds to it,
// and writes all other tables of the log.
package logsql
