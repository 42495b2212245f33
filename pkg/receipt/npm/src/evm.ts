import {equal, toBytes, concat} from './bytes.ts';
import {keccak256, recover} from './crypto.ts';
import {bytes, decode, decodeList, encodeList, encodeString, encodeUint, split, uint, type Item} from './rlp.ts';

/** What is read of a block's header. Later forks only append members. */
export interface Header {
  hash: Uint8Array;
  parentHash: Uint8Array;
  stateRoot: Uint8Array;
  transactionsRoot: Uint8Array;
  receiptsRoot: Uint8Array;
  number: bigint;
  timestamp: bigint;
}

export function decodeHeader(raw: Uint8Array): Header {
  const m = decodeList(raw);
  if (m.length < 15 || m.length > 32) throw new Error(`header has ${m.length} members`);
  return {
    hash: keccak256(raw), parentHash: bytes(m[0]!, 32), stateRoot: bytes(m[3]!, 32), transactionsRoot: bytes(m[4]!, 32),
    receiptsRoot: bytes(m[5]!, 32), number: uint(m[8]!, 8), timestamp: uint(m[11]!, 8),
  };
}

const nibbles = (text: Uint8Array): number[] => Array.from(text).flatMap((b) => [b >> 4, b & 15]);

/**
 * The value that a Merkle Patricia trie (yellow paper, appendix D) holds under a key. nodes are the encoded
 * nodes on the way, in order; those below 32 bytes stand inside their parent and are not listed.
 */
export function verifyTrie(root: Uint8Array, key: Uint8Array, nodes: Uint8Array[]): Uint8Array {
  const absent = new Error('the trie does not hold the key');
  let child: Item = {list: false, content: root, raw: root};
  let path = nibbles(key);
  let used = 0;
  for (let found = false; !found;) {
    let raw = child.raw;
    if (child.list ? raw.length >= 32 : child.content.length !== 32) throw absent;
    if (!child.list) {
      if (used === nodes.length) throw new Error('a node is missing');
      raw = nodes[used++]!;
      if (!equal(keccak256(raw), child.content)) throw new Error('a node does not have the hash that its parent names');
    }
    const node = decodeList(raw);
    if (node.length === 17) {
      found = path.length === 0;
      child = found ? node[16]! : node[path[0]!]!;
      path = path.slice(1);
    } else if (node.length === 2) {
      const {part, leaf} = unpackPath(bytes(node[0]!));
      if (part.length > path.length || part.some((n, i) => n !== path[i]) || (leaf && part.length !== path.length)) {
        throw absent;
      }
      child = node[1]!;
      path = path.slice(part.length);
      found = leaf;
    } else throw new Error(`a node has ${node.length} items`);
  }
  if (child.list) throw new Error('rlp: a list, not a string');
  if (child.content.length === 0) throw absent;
  if (used < nodes.length) throw new Error('a node that is not on the path');
  return child.content;
}

/** Reads the hex-prefix encoding of a part of a path (yellow paper, appendix C). */
function unpackPath(text: Uint8Array): {part: number[]; leaf: boolean} {
  if (text.length === 0 || text[0]! > 0x3f) throw new Error('a path is not hex-prefix encoded');
  const all = nibbles(text);
  const leaf = (all[0]! & 2) !== 0;
  const odd = (all[0]! & 1) !== 0;
  if (!odd && all[1] !== 0) throw new Error('a path is not hex-prefix encoded');
  const part = all.slice(odd ? 1 : 2);
  if (!leaf && part.length === 0) throw new Error('an extension without a path');
  return {part, leaf};
}

