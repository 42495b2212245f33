// Package sqlstore keeps users, applications and all else of auth that lasts, in SQLite or Postgres.
//
// It owns the whole database and its migrations, so that an act, what it uses up and
// its audit row are one transaction. SQLite has one writer at a time; on Postgres rows
// are locked where a rule depends on several of them (the last admin, the first user).
package sqlstore
