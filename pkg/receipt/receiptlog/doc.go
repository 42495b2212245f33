// Package receiptlog is the public log of receipts as a reader meets it: what an entry is,
// how the log's checkpoints, tiles and proofs are written, and how a proof that a
// receipt is in the log is checked offline. testdata holds examples.
//
// The package uses no network, no clock and no database. Merkle trees and signed notes are those of
// golang.org/x/mod/sumdb; the formats are C2SP's tlog-tiles, tlog-checkpoint, tlog-cosignature,
// tlog-proof, tlog-policy and signed-note, as of commit 5ba5ee83. What it reads of a log is
// bounded. Entries, keys, checkpoints, proofs and the paths of tiles have one spelling.
//
// # Entry
//
// The entry of a receipt is three lines, 143 bytes:
//
//	chain-evidence-receipt/v1
//	<keyId of the key that signed>
//	<base64 of SHA-256("chain-evidence-receipt log entry v1\n" || signature || PAE)>
//
// where signature is the 64 bytes and PAE is what they sign ([receipt.PAE]). The log is
// public and what was asked is not: the entry is a commitment, and the signature, which
// cannot be guessed, is what blinds it. Ed25519 is deterministic, so a receipt that one
// key signs twice has one entry. A signature by another key gives another entry.
//
// The entry of a key records a state that the key document lists:
//
//	chain-evidence-key/v2 #<number>
//	<keyId>
//	<next, active, retired, revoked, or "revoked before 57 in 1, 100 in 2">
//
// The number counts the states of that key from 1, over all generations of the log: a state
// that comes again is an entry again. "100 in 2" is the cut-off in generation 2; a generation
// that is not named has no valid entry of the key. A new generation has the last such entry of
// each key again, by the same bytes. [Entry.Follows] says which state may follow which. Logs
// that are older than the numbers have
//
//	chain-evidence-key/v1
//	<keyId>
//	<next, active, retired, or "revoked before N">
//
// where N is the cut-off in that log itself, 0 where no entry of the key is valid. The leaf
// of an entry is SHA-256(0x00 || entry) (RFC 6962 section 2.1), [Leaf].
//
// # Checkpoint
//
// A checkpoint is a signed note of three lines: the origin, which is the log's name, the number of
// entries, and the root. The last element of the origin is the log's generation. The log signs with
// an Ed25519 key of type 0x01 under the name of the origin; a witness cosigns with one of type
// 0x04, with the time. Signature lines of keys that the policy does not list are ignored, and so is
// each line of a listed key but the first. If that does not verify, the whole note is invalid.
//
// # Proof
//
// A proof is c2sp.org/tlog-proof@v1 without extra data: the index, the hashes from the
// leaf's sibling upwards, an empty line, and a checkpoint with its cosignatures. [Verify]
// checks it together with the receipt's signature.
//
// # Policy
//
// A policy lists the logs and witnesses that a reader trusts, and the quorum: which of the
// witnesses must have cosigned. With "quorum none" no witness vouches for what the operator says.
// Whoever has the key of a listed log can have the witnesses cosign a tree under that log's name,
// so list the open generation alone, and a later one when it begins. A reader whose policy names
// several generations needs the verifier's list ([Policy.WithList]).
//
// # What it shows
//
// That the receipt was in the log when the witnesses saw that checkpoint, and that they
// saw no other history of this log. It says nothing about the transaction. A key that
// was revoked with a cut-off ([receipt.Key]) stays good for the entries before it.
package receiptlog