/** What a contract's storage holds in a slot, proven from a state root: 32 bytes. */
export function storageAt(
  stateRoot: Uint8Array, contract: Uint8Array, slot: Uint8Array, account: Uint8Array[], storage: Uint8Array[],
): Uint8Array {
  const members = decodeList(verifyTrie(stateRoot, keccak256(contract), account));
  if (members.length !== 4) throw new Error(`account has ${members.length} members, not 4`);
  const word = decode(verifyTrie(bytes(members[2]!, 32), keccak256(slot), storage));
  if (word.list || word.content.length > 32) throw new Error('storage: not a word of 32 bytes');
  const value = new Uint8Array(32);
  value.set(word.content, 32 - word.content.length);
  return value;
}

/** What a transaction's encoding commits to. */
export interface Transaction {
  hash: Uint8Array;
  type: number;
  chainId: bigint | null;
  from: Uint8Array;
  signed: boolean; // whether from was recovered from a signature
  to: Uint8Array | null;
  value: bigint;
  selector: Uint8Array | null;
  nonce: bigint | null;
  accountNonce: boolean; // whether the nonce counts the sender's transactions
}

const layout = (text: string): string[] => text.split(' ');

/** Members of each type's payload. "to?" may be empty; "retry" is a nonce that counts the retries of a ticket. */
const layouts: Record<number, string[]> = {
  0x00: layout('nonce gasPrice gas to? value input v r s'),
  0x01: layout('chainId nonce gasPrice gas to? value input accessList v r s'), // EIP-2930
  0x02: layout('chainId nonce gasTip gasFee gas to? value input accessList v r s'), // EIP-1559
  0x03: layout('chainId nonce gasTip gasFee gas to value input accessList blobFee blobHashes v r s'), // EIP-4844
  0x04: layout('chainId nonce gasTip gasFee gas to value input accessList authorizations v r s'), // EIP-7702
  // Arbitrum: deposit, unsigned, contract, retry, submit retryable, internal
  0x64: layout('chainId requestId from to value'),
  0x65: layout('chainId from nonce gasFee gas to? value input'),
  0x66: layout('chainId requestId from gasFee gas to? value input'),
  0x68: layout('chainId retry from gasFee gas to? value input ticketId refundTo maxRefund submissionFee'),
  0x69: layout('chainId requestId from baseFee depositValue gasFee gas retryTo retryValue beneficiary maxSubmissionFee feeRefundTo retryData'),
  0x6a: layout('chainId input'),
  0x7e: layout('sourceHash from to? mint value gas isSystem input'), // OP-stack deposit
};

const address = (end: number): Uint8Array => {
  const out = new Uint8Array(20);
  out.set(toBytes(BigInt(end)), 20 - toBytes(BigInt(end)).length);
  return out;
};
const arbosAddress = address(0x0a4b05);
const retryableAddress = address(0x6e);
const submitRetryable = Uint8Array.of(0xc9, 0xf9, 0x5d, 0x32);

/** Parts an EIP-2718 envelope into its type and its payload. */
function splitType(raw: Uint8Array): {kind: number; payload: Uint8Array} {
  if (raw.length === 0) throw new Error('no bytes');
  if (raw[0]! >= 0xc0) return {kind: 0, payload: raw};
  if (raw[0] === 0 || raw[0]! > 0x7f) throw new Error('transaction type is not supported');
  return {kind: raw[0]!, payload: raw.subarray(1)};
}

