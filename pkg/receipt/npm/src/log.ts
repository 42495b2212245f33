import {
  base64, bytesOf, concat, equal, fromUtf8, hex, latin1, unbase64, unlatin1, utf8, type Text,
} from './bytes.ts';
import {sha256, verifyEd25519} from './crypto.ts';
import {LogError, malformed, VerificationError} from './errors.ts';
import {JsonNumber, listOf, loose, parseJson, text, type Form} from './json.ts';
import {commitment} from './keys.ts';
import type {Document} from './receipt.ts';

// Formats of C2SP (c2sp.org): tlog-proof, tlog-checkpoint, tlog-cosignature, tlog-policy, signed-note.

const maxEntries = 2 ** 50;
const maxNote = 64 << 10;
const maxProof = maxNote + (8 << 10);
const maxListed = 64;

/** The key of a log (type 1) or of a witness (type 4), with its name. */
interface LogKey { name: string; public: Uint8Array; type: 1 | 4; id: string }

// White_Space and Cc of Unicode.
const forbidden = /[\u0000-\u0020\u007f-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000+]/;
const notName = /[\u0009-\u000d \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000+]/; // of sumdb's notes
const isName = (name: string): boolean => name !== '' && utf8(name).length <= 255 && !forbidden.test(name);

/** Reads a verifier key: <name>+<key id>+<base64 of type and key>. The text is of one character a byte. */
function parseKey(line: string, type: 1 | 4): LogKey {
  const [rawName, id, ...rest] = line.split('+');
  const data = unbase64(rest.join('+'));
  const name = fromUtf8(unlatin1(rawName!));
  if (id === undefined || data?.length !== 33 || data[0] !== type || name === undefined || !isName(name)) {
    throw malformed(`not a verifier key of type ${type}`);
  }
  const key = {name, public: data.slice(1), type, id: hex(sha256(concat(utf8(name + '\n'), data)).slice(0, 4))};
  if (id !== key.id) throw malformed('a verifier key whose key id does not match');
  return key;
}

/** Reads a decimal number from 0 to 2^50 without leading zeros. */
function parseNumber(text: string): number {
  if (!/^(?:0|[1-9][0-9]{0,15})$/.test(text) || Number(text) > maxEntries) {
    throw malformed('not a decimal number from 0 to 2^50');
  }
  return Number(text);
}

function parseHash(text: string): Uint8Array {
  const hash = unbase64(text);
  if (hash?.length !== 32) throw malformed('not the base64 of 32 bytes');
  return hash;
}

/** The state of a log: how many entries it has, and their root. */
export interface Checkpoint { origin: string; size: number; root: Uint8Array }

/** Reads a signed checkpoint and checks the signatures of the known keys: those that verify are returned. */
function openNote(data: string, known: LogKey[]): {checkpoint: Checkpoint; signed: Map<LogKey, Uint8Array>} {
  if (data.length > maxNote) throw malformed('a checkpoint of more than 65536 bytes');
  const split = data.indexOf('\n\n');
  const note = fromUtf8(unlatin1(data));
  if (note === undefined || /[\u0000-\u0009\u000b-\u001f]/.test(note) || split < 0 || !data.endsWith('\n') || split + 2 === data.length) {
    throw malformed('checkpoint: malformed note');
  }
  const body = unlatin1(data.slice(0, split + 1));
  const lines = fromUtf8(unlatin1(data.slice(split + 2, -1)))!.split('\n');
  const parsed = lines.map((line) => {
    const [dash, name, ...rest] = line.split(' ');
    const signature = unbase64(rest.join(' '));
    if (rest.length === 0 || !signature) throw malformed('checkpoint: a signature line in another spelling');
    return {dash, name: name!, signature};
  });
  const signed = new Map<LogKey, Uint8Array>();
  for (const [i, {dash, name, signature}] of parsed.entries()) {
    if (dash !== '—' || name === '' || notName.test(name) || signature.length < 5 || i >= 100) {
      throw malformed('checkpoint: a malformed signature line');
    }
    const id = hex(signature.slice(0, 4));
    const keys = known.filter((k) => k.name === name && k.id === id);
    if (keys.length > 1) throw malformed('checkpoint: an ambiguous key');
    const key = keys[0];
    if (!key || signed.has(key)) continue;
    if (!verifies(key, body, signature.slice(4))) {
      throw new LogError('checkpointSignature', `signature of the checkpoint does not match: ${name}`);
    }
    signed.set(key, signature.slice(4));
  }
  return {checkpoint: parseCheckpoint(fromUtf8(body)!), signed};
}

