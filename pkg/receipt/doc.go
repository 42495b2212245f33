// Package receipt is the signed evidence about one finalized transaction, or about one token
// transfer in it: its format, how it is signed, and how it is checked offline. This page is the
// format; testdata/vectors holds examples, made with the key of RFC 8032 section 7.1, test 1.
//
// The package uses no network and no clock, checks nothing but documents, and needs
// no Ethereum client. Reading chains and building proofs is in other packages.
//
// # Receipt
//
// A receipt is a JSON object with the members of [Receipt], all but transfer and request.transfer, and no
// others. What is not expected has no member in request.expectations, which may be an empty object;
// no other member may be absent. Quantities of the chain are decimal strings without leading zeros;
// bytes are 0x and lower-case hexadecimal digits (never the EIP-55 spelling); transaction.type is
// hexadecimal without leading zeros; null means that there is none. Text is printable ASCII, and
// the only numbers are version and minConfirmations.
//
// A receipt exists only when everything holds: every check is a pass, the verdict
// is "verified", finality is met. Checks come in the order of [ChecksFor]. It does
// not say when, by which key or for whom it was made, nor how far the chain had come, so
// that the same question about the same chain has the same bytes for ever.
//
// contractAddress is null, except for a creation that succeeded, if the transaction or its receipt commits
// to a nonce that counts the sender's transactions: the address follows from it. An Arbitrum
// retry's nonce does not count them. The nonce of an OP-stack deposit is the depositNonce in its
// receipt, which is part of the receipt's hash since the Canyon fork; before, it is null.
//
// # Transfer receipt
//
// A second kind of receipt also says that the transaction moved a token, or the chain's own coin,
// from one account to another. Its type is "chain-evidence-transfer", its version 1 and its payload
// type application/vnd.chain-evidence.transfer.v1+json. It has the members of the first kind and
// transfer, [ProvenTransfer]; request has transfer too, [ExpectedTransfer], and no expectation but
// minConfirmations; the transaction succeeded; the checks are those of [ChecksForTransfer].
// logPosition is a number, as version and minConfirmations are. In [ProvenTransfer], logPosition
// and token are null for the native coin, and authorization is null where none was asked for.
//
// [FindTransfer] defines which transfer answers a request. All of transfer is proven.
// It is worth what the token's contract is worth: compare token with the address that
// you trust, not with a symbol.
//
// A type and a version have one set of members and one payload type for ever. A signature
// covers the payload type, so that no receipt of one kind is one of the other: [Verify]
// accepts the first kind, [VerifyTransfer] the second.
//
// # Signature
//
// The body is the receipt in the form of RFC 8785 (JCS): no white space, members
// sorted. What is signed, with Ed25519 (RFC 8032), is
//
//	"DSSEv1 " len(type) " " type " " len(body) " " body
//
// where type is the payload type, application/vnd.chain-evidence.receipt.v1+json for
// the first kind, and the lengths are decimal (DSSE's pre-authentication encoding, [PAE]).
// keyId is "sha256:" and the hexadecimal SHA-256 of the public key's SPKI DER.
//
// # Presentations
//
// application/json is {"receipt", "signature", "proof"}, [Response]; proof may be absent.
// The receipt stands there as its canonical bytes. After a tool changed white space,
// order or escapes, canonicalizing it again ([Canonicalize]) yields the bytes that were
// signed. Readers refuse members that come twice, unknown members, and in the receipt
// text that is not printable ASCII and numbers other than integers from 0 to 2^53-1.
//
// application/vnd.dsse+json is a DSSE envelope, [Envelope], with the same bytes and
// the same signature and without the proof.
//
// # Proof
//
// The proof, [Proof], is not signed, because it leads to block.hash by itself. A
// verifier
//
//  1. hashes headerRlp (Keccak-256) and finds block.hash; reads parentHash,
//     transactionsRoot, receiptsRoot, number and timestamp at places 0, 4, 5, 8, 11;
//  2. walks transaction from transactionsRoot by the key RLP(index) to the
//     transaction's encoding, which hashes to transaction.hash; reads type, to,
//     nonce, value, selector and chain id, and recovers the sender from the
//     signature (secp256k1) where the type has one;
//  3. walks receipt from receiptsRoot by the same key to the transaction receipt;
//     reads status, cumulative gas, the logs and the depositNonce;
//  4. compares all of it with the receipt, and the expectations with it; of a transfer
//     receipt, finds the transfer, in the logs or for the native coin in the transaction
//     itself, and compares each of its members.
//
// Every node must be on the way, in order, and every encoding that is read canonical.
//
// That proves chain.id, the members of transaction, block, outcome and transfer, and all
// checks, relative to block.hash, but for these, which stand on the signature alone:
//
//   - that the block is canonical (checks.canonicalBlock) and final (finality),
//     and has so many confirmations (checks.minConfirmations): no proof within
//     one block can show it (a document beside it can: package finality);
//   - outcome.gasUsed, unless the transaction is the block's first: receipts
//     commit to the sum of the block's gas up to them;
//   - chain.name, a label; and chain.id for transactions that do not name their
//     chain (legacy ones without EIP-155, OP-stack deposits).
//
// A transaction of a type without a signature has its sender in what is hashed, or the
// type fixes it (check method "preimage"). What is read of these types:
//
//	0x7e  OP-stack deposit           from, to, value, selector; nonce from the receipt
//	0x64  Arbitrum deposit           from, to, value; no selector, no nonce
//	0x65  Arbitrum unsigned          from, to, value, selector, nonce
//	0x66  Arbitrum contract          from, to, value, selector; no nonce
//	0x68  Arbitrum retry             from, to, value, selector; nonce: which retry it is
//	0x69  Arbitrum submit retryable  from; to is 0x…6e, value 0, selector 0xc9f95d32; no nonce
//	0x6a  Arbitrum internal          selector; from and to are 0x…0a4b05, value 0; no nonce
//
// For a smart-account bundle (ERC-4337), success of the transaction is not success of
// each operation in it.
//
// # Keys
//
// The key document, [KeyDocument], lists every key with its state. Signatures of
// active, next and retired keys are good; those of a revoked key and of a key that is
// not listed are not. A receipt does not say when it was signed, so the times in the
// document decide nothing: to revoke a stolen key makes all its receipts invalid, except
// those that a public log had before a cut-off (logged, [Logged]; package receiptlog).
//
// To rotate: list the coming key as next; when every cached document has run out
// (five minutes), sign with it and list the old one as retired ([ParseKeys] takes the
// old key document as it is, and returns its active key as retired). Old receipts verify with the new document.
package receipt
