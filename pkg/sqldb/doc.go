// Package sqldb opens the SQL database that a URL names, SQLite
// or Postgres, and brings its schema up to date.
//
// It owns connections, pragmas, pool sizes, migrations (goose) and the retry of
// transactions that lost against another. It knows no table of its users.
package sqldb
