import hoodi from '../../finality/networks/hoodi.json' with {type: 'json'};
import mainnet from '../../finality/networks/mainnet.json' with {type: 'json'};
import sepolia from '../../finality/networks/sepolia.json' with {type: 'json'};
import {verifyAggregate} from './bls.ts';
import {bytesOf, concat, equal, hex0x, isHex, quantity, toBytes, unhex, utf8, type Text} from './bytes.ts';
import {sha256} from './crypto.ts';
import {FinalityError, malformed, type Code} from './errors.ts';
import {decodeHeader, storageAt, type Header} from './evm.ts';
import {canonicalize, filled, listOf, optional, parseJson, shape, text, whole, type Form} from './json.ts';
import {date} from './log.ts';
import type {Fact, Receipt} from './receipt.ts';

const maxSize = 256 << 10;
const maxSteps = 64;
const maxHeaders = 64;
const maxNodes = 64;
const maxMembers = 512;
const defaultMaxAge = 14 * 24 * 60 * 60;
const historyWindow = 8191n;
const historyContract = unhex('0x0000f90827f1c53a10cb7a02335b175320002935'); // EIP-2935

const number: Form<bigint> = (v, path) => {
  const read = text(v, path);
  if (!quantity(read, 64)) throw malformed(`${path} is not a decimal number`);
  return BigInt(read);
};
const bytesForm = (size?: number): Form<Uint8Array> => (v, path) => {
  const read = text(v, path);
  if (!isHex(read, size)) throw malformed(`${path} is not 0x and lower-case hexadecimal digits`);
  return unhex(read);
};
const root = bytesForm(32);
const branch = listOf(root);

const headerForm = shape({slot: number, proposerIndex: number, parentRoot: root, stateRoot: root, bodyRoot: root});
const stepForm = shape({
  attested: headerForm, signatureSlot: number, bits: bytesForm(), signature: bytesForm(96),
  signer: shape({
    aggregate: bytesForm(48), keysRoot: root, absent: listOf(shape({index: whole, key: bytesForm(48), branch})),
  }),
  finalized: headerForm, finalityBranch: branch, nextCommittee: optional(root), nextBranch: filled(branch),
});
const documentForm = shape({
  type: text, version: whole, chain: text, network: text, block: shape({number, hash: root}),
  anchor: shape({
    kind: text,
    checkpoint: shape({root, header: headerForm, committee: optional(root), branch: filled(branch)}),
    steps: filled(listOf(stepForm)),
    execution: shape({blockHash: root, branch}),
  }),
  link: shape({
    kind: text, headers: filled(listOf(bytesForm())), header: filled(bytesForm()),
    account: filled(listOf(bytesForm())), storage: filled(listOf(bytesForm())),
  }),
});
const networkForm = shape({
  name: text, chain: text, genesisValidatorsRoot: root, genesisTime: optional(number), secondsPerSlot: whole,
  slotsPerEpoch: whole, slotsPerPeriod: whole, committeeSize: whole,
  forks: listOf(shape({name: text, epoch: number, version: bytesForm(4)})),
});

type BeaconHeader = ReturnType<typeof headerForm>;
type Step = ReturnType<typeof stepForm>;
export type FinalityDocument = ReturnType<typeof documentForm>;
export type Network = ReturnType<typeof networkForm>;

function read<T>(document: Text, form: Form<T>): T {
  const data = bytesOf(document);
  if (data.length > maxSize) throw malformed(`more than ${maxSize} bytes`);
  const value = parseJson(data, {});
  canonicalize(value);
  return form(value, '');
}

