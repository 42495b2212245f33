// Package backup saves what a stack must not lose into one archive, and restores
// it: the users, the ledger, the keys that sign receipts, now and next, and their
// log, and the list of the other public keys.
//
// The archive is a tar: manifest.json first, which names every file with its
// size and SHA-256, then the files. Databases are saved as they are at one moment
// while the services go on: SQLite as a database file, Postgres in the format of
// pg_dump; one that is saved in another way may be left out. Nothing is restored
// before the whole archive was checked, and nothing is overwritten.
//
// Sessions and the secret that signs their cookies are left out on purpose: with
// them, a session of a user who was deleted, or whose password changed, after the
// backup would be valid again.
package backup
