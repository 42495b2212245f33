// Package backup saves what a stack must not lose into one archive, and puts it
// back: the users, the ledger, the key that signs receipts, and the public keys
// that signed before it.
//
// The archive is a tar: manifest.json first, which names every file with its
// size and SHA-256, then the files. Databases are saved as they are at one moment
// while the services go on: SQLite as a database file, Postgres in the format of
// pg_dump; one that is saved in another way may be left out. Nothing is put back
// before the whole archive has been looked at, and nothing is put where something
// is.
//
// Sessions and the secret that signs their cookies are left out on purpose: with
// them, a session of somebody who was deleted, or whose password changed, after
// the backup would live again.
package backup
