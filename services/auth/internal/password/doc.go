// Package password hashes passwords and compares them with stored hashes by bcrypt, a
// bounded number at a time. New hashes have cost 12 unless Options say otherwise.
//
// # Stored hashes
//
// A password of at most 72 bytes without a NUL byte is hashed by plain bcrypt,
// "$2a$12$…", which other programs can read. Beyond that bcrypt is not exact: it
// ignores everything after 72 bytes, and accepts "a\x00a" for "a" because it repeats
// the key with a NUL between. Such a password is stored as
// "sha256:" + bcrypt(base64(SHA-256(password))).
//
// Hashes of other programs ($2b$, $2y$, and $2a$ of any cost) are compared as they
// are. $2b$ and $2y$ are never ours; for them long passwords are shortened, as those
// programs did.
//
// # Forms of one text
//
// Keyboards send "ä" as one code point (NFC) or as two (NFD). A password is stored as
// NFC (but see forms). Verify compares NFC, then what was sent, then NFD, as older and
// imported hashes may be of any form. A comparison that fails tries one form for ASCII, two for NFC or NFD with
// umlauts, three for a mixture.
//
// # Equal work
//
// The time of an answer must not reveal whether a user exists. A comparison that
// fails costs at least as much as one of the configured cost, or of the costliest hash seen, up to
// MaxImportCost, if that is higher (Seen): also for a hash of lower cost, a malformed hash,
// and an unknown user (VerifyDummy). How many forms a Verify that
// fails compares depends on the password that was sent alone.
package password