/** Reads a finality document without verifying it. */
export function parseFinality(document: Text): FinalityDocument {
  const d = read(document, documentForm);
  const {anchor: a, link: l} = d;
  const signed = a.kind === 'sync-committee';
  const [headers, history] = [l.kind === 'headers', l.kind === 'history'];
  const fault = (what: string, ok: boolean): void => {
    if (!ok) throw malformed(`${what} is not as the format has it`);
  };
  fault('type', d.type === 'chain-evidence-finality' && d.version === 1);
  fault('network', d.network !== '' && d.network.length <= 64);
  fault('anchor.kind', signed || a.kind === 'pinned-block');
  fault('anchor.checkpoint', (a.checkpoint.committee !== undefined) === signed && (a.checkpoint.branch !== undefined) === signed);
  fault('anchor.steps', (a.steps !== undefined) === signed && (a.steps ?? []).length <= maxSteps);
  fault('link.kind', headers || history || l.kind === 'same');
  fault('link.headers', (l.headers !== undefined) === headers && (l.headers ?? []).length <= maxHeaders);
  fault('link.header', (l.header !== undefined) === history);
  fault('link.account', (l.account !== undefined) === history && (l.account ?? []).length <= maxNodes);
  fault('link.storage', (l.storage !== undefined) === history && (l.storage ?? []).length <= maxNodes);
  a.steps?.forEach((s, i, all) => {
    fault('anchor.steps', (s.nextCommittee !== undefined) === i < all.length - 1);
    fault('anchor.steps', (s.nextCommittee !== undefined) === (s.nextBranch !== undefined));
    fault('anchor.steps', 8 * s.bits.length <= maxMembers && s.signer.absent.length <= 8 * s.bits.length);
  });
  return d;
}

const forkNames = ['altair', 'bellatrix', 'capella', 'deneb', 'electra', 'fulu', 'gloas'];
/** Generalized indices by fork: finalized header, current and next committee in the state; block hash in the body. */
const indices: Record<string, [number, number, number, number]> = {
  altair: [105, 54, 55, 0], bellatrix: [105, 54, 55, 0], capella: [105, 54, 55, 412], deneb: [105, 54, 55, 812],
  electra: [169, 86, 87, 812], fulu: [169, 86, 87, 812], gloas: [735, 2945, 2946, 2856],
};

/** Reads the file of a network. */
export function parseNetwork(document: Text): Network {
  const n = read(document, networkForm);
  const fault = (what: string, ok: boolean): void => {
    if (!ok) throw malformed(`network: ${what} is not as the format has it`);
  };
  const within = (v: number, most: number): boolean => v > 0 && v <= most;
  fault('name', n.name !== '' && n.name.length <= 64);
  fault('chain', n.chain.startsWith('eip155:') && n.chain.length > 7);
  fault('genesisTime', n.genesisTime === undefined || (n.genesisTime > 0n && n.genesisTime <= 1n << 37n));
  fault('secondsPerSlot', within(n.secondsPerSlot, 1 << 16));
  fault('slotsPerEpoch', within(n.slotsPerEpoch, 1 << 20));
  fault('slotsPerPeriod', within(n.slotsPerPeriod, 1 << 20) && n.slotsPerPeriod % n.slotsPerEpoch === 0);
  fault('committeeSize', [8, 16, 32, 64, 128, 256, 512].includes(n.committeeSize));
  fault('forks', n.forks.length > 0);
  let [last, epoch] = [-1, 0n];
  for (const fork of n.forks) {
    const at = forkNames.indexOf(fork.name);
    fault('forks', at > last && fork.epoch >= epoch);
    [last, epoch] = [at, fork.epoch];
  }
  return n;
}

const networks = new Map<string, () => Network>([mainnet, sepolia, hoodi].map((n) => [n.chain, () => parseNetwork(n)]));

/** The networks of which package and Go program know the constants, by CAIP-2 id. */
export const isProvable = (chain: string): boolean => networks.has(chain);

/** Generalized index `place` in a block of this slot and its state; 0, which is nowhere, before the first fork. */
const indexAt = (n: Network, slot: bigint, place: 0 | 1 | 2 | 3): number => indices[forkAt(n, slot)?.name ?? '']?.[place] ?? 0;
const forkAt = (n: Network, slot: bigint): Network['forks'][number] | undefined =>
  n.forks.filter((f) => slot / BigInt(n.slotsPerEpoch) >= f.epoch).at(-1);

const hash = (left: Uint8Array, right: Uint8Array): Uint8Array => sha256(concat(left, right));
const zero = new Uint8Array(32);

/** The chunk of a number: little endian (SSZ). */
function chunk(n: bigint): Uint8Array {
  const out = new Uint8Array(32);
  out.set(toBytes(n).reverse());
  return out;
}

const headerRoot = (h: BeaconHeader): Uint8Array => hash(
  hash(hash(chunk(h.slot), chunk(h.proposerIndex)), hash(h.parentRoot, h.stateRoot)),
  hash(hash(h.bodyRoot, zero), hash(zero, zero)),
);

