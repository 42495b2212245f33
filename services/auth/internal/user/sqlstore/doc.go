// Package sqlstore keeps users in SQLite or Postgres.
//
// It owns the tables "users" and "pending_revocations" and their migrations.
// SQLite has one writer at a time; on Postgres rows are locked where a rule depends on
// several of them (the last admin, the first user).
package sqlstore