function verifies(key: LogKey, body: Uint8Array, signature: Uint8Array): boolean {
  if (key.type === 1) return verifyEd25519(key.public, body, signature);
  if (signature.length !== 72 || signature[0]! > 0x7f) return false;
  const message = concat(utf8(`cosignature/v1\ntime ${timeOf(signature)}\n`), body);
  return verifyEd25519(key.public, message, signature.slice(8));
}

/** The time in a witness's signature, in Unix seconds. */
const timeOf = (signature: Uint8Array): bigint => BigInt('0x' + hex(signature.slice(0, 8)));

function parseCheckpoint(text: string): Checkpoint {
  const lines = text.split('\n');
  if (lines.length !== 4) throw malformed('a checkpoint that is not three lines');
  if (!isName(lines[0]!)) throw malformed('a checkpoint without an origin');
  const size = parseNumber(lines[1]!);
  const root = parseHash(lines[2]!);
  if (size === 0 && !equal(root, sha256(new Uint8Array(0)))) throw malformed("an empty log with a root that is not the empty tree's");
  return {origin: lines[0]!, size, root};
}

/** Which logs a reader trusts, and which witnesses must have cosigned a checkpoint. */
export interface Policy {
  logs: LogKey[];
  witnesses: {name: string; key: LogKey}[];
  quorum: Member | 'none';
}
type Member = {witness: number} | {threshold: number; members: Member[]};

/** Reads a policy file. A line that it does not know is refused. */
export function parsePolicy(document: Text): Policy {
  const data = latin1(bytesOf(document));
  if (data.length > maxNote) throw malformed('a policy of more than 65536 bytes');
  if (/[\u0000-\u0008\u000b-\u001f\u007f]/.test(data)) throw malformed('a policy with a control character');
  if (data !== '' && !data.endsWith('\n')) throw malformed('a policy whose last line does not end');
  const policy: {logs: LogKey[]; witnesses: Policy['witnesses']; quorum?: Policy['quorum']} = {logs: [], witnesses: []};
  const names = new Map<string, Member>();
  const used = new Set<string>();
  const keys: LogKey[] = [];
  let groups = 0;
  const listed = (key: LogKey): LogKey => { // a witness that counts twice would be a smaller quorum
    for (const k of keys) {
      if (equal(k.public, key.public) && (key.type === 4 || k.type === 4 || k.name === key.name)) {
        throw malformed(`the key of ${key.name} is listed twice`);
      }
    }
    keys.push(key);
    return key;
  };
  const define = (name: string, m: Member): void => {
    if (names.has(name) || name === 'none') throw malformed(`the name ${name} is taken`);
    names.set(name, m);
  };
  const line = (keyword: string, args: string[]): void => {
    const [a, b] = args as [string, string];
    if (keyword === 'log' && (args.length === 1 || args.length === 2)) {
      if (policy.logs.length === maxListed) throw malformed('more than 64 logs');
      policy.logs.push(listed(parseKey(a, 1)));
    } else if (keyword === 'witness' && (args.length === 2 || args.length === 3)) {
      if (policy.witnesses.length === maxListed) throw malformed('more than 64 witnesses');
      define(a, {witness: policy.witnesses.length});
      policy.witnesses.push({name: fromUtf8(unlatin1(a)) ?? a, key: listed(parseKey(b, 4))});
    } else if (keyword === 'group' && args.length >= 3) {
      if (++groups > maxListed) throw malformed('more than 64 groups');
      const members = args.slice(2).map((name) => {
        const m = names.get(name);
        if (!m || used.has(name)) throw malformed(`group ${a}: ${name} is not defined above, or is in a group already`);
        used.add(name);
        return m;
      });
      const threshold = b === 'any' ? 1 : b === 'all' ? members.length : /^[1-9][0-9]{0,3}$/.test(b) ? Number(b) : 0;
      if (threshold < 1 || threshold > members.length) throw malformed(`group ${a}: the threshold is not one`);
      define(a, {threshold, members});
    } else if (keyword === 'quorum' && args.length === 1) {
      if (policy.quorum) throw malformed('a second quorum');
      const m = a === 'none' ? 'none' : names.get(a);
      if (!m) throw malformed(`quorum: ${a} is not defined above`);
      policy.quorum = m;
    } else throw malformed('neither log, witness, group nor quorum');
  };
  for (const each of data.split('\n')) {
    const fields = each.split(/[ \t]/).filter((f) => f !== '');
    if (fields.length > 0 && !fields[0]!.startsWith('#')) line(fields[0]!, fields.slice(1));
  }
  if (!policy.quorum) throw malformed('a policy without a quorum');
  return {...policy, quorum: policy.quorum};
}

