// Package sqlstore keeps what auth has in SQL, such as users and applications, in SQLite or Postgres.
//
// It owns the database's tables and migrations, so that an act, what it uses up and its
// audit row can be one transaction. SQLite has one writer at a time; on Postgres rows or tables
// are locked where a rule depends on several rows (the last admin, the first user).
package sqlstore
