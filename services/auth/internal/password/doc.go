// Package password turns passwords into stored hashes and compares them:
// bcrypt of cost 12, and a bounded number of them at a time.
//
// # What is stored
//
// A password of at most 72 bytes without a NUL byte is hashed by plain bcrypt,
// "$2a$12$…", which other programs can read. Beyond that bcrypt is not exact:
// it ignores everything after 72 bytes, and takes "a\x00a" for "a" because it
// repeats the key with a NUL between. Such a password becomes
// bcrypt(base64(SHA-256(password))), stored as "sha256:$2a$12$…".
//
// Hashes of other programs ($2b$, $2y$, and $2a$ of any cost) are compared as
// they are. Where such a program has shortened a long password, so do we, for
// $2b$ and $2y$: these are never ours.
//
// # Equal work
//
// Whoever measures how long an answer takes must not learn whether a user
// exists. A comparison that fails has always cost as much as one of the
// configured cost, or of the costliest hash seen if that is higher (Seen): also
// for a hash of lower cost, for one that is malformed, and for a user who does
// not exist (VerifyDummy).
package password