/** Reads a transaction as its trie holds it, and recovers the sender where the type has a signature. */
export function decodeTransaction(raw: Uint8Array): Transaction {
  const {kind, payload} = splitType(raw);
  const names = layouts[kind];
  if (!names) throw new Error(`transaction type is not supported: 0x${kind.toString(16)}`);
  const m = decodeList(payload);
  if (m.length !== names.length) throw new Error(`transaction has ${m.length} members, not ${names.length}`);
  const tx: Transaction = {
    hash: keccak256(raw), type: kind, chainId: null, from: new Uint8Array(20), signed: false, to: null, value: 0n,
    selector: null, nonce: null, accountNonce: false,
  };
  if (kind === 0x69) [tx.to, tx.selector] = [retryableAddress, submitRetryable];
  if (kind === 0x6a) [tx.from, tx.to] = [arbosAddress, arbosAddress];
  if (kind === 0x7e) tx.accountNonce = true; // the nonce is in the receipt
  names.forEach((name, i) => {
    const item = m[i]!;
    if (name === 'chainId') tx.chainId = uint(item, 32);
    else if (name === 'nonce' || name === 'retry') [tx.nonce, tx.accountNonce] = [uint(item, 8), name === 'nonce'];
    else if (name === 'from') tx.from = bytes(item, 20);
    else if (name === 'to' || (name === 'to?' && (item.list || item.content.length > 0))) tx.to = bytes(item, 20);
    else if (name === 'value') tx.value = uint(item, 32);
    else if (name === 'input' && tx.to) {
      const input = bytes(item);
      if (input.length >= 4) tx.selector = input.slice(0, 4);
    }
  });
  if (names[names.length - 1] === 's') recoverSender(tx, m);
  return tx;
}

function recoverSender(tx: Transaction, m: Item[]): void {
  const at = m.length - 3;
  let [parity, r, s] = [uint(m[at]!, 32), uint(m[at + 1]!, 32), uint(m[at + 2]!, 32)];
  const signed = m.slice(0, at).map((x) => x.raw);
  if (tx.type === 0) {
    if (parity >= 35n) { // EIP-155: the chain id is signed
      tx.chainId = (parity - 35n) >> 1n;
      parity = (parity - 35n) & 1n;
      signed.push(encodeUint(tx.chainId), encodeUint(0n), encodeUint(0n));
    } else parity -= 27n;
  }
  const list = encodeList(...signed);
  const digest = keccak256(tx.type === 0 ? list : concat(Uint8Array.of(tx.type), list));
  const key = parity === 0n || parity === 1n ? recover(digest, r, s, parity === 1n) : undefined;
  if (!key) throw new Error('no sender follows from the signature');
  tx.from = keccak256(key).slice(12);
  tx.signed = true;
}

/** The address of the contract that a creation makes. */
export const contractAddress = (from: Uint8Array, nonce: bigint): Uint8Array =>
  keccak256(encodeList(encodeString(from), encodeUint(nonce))).slice(12);

/** What the chain's own receipt of a transaction commits to. */
export interface TxReceipt {
  type: number;
  success: boolean | null; // null before the Byzantium fork
  cumulativeGas: bigint;
  logs: {address: Uint8Array; topics: Uint8Array[]; data: Uint8Array}[];
  depositNonce: bigint | null;
}

export function decodeReceipt(raw: Uint8Array): TxReceipt {
  const {kind, payload} = splitType(raw);
  const m = decodeList(payload);
  const deposit = kind === 0x7e && m.length === 6;
  if (m.length !== 4 && !deposit) throw new Error(`transaction receipt has ${m.length} members`);
  let success: boolean | null = null;
  if (m[0]!.list || m[0]!.content.length !== 32) {
    const status = uint(m[0]!, 8);
    if (status > 1n) throw new Error('transaction receipt: neither a status nor a state root');
    success = status === 1n;
  }
  const cumulativeGas = uint(m[1]!, 8);
  bytes(m[2]!, 256);
  let depositNonce: bigint | null = null;
  if (deposit) {
    depositNonce = uint(m[4]!, 8);
    uint(m[5]!, 8);
  }
  const logs = split(m[3]!, Math.floor(m[3]!.content.length / 24)).map((log) => { // no log is shorter
    const members = split(log);
    if (members.length !== 3) throw new Error(`log has ${members.length} members, not 3`);
    const topics = split(members[1]!);
    if (topics.length > 4) throw new Error('not a list of up to 4 topics');
    return {address: bytes(members[0]!, 20), topics: topics.map((t) => bytes(t, 32)), data: bytes(members[2]!)};
  });
  return {type: kind, success, cumulativeGas, logs, depositNonce};
}