const isMet = (m: Member, counts: (place: number) => boolean): boolean =>
  'witness' in m ? counts(m.witness) : m.members.filter((each) => isMet(each, counts)).length >= m.threshold;

/** A verifier's own list of the generations of its log. */
export interface LogList { logs: Generation[]; mergeDelay: number; policy: string }
interface Generation { origin: string; key: string; prefix: string; from: string; to?: string; final?: string }

const seconds: Form<number> = (v, path) => {
  if (!(v instanceof JsonNumber) || !/^-?[0-9]{1,19}$/.test(v.text) || BigInt(v.text) < 0n || BigInt(v.text) >= 1n << 63n) {
    throw malformed(`${path} is not a number of seconds`);
  }
  return Number(v.text);
};
const word: Form<string> = (v, path) => (v === undefined ? '' : text(v, path));
const listForm = loose({
  logs: listOf(loose({origin: word, key: word, prefix: word, from: word, to: word, final: word})),
  mergeDelay: (v, path) => (v === undefined ? 0 : seconds(v, path)), policy: word,
});

/** Reads a verifier's list of its logs (/.well-known/receipt-log.json). Members that it does not know are left aside. */
export function parseList(document: Text, isTime: (text: string) => boolean): LogList {
  const data = bytesOf(document);
  if (data.length > 1 << 20) throw malformed('a list of logs of more than 1 MiB');
  const list = listForm(parseJson(data, {}), '');
  if (list.logs.length === 0 || list.logs.length > maxListed) throw malformed(`list of logs: ${list.logs.length} logs`);
  list.logs.forEach((g, i) => {
    const key = parseKey(latin1(utf8(g.key)), 1);
    const path = g.prefix;
    const clean = path === '/' || path.slice(1).split('/').every((part) => part !== '' && part !== '.' && part !== '..');
    if (key.name !== g.origin || !path.startsWith('/') || !clean || /[?#%\\ ]/.test(path) || !isTime(g.from)) {
      throw malformed(`list of logs: ${g.origin} is not as the format has it`);
    }
    if (i === 0 && g.to === '' && g.final === '') return;
    if (!isTime(g.to)) throw malformed(`list of logs: a time of ${g.origin} is not RFC 3339`);
    try {
      openFor(latin1(utf8(g.final)), key);
    } catch (err) {
      throw malformed(`list of logs: the final checkpoint of ${g.origin}: ${(err as Error).message}`);
    }
  });
  parsePolicy(list.policy);
  return list;
}

/** Reads a signed checkpoint of one log, and checks that log's signature. */
function openFor(data: string, key: LogKey): Checkpoint {
  const {checkpoint, signed} = openNote(data, [key]);
  if (!signed.has(key) || checkpoint.origin !== key.name) {
    throw new LogError('unknownLog', `not signed by a log of the policy: ${checkpoint.origin}`);
  }
  return checkpoint;
}

/** The log of which an origin, HOST/v1/log/N, is a generation; undefined for other origins. */
function generationOf(origin: string): string | undefined {
  const at = origin.lastIndexOf('/');
  const n = origin.slice(at + 1);
  return at >= 1 && /^[1-9][0-9]{0,15}$/.test(n) && Number(n) <= maxEntries ? origin.slice(0, at) : undefined;
}
const sameLog = (a: string, b: string): boolean =>
  a === b || (generationOf(a) !== undefined && generationOf(a) === generationOf(b));

/** Checks that a checkpoint which the policy accepts is of a log that the verifier lists. */
function admit(policy: Policy, list: LogList | undefined, checkpoint: string, origin: string, index: number): void {
  const unlisted = (why: string): VerificationError => new LogError('unlisted', `a log that the verifier does not list: ${why}`);
  const g = list?.logs.find((each) => each.origin === origin);
  if (g) {
    const key = parseKey(latin1(utf8(g.key)), 1);
    try {
      openFor(checkpoint, key);
    } catch (err) {
      throw unlisted(`${origin} with another key: ${(err as Error).message}`);
    }
    if (g.final && index >= openFor(latin1(utf8(g.final)), key).size) throw unlisted(`${origin} was closed before entry ${index}`);
    return;
  }
  if (list?.logs.some((each) => sameLog(each.origin, origin))) throw unlisted(origin);
  const generations = policy.logs.filter((l) => sameLog(l.name, origin)).length;
  if (generations > 1) throw unlisted(`the policy names ${generations} generations of ${origin}; give the verifier's list`);
}

/** That a receipt is in the log, and who saw it there. */
export interface Logged {
  origin: string;
  index: number; // of the receipt's entry, from 0
  size: number; // of the tree that was signed
  leaf: string; // hash of the entry, hexadecimal
  /** Witnesses of the policy that cosigned, with the times of their clocks. */
  cosignatures: {witness: string; time: string}[];
  /** The earliest time at which as many witnesses as the policy asks for had cosigned; null without any. */
  earliest: string | null;
}

/** Checks that a receipt is in a log that the policy trusts, and that witnesses saw it as the policy asks. */
export function included(doc: Document, proof: Text, policy: Policy, list?: LogList): Logged {
  const entry = utf8(`chain-evidence-receipt/v1\n${doc.signature.keyId}\n${commitment(doc)}\n`);
  const leaf = sha256(concat(Uint8Array.of(0), entry));
  const {index, hashes, note} = parseProof(latin1(bytesOf(proof)));
  const {checkpoint: c, signed} = openNote(note, [...policy.logs, ...policy.witnesses.map((w) => w.key)]);
  if (!policy.logs.some((l) => signed.has(l) && l.name === c.origin)) {
    throw new LogError('unknownLog', `not signed by a log of the policy: ${c.origin}`);
  }
  const times = policy.witnesses.map((w) => signed.get(w.key)).map((s) => s && timeOf(s));
  const quorum = policy.quorum;
  const met = (until?: bigint): boolean =>
    quorum === 'none' || isMet(quorum, (i) => times[i] !== undefined && (until === undefined || times[i]! <= until));
  if (!met()) throw new LogError('quorum', `too few witnesses: ${signed.size} keys of the policy signed`);
  admit(policy, list, note, c.origin, index);
  if (index >= c.size) throw new LogError('inclusion', `the entry is not in the log: index ${index} of ${c.size} entries`);
  if (!leads(hashes, 0, c.size, index, leaf, c.root)) throw new LogError('inclusion', 'the entry is not in the log');
  const sorted = times.filter((t) => t !== undefined).sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  const earliest = quorum === 'none' ? sorted[sorted.length - 1] : sorted.find((t) => met(t));
  return {
    origin: c.origin, index, size: c.size, leaf: hex(leaf),
    cosignatures: policy.witnesses.flatMap((w, i) => (times[i] === undefined ? [] : [{witness: w.name, time: date(times[i]!)}])),
    earliest: earliest === undefined ? null : date(earliest),
  };
}

/** A time in Unix seconds as RFC 3339, and as the number where no calendar has it. */
export const date = (seconds: bigint): string =>
  seconds < 253_402_300_800n ? new Date(Number(seconds) * 1000).toISOString().replace('.000Z', 'Z') : seconds.toString();

function parseProof(data: string): {index: number; hashes: Uint8Array[]; note: string} {
  const header = 'c2sp.org/tlog-proof@v1\n';
  if (!data.startsWith(header)) throw malformed('log proof: the first line is not c2sp.org/tlog-proof@v1');
  const rest = data.slice(header.length);
  const split = rest.indexOf('\n\n');
  if (rest.length > maxProof || split < 0 || split + 2 === rest.length) throw malformed('log proof: there is no checkpoint');
  const lines = rest.slice(0, split).split('\n');
  if (!lines[0]!.startsWith('index ')) throw malformed('log proof: a line does not begin with "index "');
  const index = parseNumber(lines[0]!.slice(6));
  if (lines.length > 52) throw malformed('log proof: more than 51 hashes');
  return {index, hashes: lines.slice(1).map(parseHash), note: rest.slice(split + 2)};
}

/** Reports whether hashes lead from a leaf to the root of a tree (RFC 6962 section 2.1.1). */
function leads(hashes: Uint8Array[], from: number, to: number, index: number, leaf: Uint8Array, root: Uint8Array): boolean {
  const node = (left: Uint8Array, right: Uint8Array): Uint8Array => sha256(concat(Uint8Array.of(1), left, right));
  const climb = (lo: number, hi: number, left: number): Uint8Array | undefined => {
    if (lo + 1 === hi) return left === 0 ? leaf : undefined;
    if (left === 0) return undefined;
    let k = 1;
    while (k * 2 < hi - lo) k *= 2;
    const sibling = hashes[left - 1]!;
    const below = index < lo + k ? climb(lo, lo + k, left - 1) : climb(lo + k, hi, left - 1);
    return below && (index < lo + k ? node(below, sibling) : node(sibling, below));
  };
  const found = climb(from, to, hashes.length);
  return found !== undefined && equal(found, root);
}