/** A key's leaf in a committee: 48 bytes, padded to two chunks. */
const keyRoot = (key: Uint8Array): Uint8Array => sha256(concat(key, zero.slice(16)));

/** Reports whether a branch leads from a leaf at a generalized index to a root. It has exactly the index's depth. */
function leads(root: Uint8Array, leaf: Uint8Array, branch: Uint8Array[], index: number): boolean {
  if (branch.length !== 31 - Math.clz32(index)) return false; // of 0: -1
  for (const sibling of branch) {
    leaf = index & 1 ? hash(sibling, leaf) : hash(leaf, sibling);
    index >>= 1;
  }
  return equal(leaf, root);
}

const fail = (code: Code, message: string): never => {
  throw new FinalityError(code, message);
};

/** What the reader brings: nothing of it may come with the document. */
export interface Trust {
  /** The root of a finalized beacon block, from a source of the reader's own. */
  checkpoint: string;
  /** The file of a network, where it is none of mainnet, sepolia and hoodi, or to say of which the checkpoint is. */
  network?: Text;
  /** How many seconds the checkpoint may lie before the finalized block: 14 days where it is absent. */
  maxCheckpointAge?: number;
}

/** What a document shows to those who trust its checkpoint. */
export interface Finality {
  network: string;
  anchor: string; // sync-committee or pinned-block
  link: string; // same, headers or history
  checkpoint: string;
  checkpointSlot: string;
  checkpointTime: string | null; // null where the network does not say when it began
  finalizedSlot: string; // of the beacon block that holds anchorBlock
  ageSeconds: number; // how far the checkpoint lies before it
  block: {number: string; hash: string};
  numberShown: boolean; // whether the block's number is proven, and not only its hash
  anchorBlock: {number: string; hash: string};
  firstPeriod: string; // of the first and the last committee, and how many signed where the fewest did
  lastPeriod: string;
  leastSigners: number;
  committeeSize: number;
}

/** Checks that a finality document shows its block to be final; header is the RLP of the block, where it is known. */
export function verifyFinality(d: FinalityDocument, trust: Trust, header?: string): Finality {
  let n: Network;
  if (trust.network !== undefined) n = parseNetwork(trust.network);
  else n = (networks.get(d.chain) ?? (() => fail('noNetwork', `no finality proof exists for this chain yet: ${d.chain}`)))();
  if (d.network !== n.name || d.chain !== n.chain) {
    fail('otherChain', `finality document of another chain: ${d.network} (${d.chain}), not ${n.name} (${n.chain})`);
  }
  const {checkpoint: c, steps = [], execution} = d.anchor;
  if (hex0x(c.root) !== trust.checkpoint) fail('otherCheckpoint', `finality document from another checkpoint: ${hex0x(c.root)}`);
  if (!equal(headerRoot(c.header), c.root)) fail('branch', 'the checkpoint does not have its root');
  if (c.committee && !leads(c.header.stateRoot, c.committee, c.branch!, indexAt(n, c.header.slot, 1))) {
    fail('branch', "the committee is not in the checkpoint's state");
  }
  const perPeriod = BigInt(n.slotsPerPeriod);
  const firstPeriod = c.header.slot / perPeriod;
  let [period, lastPeriod, committee, leastSigners] = [firstPeriod, firstPeriod, c.committee, n.committeeSize];
  for (const s of steps) {
    leastSigners = Math.min(leastSigners, verifyStep(n, s, committee!, period));
    lastPeriod = period;
    if (s.nextCommittee) [period, committee] = [period + 1n, s.nextCommittee];
  }
  const signed = steps.length > 0;
  const finalized = steps.at(-1)?.finalized ?? c.header;
  let age = 0n;
  if (signed) {
    // Holders of the last committee's keys can write any slot; only the period is sure.
    const begin = lastPeriod * perPeriod;
    const end = finalized.slot > begin ? finalized.slot : begin;
    age = (end > c.header.slot ? end - c.header.slot : 0n) * BigInt(n.secondsPerSlot);
    const limit = BigInt(Math.floor(trust.maxCheckpointAge || defaultMaxAge));
    if (age > limit) fail('checkpointTooOld', `the checkpoint is too old: ${age} seconds before the finalized block`);
  }
  if (!leads(finalized.bodyRoot, execution.blockHash, execution.branch, indexAt(n, finalized.slot, 3))) {
    fail('branch', 'the execution block is not in the finalized block');
  }
  const anchorNumber = verifyLink(d, execution.blockHash);
  let numberShown = d.link.kind !== 'same';
  if (header !== undefined) {
    let h: Header | undefined;
    try {
      h = decodeHeader(unhex(header));
    } catch { /* it is none */ }
    if (!h || !equal(h.hash, d.block.hash) || h.number !== d.block.number) {
      fail('otherBlock', `the header is not that of block ${d.block.number}`);
    }
    numberShown = true;
  }
  const genesis = n.genesisTime;
  const began = genesis === undefined ? undefined : genesis + c.header.slot * BigInt(n.secondsPerSlot);
  return {
    network: n.name, anchor: d.anchor.kind, link: d.link.kind, checkpoint: hex0x(c.root),
    checkpointSlot: c.header.slot.toString(), checkpointTime: began !== undefined && began < 253_402_300_800n ? date(began) : null,
    finalizedSlot: finalized.slot.toString(), ageSeconds: Number(age),
    block: {number: d.block.number.toString(), hash: hex0x(d.block.hash)}, numberShown,
    anchorBlock: {number: anchorNumber.toString(), hash: hex0x(execution.blockHash)},
    firstPeriod: signed ? firstPeriod.toString() : '0', lastPeriod: signed ? lastPeriod.toString() : '0',
    leastSigners: signed ? leastSigners : 0, committeeSize: signed ? n.committeeSize : 0,
  };
}

