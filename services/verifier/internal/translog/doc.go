// Package translog is the log of receipts: it gives queued entries their places
// in a Merkle tree, signs checkpoints of the tree, has witnesses cosign them, and
// publishes them with tiles and proofs. The formats are those of
// pkg/receipt/receiptlog; the tables are in the payments' database (package logsql).
//
// # Never two histories
//
// A log that signs two trees that do not continue each other is worth nothing from then
// on, and nothing can repair it. So an entry gets its place, that is on disk, and only
// then the tree is signed; and where anything shows that the tree may be older than what
// was signed before, the log freezes: sales go on, entries wait, nothing is signed, and an
// operator decides. It freezes by
//
//   - a witness that has cosigned a larger tree, or knows another one. Before the first
//     entry gets its place after a start, as many witnesses as the policy asks for must
//     have cosigned the tree and, unless it asks for none, so many that the others alone
//     could not meet the policy;
//   - the mark, a file beside the keys with the greatest tree that was signed, and what the
//     process itself has signed or read; also where the file is gone and the log was published or
//     is not the first generation;
//   - a restore from a backup, which marks the log as frozen in the ledger.
//
// verifier log resume, recover and close end that.
package translog
