import {hex0x, quantity, unhex} from './bytes.ts';
import {ProofError} from './errors.ts';
import {
  contractAddress, decodeHeader, decodeReceipt, decodeTransaction, verifyTrie, type Header, type Transaction,
  type TxReceipt,
} from './evm.ts';
import {facts, type Check, type Fact, type Proof, type Receipt} from './receipt.ts';
import {encodeUint} from './rlp.ts';
import {findTransfer, transferMembers, type Log} from './transfer.ts';

/** What a proof leads to. */
interface Evidence { header: Header; index: bigint; transaction: Transaction; receipt: TxReceipt }

const inHeader = "in the block's header";
const headerHash = "hash of the block's header";
const inTransaction = 'in the transaction under transactionsRoot';
const transactionHash = 'hash of the transaction under transactionsRoot';
const inReceipt = 'in its receipt under receiptsRoot';
const asExpected = 'the proven facts are as expected';

/**
 * Checks that the header of a proof hashes to the receipt's block hash, that its roots hold the transaction and
 * its receipt at the index, and that these agree with the signed receipt. Returns what that proves, and the
 * transaction's logs.
 */
export function verifyProof(r: Receipt, proof: Proof): {proven: Fact[]; logs: Log[]} {
  let e: Evidence;
  try {
    e = follow(proof);
  } catch (err) {
    throw new ProofError(`proof does not hold: ${(err as Error).message}`);
  }
  const logs = e.receipt.logs.map((log) => ({
    address: hex0x(log.address), topics: log.topics.map(hex0x), data: hex0x(log.data),
  }));
  const faults: string[] = [];
  const proven = provenFacts(e);
  if (r.transfer) {
    const found = e.receipt.success ? findTransfer(r.request.transfer!, {
      from: hex0x(e.transaction.from), to: e.transaction.to && hex0x(e.transaction.to),
      valueWei: e.transaction.value.toString(),
    }, logs) : undefined;
    const how = r.request.transfer!.token === 'native' ? inTransaction : 'in the logs of its receipt under receiptsRoot';
    if (!found) faults.push("the proven logs hold no transfer as the receipt's request asks for");
    else proven.push(...transferMembers(found).map(([field, value]) => ({field, value, how})));
  }
  proven.push(...provenChecks(e, r.checks));
  const claimed = new Map(facts(r).map((f) => [f.field, f.value]));
  for (const {field, value} of proven) {
    if (claimed.get(field) !== value) faults.push(`${field} is ${value}, the receipt says ${claimed.get(field) ?? ''}`);
  }
  for (const check of r.checks) {
    if (check.name === 'sender' && check.method !== senderMethod(e)) {
      faults.push(`the sender is known by ${senderMethod(e)}, the receipt says ${check.method}`);
    }
  }
  if (faults.length > 0) throw new ProofError(`proof does not hold: ${faults.join('; ')}`);
  return {proven, logs};
}

/** Goes from the header through both tries. */
function follow(proof: Proof): Evidence {
  if (!quantity(proof.index, 64)) throw new Error('index is not a decimal number');
  const index = BigInt(proof.index);
  const header = decodeHeader(unhex(proof.headerRlp));
  const key = encodeUint(index);
  const transaction = decodeTransaction(verifyTrie(header.transactionsRoot, key, proof.transaction.map(unhex)));
  const receipt = decodeReceipt(verifyTrie(header.receiptsRoot, key, proof.receipt.map(unhex)));
  if (receipt.type !== transaction.type) throw new Error('transaction and receipt are of different types');
  return {header, index, transaction, receipt};
}

function provenFacts(e: Evidence): Fact[] {
  const {header: h, transaction: tx, receipt: r} = e;
  const out: Fact[] = [];
  const add = (field: string, value: string, how: string): void => void out.push({field, value, how});
  add('block.hash', hex0x(h.hash), headerHash);
  add('block.parentHash', hex0x(h.parentHash), inHeader);
  add('block.number', h.number.toString(), inHeader);
  add('block.timestamp', h.timestamp.toString(), inHeader);
  add('block.transactionsRoot', hex0x(h.transactionsRoot), inHeader);
  add('block.receiptsRoot', hex0x(h.receiptsRoot), inHeader);
  add('transaction.index', e.index.toString(), 'its key under transactionsRoot');
  add('transaction.hash', hex0x(tx.hash), transactionHash);
  add('transaction.type', '0x' + tx.type.toString(16), inTransaction);
  if (tx.chainId !== null) add('chain.id', 'eip155:' + tx.chainId, inTransaction);
  add('transaction.from', hex0x(tx.from), tx.signed ? "recovered from the transaction's signature"
    : "in what the transaction's hash covers, or fixed by its type");
  add('transaction.to', tx.to ? hex0x(tx.to) : 'null', inTransaction);
  add('transaction.selector', tx.selector ? hex0x(tx.selector) : 'null', inTransaction);
  add('transaction.valueWei', tx.value.toString(), inTransaction);
  const nonce = tx.nonce ?? r.depositNonce;
  add('transaction.nonce', nonce === null ? 'null' : nonce.toString(),
    tx.nonce === null && nonce !== null ? inReceipt : inTransaction);
  if (tx.to === null && nonce !== null && tx.accountNonce && r.success) {
    add('transaction.contractAddress', hex0x(contractAddress(tx.from, nonce)), 'hash of the proven sender and nonce');
  } else add('transaction.contractAddress', 'null', 'no contract whose address follows from proven facts');
  add('outcome.status', r.success === null ? 'null' : r.success ? 'success' : 'reverted', inReceipt);
  add('outcome.cumulativeGasUsed', r.cumulativeGas.toString(), inReceipt);
  add('outcome.logs', String(r.logs.length), inReceipt);
  if (e.index === 0n) {
    add('outcome.gasUsed', r.cumulativeGas.toString(), "cumulative gas of the block's first transaction");
  }
  return out;
}

const senderMethod = (e: Evidence): string => (e.transaction.signed ? 'secp256k1' : 'preimage');

/** The checks that the proof allows. The expectations were compared with the facts when the receipt was read. */
function provenChecks(e: Evidence, made: Check[]): Fact[] {
  const how = new Map([
    ['transactionHash', transactionHash], ['sender', 'by ' + senderMethod(e)], ['headerHash', headerHash],
    ['transactionsRoot', inTransaction], ['receiptsRoot', inReceipt], ['status', asExpected], ['from', asExpected],
    ['to', asExpected], ['selector', asExpected], ['transfer', asExpected], ['authorization', asExpected],
  ]);
  return made.flatMap(({name}) => {
    const known = how.get(name);
    return known ? [{field: 'checks.' + name, value: 'pass', how: known}] : [];
  });
}