/** Checks that two thirds of a period's committee signed a step, and what it leads to; returns how many signed. */
function verifyStep(n: Network, s: Step, committee: Uint8Array, period: bigint): number {
  const size = n.committeeSize;
  if (8 * s.bits.length !== size) throw malformed(`${8 * s.bits.length} bits for a committee of ${size}`);
  const {attested, finalized, signer} = s;
  const perPeriod = BigInt(n.slotsPerPeriod);
  const signed = (member: number): boolean => ((s.bits[member >> 3]! >> (member & 7)) & 1) === 1;
  const members = Array.from({length: size}, (_, i) => i);
  const signers = members.filter(signed).length;
  if (s.signatureSlot <= attested.slot || attested.slot < finalized.slot) fail('committee', 'slots are not in their order');
  if (s.signatureSlot / perPeriod !== period) fail('committee', `signed in another period than ${period}`);
  if (!equal(hash(signer.keysRoot, keyRoot(signer.aggregate)), committee)) fail('committee', `another committee than that of period ${period}`);
  if (3 * signers < 2 * size) fail('tooFewSigners', `less than two thirds of the sync committee signed: ${signers} of ${size}`);
  const absent = members.filter((member) => !signed(member));
  absent.forEach((member, i) => {
    const one = signer.absent[i];
    if (one?.index !== member) return fail('committee', 'the absent keys are not those of the clear bits');
    if (!leads(signer.keysRoot, keyRoot(one.key), one.branch, size + member)) fail('branch', `the absent key ${member} is not the committee's`);
  });
  if (signer.absent.length !== absent.length) fail('committee', 'the absent keys are not those of the clear bits');
  if (!leads(attested.stateRoot, headerRoot(finalized), s.finalityBranch, indexAt(n, attested.slot, 0))) {
    fail('branch', 'the finalized header is not in the signed state');
  }
  if (s.nextCommittee) {
    if (!leads(attested.stateRoot, s.nextCommittee, s.nextBranch!, indexAt(n, attested.slot, 2))) {
      fail('branch', 'the next committee is not in the signed state');
    }
    if (finalized.slot / perPeriod !== period) fail('branch', 'the next committee is not final');
  }
  const message = signingRoot(n, headerRoot(attested), s.signatureSlot);
  if (!verifyAggregate(signer.aggregate, signer.absent.map((a) => a.key), message, s.signature)) {
    fail('committeeSignature', `the sync committee's signature does not match (forks are known up to ${n.forks.at(-1)!.name})`);
  }
  return signers;
}

