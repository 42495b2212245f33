/**
 * Checks signed receipts about blockchain transactions, offline: no network, no clock, no globals.
 * @module
 */
import type {Text} from './bytes.ts';
import {FinalityError, LogError, NoProofError, OtherKindError, malformed} from './errors.ts';
import {finalityOf, isRoot, parseFinality, verifyFinality as verifyDocument, type Finality, type Trust} from './finality.ts';
import {checkState, isTime, parseKeys, verifySignature, type Key} from './keys.ts';
import {included, parseList, parsePolicy, type Logged} from './log.ts';
import {verifyProof} from './proof.ts';
import {attested, parse, type Fact, type Kind, type Receipt} from './receipt.ts';
import {asTransfer, type Log, type ProvenTransfer, type Transfer} from './transfer.ts';

export * from './errors.ts';
export type {Text} from './bytes.ts';
export type {Finality, Trust} from './finality.ts';
export type {CutOff, Key} from './keys.ts';
export type {Logged} from './log.ts';
export type {Check, Expectations, Fact, Kind, Receipt} from './receipt.ts';
export type {ExpectedTransfer, Log, ProvenTransfer, Transfer} from './transfer.ts';

/** What the reader brings. Documents are text, bytes, or what JSON.parse made of them; text is the strictest. */
export interface Options {
  /** The seller's key document (/.well-known/receipt-signing-key.json), fetched once and kept. */
  keys: Text;
  /** The kind of receipt that is expected; another one is refused. Without it any is accepted: see Result.kind. */
  kind?: Kind;
  /** Whether an answer without its proof is refused. A DSSE envelope has none. Default: true. */
  requireProof?: boolean;
  /** The proof of the log (tlog-proof). With it a policy is needed, and with a policy it is. */
  log?: Text;
  /** Which logs and witnesses the reader trusts (tlog-policy). */
  policy?: Text;
  /** The seller's list of its logs (/.well-known/receipt-log.json), for a policy that names several generations. */
  list?: Text;
  /** The finality document of the receipt's block. With it a checkpoint is needed, and with a checkpoint it is. */
  finality?: Text;
  /** The root of a finalized beacon block, 0x and 64 lower-case digits, from a source that is not the seller. */
  checkpoint?: string;
  /** The file of a network, where it is none of mainnet, sepolia and hoodi. */
  network?: Text;
  /** How many seconds the checkpoint may lie before the finalized block. Default: 14 days. */
  maxCheckpointAge?: number;
}

/** What is known after a check. Whatever does not hold is thrown instead. */
export interface Result {
  valid: true;
  kind: Kind;
  receipt: Receipt;
  key: Key; // that signed the receipt
  proven: Fact[]; // follows from proofs alone
  attested: Fact[]; // stands on the signature alone
  transfer: ProvenTransfer | null; // of a transfer receipt
  transfers: Transfer[]; // ERC-20, in the proven logs
  logs: Log[]; // the transaction's events, proven
  log: Logged | null; // where the log has it
  finality: Finality | null; // what shows that its block is final
}

/** Checks a signed receipt: signature, keys, block proof, and log and finality where they are given. Throws VerificationError. */
export function verify(answer: Text, options: Options): Result {
  const doc = parse(answer);
  if (options.kind !== undefined && options.kind !== doc.kind) {
    throw new OtherKindError(`a receipt of another kind: ${doc.receipt.type}`);
  }
  const keys = parseKeys(options.keys);
  const log = logOf(options);
  const key = verifySignature(doc, keys, log !== undefined);
  const logged = log ? included(doc, log.proof, log.policy, log.list) : null;
  if (logged) checkState(key, logged);
  if (!doc.proof && (options.requireProof ?? true)) throw new NoProofError();
  const {proven, logs} = doc.proof ? verifyProof(doc.receipt, doc.proof) : {proven: [], logs: []};
  const trust = trustOf(options);
  const final = trust ? finalityOf(doc.receipt, parseFinality(options.finality!), trust, doc.proof?.headerRlp) : null;
  for (const fact of final?.proven ?? []) {
    if (!proven.some((known) => known.field === fact.field)) proven.push(fact);
  }
  return {
    valid: true, kind: doc.kind, receipt: doc.receipt, key, proven, attested: attested(doc.receipt, proven),
    transfer: doc.receipt.transfer ?? null, transfers: logs.flatMap((l) => asTransfer(l) ?? []), logs, log: logged,
    finality: final?.result ?? null,
  };
}

/**
 * Checks a finality document alone: that it shows its own block to be final, from the reader's checkpoint on.
 * Which block that is, the caller compares. Throws VerificationError.
 */
export function verifyFinality(document: Text, trust: Trust): Finality {
  checkRoot(trust.checkpoint);
  return verifyDocument(parseFinality(document), trust);
}

function checkRoot(checkpoint: string): void {
  if (!isRoot(checkpoint)) throw malformed('the checkpoint is not 0x and 64 lower-case hexadecimal digits');
}

function logOf({log, policy, list}: Options) {
  if (log === undefined && policy === undefined && list === undefined) return undefined;
  if (log === undefined) throw new LogError('noLogProof', 'a policy without the proof of the log');
  if (policy === undefined) throw new LogError('noPolicy', 'a proof of the log without a policy of your own');
  return {proof: log, policy: parsePolicy(policy), list: list === undefined ? undefined : parseList(list, isTime)};
}

function trustOf({finality, checkpoint, network, maxCheckpointAge}: Options): Trust | undefined {
  if (finality === undefined && checkpoint === undefined) return undefined;
  if (finality === undefined) throw new FinalityError('noFinality', 'a checkpoint without the finality document');
  if (checkpoint === undefined) {
    throw new FinalityError('noCheckpoint', 'pin a checkpoint: without one a finality proof proves nothing');
  }
  checkRoot(checkpoint);
  return {checkpoint, ...(network === undefined ? {} : {network}), ...(maxCheckpointAge === undefined ? {} : {maxCheckpointAge})};
}
