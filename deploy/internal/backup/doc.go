// Package backup saves into one archive, and restores, the users, the ledger, the keys
// that sign receipts, now and next, and their log, and the list of the other public
// keys. The data key is kept apart.
//
// The archive is a tar: manifest.json first, which names every file with its
// size and SHA-256, then the files. Databases are saved as they are at one moment
// while the services go on: SQLite as a database file, Postgres in the format of
// pg_dump; one that is saved in another way may be left out. Nothing is restored
// before the whole archive was checked, and nothing is overwritten.
//
// Sessions, logins at applications and the secret that signs cookies are left out on
// purpose: with them, what was ended after the backup, as by a new password, would be
// valid again.
package backup