/** What a sync committee signs in a slot; the fork is that of the slot before. */
function signingRoot(n: Network, header: Uint8Array, signatureSlot: bigint): Uint8Array {
  const version = new Uint8Array(32);
  const fork = forkAt(n, (signatureSlot > 1n ? signatureSlot : 1n) - 1n);
  if (fork) version.set(fork.version);
  const domain = concat(Uint8Array.of(7, 0, 0, 0), hash(version, n.genesisValidatorsRoot).slice(0, 28));
  return hash(header, domain);
}

/** Checks that the link ties the document's block to the anchor's, and returns the anchor's number. */
function verifyLink({link, block}: FinalityDocument, anchor: Uint8Array): bigint {
  const lost = (why: string): never => fail('link', `the block is not shown to precede the finalized one: ${why}`);
  const headerOf = (raw: Uint8Array): Header => {
    try {
      return decodeHeader(raw);
    } catch (err) {
      return lost((err as Error).message);
    }
  };
  if (link.kind === 'same') {
    if (!equal(anchor, block.hash)) lost('it is not the finalized block itself');
    return block.number;
  }
  if (link.kind === 'headers') {
    const headers = link.headers!;
    let next = anchor;
    headers.forEach((raw, i) => {
      const h = headerOf(raw);
      if (!equal(h.hash, next)) lost(`header ${i + 1} is not the parent of the one before`);
      if (h.number !== BigInt.asUintN(64, block.number + BigInt(headers.length - i))) lost(`header ${i + 1} has the number ${h.number}`);
      next = h.parentHash;
    });
    if (!equal(next, block.hash)) lost('the last header is not a child of the block');
    return BigInt.asUintN(64, block.number + BigInt(headers.length));
  }
  const h = headerOf(link.header!);
  if (!equal(h.hash, anchor)) lost("the header is not the finalized block's");
  const distance = h.number - block.number;
  if (distance < 1n || distance > historyWindow) lost(`block ${block.number} is not among the ${historyWindow} before ${h.number}`);
  const slot = new Uint8Array(32);
  const place = toBytes(block.number % historyWindow);
  slot.set(place, 32 - place.length);
  let kept: Uint8Array;
  try {
    kept = storageAt(h.stateRoot, historyContract, slot, link.account!, link.storage!);
  } catch (err) {
    return lost((err as Error).message);
  }
  if (!equal(kept, block.hash)) lost("the chain's record has another hash at this height");
  return h.number;
}

/** Checks that a document is about the block of a receipt and shows it to be final; returns what that proves. */
export function finalityOf(r: Receipt, d: FinalityDocument, trust: Trust, header?: string): {proven: Fact[]; result: Finality} {
  if (d.chain !== r.chain.id) fail('otherChain', `finality document of another chain: ${d.chain}, the receipt is of ${r.chain.id}`);
  if (d.block.number.toString() !== r.block.number || hex0x(d.block.hash) !== r.block.hash) {
    fail('otherBlock', `finality document of another block: ${d.block.number}, the receipt is about ${r.block.number}`);
  }
  const result = verifyFinality(d, trust, header);
  const final = (result.link === 'same' ? '' : 'an ancestor of ') +
    (result.anchor === 'pinned-block' ? 'the block of your checkpoint' : 'the block that a sync committee signed as final');
  const proven: Fact[] = [];
  if (trust.network !== undefined || result.anchor === 'sync-committee') {
    proven.push({field: 'chain.id', value: r.chain.id, how: 'the network of your checkpoint'});
  }
  proven.push({field: 'finality.tag', value: r.finality.tag, how: final});
  if (result.numberShown) proven.push({field: 'checks.canonicalBlock', value: 'pass', how: final});
  const confirmations = BigInt(result.anchorBlock.number) - BigInt(result.block.number) + 1n;
  const least = r.request.expectations.minConfirmations;
  if (least !== undefined && BigInt(least) <= confirmations) {
    proven.push({
      field: 'checks.minConfirmations', value: 'pass',
      how: result.numberShown
        ? `${confirmations} blocks are final, from this one to ${result.anchorBlock.number}` : 'this block is final',
    });
  }
  return {proven, result};
}

/** Reports whether text is the root of a beacon block. */
export const isRoot = (text: string): boolean => isHex(text, 32) && utf8(text).length === 66;
