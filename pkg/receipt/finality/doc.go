// Package finality checks, offline, that the block of a receipt is final, by what the
// validators of the chain signed instead of by the word of the receipt's signer. This page
// is the format of the document that shows it.
//
// The package uses no network and no clock. It trusts the root of a finalized beacon block,
// the checkpoint, that the reader has from a source of their own, and of a chain that it does
// not know the [Network] that the reader brings.
//
// # What it is worth
//
// A sync committee is 512 of the validators, about 900,000, drawn anew every 27 hours. It is
// a sample and not two thirds of the stake, and its members lose nothing by signing a lie
// together: no slashing exists for it. That is far better than one signer, and weaker
// than a node of one's own. A checkpoint that is too old is worth nothing, because
// validators who left can sign another history for nothing: see [Trust]. With
// [AnchorPinnedBlock] the checkpoint is not before the block, and no committee is needed.
//
// # Document
//
// A finality document is a JSON object with the members of [Document] and no others. It
// stands beside a receipt, which it does not change and which does not name it: it is
// found by the hash of the block. It is not signed. It may differ each time it is asked
// for, because any later finalized block shows the same. Bytes are 0x and lower-case
// hexadecimal digits; slots, block numbers and proposer indexes are decimal strings without
// leading zeros; the only numbers are version and index. It has at most [MaxSize] bytes.
//
// It consists of an anchor, which shows why an execution block is final, and a link, which
// shows that the document's block is that block or an ancestor of it. A kind of
// anchor or link has one meaning for ever; there may be new kinds.
//
// # Anchor
//
// pinned-block: the execution block is in the body of the checkpoint's own beacon block.
// Nothing in it is signed for one network: it is of the network that the checkpoint is of.
//
// sync-committee: the checkpoint's state names the sync committee of its period, and each
// step is signed by the committee of one period. A verifier
//
//  1. hashes the checkpoint's header and finds the trusted root; walks committee from
//     its stateRoot;
//  2. for each step, checks that signatureSlot > attested.slot >= finalized.slot and that
//     signatureSlot is of the period (the checkpoint's, then one more for each step);
//  3. checks that the signer, H(keysRoot, H(aggregate || 0^16)), is the committee, that
//     the absent keys are those of the clear bits, ascending, each at its place under
//     keysRoot, and that at least two thirds of the bits are set;
//  4. walks the root of the finalized header from the attested header's stateRoot;
//  5. subtracts the absent keys from the aggregate and checks the signature by the result
//     over the attested header (BLS, proof-of-possession ciphersuite, in the domain of
//     the sync committee, the fork of the slot before signatureSlot and the network);
//  6. in each step but the last, walks nextCommittee from the attested header's stateRoot
//     and checks that the attested and the finalized header are of the period;
//  7. walks the execution block's hash from the last finalized header's bodyRoot.
//
// The aggregate is the sum of all keys of the committee because the state transition
// computes it (consensus-specs, get_next_sync_committee). signatureSlot is not signed: it
// picks the period and the fork, and within both it proves nothing.
//
// The generalized indices are those of the fork of the header from which the walk starts;
// a branch has exactly the index's depth:
//
//	                              Altair to Deneb   Electra, Fulu   Gloas
//	finalized header in the state       105             169          735
//	current committee                    54              86         2945
//	next committee                       55              87         2946
//	execution block's hash in the  412 (Capella),       812         2856
//	body                            812 (Deneb)                (the parent's hash)
//
// # Link
//
// same: the document's block is the anchor's; its number is not shown. headers: RLP headers from the anchor's block
// down to the child of the document's block; each hashes to the parentHash of the one before.
// history: the header of the anchor's block, and under its stateRoot the place where the chain
// itself keeps the hashes of its last 8191 blocks (EIP-2935): contract [HistoryContract],
// slot [HistorySlot].
//
// # Networks
//
// What binds a signature to one chain is in [Network], never in the document. Mainnet and
// Hoodi are known with their forks up to Fulu, Sepolia up to Gloas; a later fork needs a
// later version of this package.
package finality
