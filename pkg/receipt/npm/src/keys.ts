import {base64, bytesOf, concat, hex, quantity, unbase64, utf8, type Text} from './bytes.ts';
import {sha256, verifyEd25519} from './crypto.ts';
import {malformed, RevokedKeyError, SignatureError, UnknownKeyError} from './errors.ts';
import {listOf, loose, orNull, parseJson, text, type Form} from './json.ts';
import {isChainId, kinds, type Document} from './receipt.ts';

/** A cut-off of a revoked key: what it signed stays good where the log has it before this index. */
export interface CutOff { origin: string; before: string }
/** A public key and its state: active, next, retired or revoked. The times inform and decide nothing. */
export interface Key {
  keyId: string;
  publicKey: string; // SPKI DER, base64
  status: string;
  validFrom?: string;
  validUntil?: string;
  revokedAt?: string;
  logged?: CutOff & {earlier?: CutOff[]};
}
export interface KeyDocument { chain: string; keys: Key[] }

// Null, and absence, are the empty value in a key document, which may grow.
const none = <T>(form: Form<T>, empty: T): Form<T> => (v, path) => (v === undefined || v === null ? empty : form(v, path));
const word = none(text, '');
type Logged = CutOff & {earlier: Logged[] | null};
const loggedForm: Form<Logged> = (v, path) => loose({
  origin: word, before: word, earlier: none(orNull(listOf(none(loggedForm, {origin: '', before: '', earlier: null}))), null),
})(v, path);
const keyForm = loose({
  keyId: word, publicKey: word, status: word, validFrom: word, validUntil: word, revokedAt: word,
  logged: none(orNull(loggedForm), null),
});
type ReadKey = ReturnType<typeof keyForm>;
const emptyKey: ReadKey = {keyId: '', publicKey: '', status: '', validFrom: '', validUntil: '', revokedAt: '', logged: null};
const documentForm = loose({
  algorithm: word, keyId: word, publicKey: word, publicKeyFormat: word, payloadType: word,
  payloadTypes: none(listOf(word), []), canonicalization: word, signing: word, chain: word,
  keys: none(listOf(none(keyForm, emptyKey)), []),
});

/** Reads a key document. Members that it does not know are left aside; everything it knows must be right. */
export function parseKeys(document: Text): KeyDocument {
  const d = documentForm(parseJson(bytesOf(document), {allowNull: true}), '');
  const must = (name: string, is: string, want: string): void => {
    if (is !== want) throw malformed(`key document: ${name} is not ${want}`);
  };
  must('algorithm', d.algorithm, 'Ed25519');
  must('publicKeyFormat', d.publicKeyFormat, 'spki-der-base64');
  must('payloadType', d.payloadType, kinds.transaction.payloadType);
  must('canonicalization', d.canonicalization, 'RFC8785');
  must('signing', d.signing, 'DSSEv1-PAE');
  if (!isChainId(d.chain)) throw malformed('key document: chain is not a CAIP-2 id of namespace eip155');
  const active = d.keys.filter((k) => k.status === 'active');
  if (active.some((k) => k.keyId !== d.keyId || k.publicKey !== d.publicKey)) {
    throw malformed('key document: the active key is not the one at the top');
  }
  if (active.length !== 1) throw malformed(`key document: ${active.length} active keys, not one`);
  for (const key of d.keys) validateKey(key);
  if (new Set(d.keys.map((k) => k.keyId)).size !== d.keys.length) throw malformed('key document: a key is listed twice');
  return {chain: d.chain, keys: d.keys.map(tidy)};
}

/** The key without its empty members. */
const tidy = (k: ReadKey): Key => {
  const {keyId, publicKey, status, logged} = k;
  const out: Key = {keyId, publicKey, status};
  for (const name of ['validFrom', 'validUntil', 'revokedAt'] as const) if (k[name]) out[name] = k[name];
  if (logged) {
    const {origin, before} = logged;
    out.logged = {origin, before, ...(logged.earlier?.length ? {earlier: logged.earlier.map((c) => ({origin: c.origin, before: c.before}))} : {})};
  }
  return out;
};

const spkiPrefix = Uint8Array.of(0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00);

function publicBytes(text: string): Uint8Array {
  const der = unbase64(text);
  if (der?.length !== 44 || spkiPrefix.some((b, i) => der[i] !== b)) {
    throw malformed('public key is not the base64 SPKI DER of an Ed25519 key');
  }
  return der.slice(12);
}

function validateKey(k: ReadKey): void {
  const id = 'sha256:' + hex(sha256(concat(spkiPrefix, publicBytes(k.publicKey))));
  if (k.keyId !== id) throw malformed('keyId is not the SHA-256 of the public key');
  if (!['active', 'next', 'retired', 'revoked'].includes(k.status)) throw malformed(`key ${id} has no known status`);
  if (![k.validFrom, k.validUntil, k.revokedAt].every((t) => t === '' || isTime(t))) {
    throw malformed(`key ${id} has a time that is not RFC 3339`);
  }
  if (!k.logged) return;
  const cutOffs = [{...k.logged, earlier: null}, ...(k.logged.earlier ?? [])];
  const origins = new Set(cutOffs.map((c) => c.origin));
  if (k.status !== 'revoked' || origins.has('') || origins.size !== cutOffs.length ||
    !cutOffs.every((c) => quantity(c.before, 63) && c.earlier === null)) {
    throw malformed(`key ${id} has a cut-off that is not one of a revoked key`);
  }
}

const timeForm = /^([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,][0-9]+)?(?:Z|[+-]([0-9]{2}):([0-9]{2}))$/;

/** Reports whether text is a time of RFC 3339, as Go's time.Parse reads it. */
export function isTime(text: string): boolean {
  const found = timeForm.exec(text);
  if (!found) return false;
  const [year, month, day, hour, minute, second, zoneHour, zoneMinute] = found.slice(1).map((x) => Number(x ?? 0)) as
    [number, number, number, number, number, number, number, number];
  const leap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  const days = [31, leap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1] ?? 0;
  return day >= 1 && day <= days && hour < 24 && minute < 60 && second < 60 && zoneHour <= 24 && zoneMinute <= 60;
}

/** What is signed: DSSE's pre-authentication encoding. */
export const pae = (doc: Document): Uint8Array => {
  const {payloadType} = doc.signature;
  return concat(utf8(`DSSEv1 ${payloadType.length} ${payloadType} ${doc.body.length} `), doc.body);
};

/**
 * Finds the key that a document names and checks the signature by it. With a log to be asked afterwards a
 * revoked key is returned too, because the log may have had the receipt before the key's cut-off.
 */
export function verifySignature(doc: Document, keys: KeyDocument, hasLog: boolean): Key {
  const key = keys.keys.find((k) => k.keyId === doc.signature.keyId);
  if (!key) throw new UnknownKeyError(`unknown key: ${doc.signature.keyId}`);
  if (!hasLog) checkState(key);
  if (!verifyEd25519(publicBytes(key.publicKey), pae(doc), doc.signatureBytes)) throw new SignatureError();
  return key;
}

/** Checks that a signature by the key is good, at an index of a log where it is in one. */
export function checkState(key: Key, logged?: {origin: string; index: number}): void {
  if (key.status !== 'revoked') return;
  const cutOffs = key.logged ? [key.logged, ...(key.logged.earlier ?? [])] : [];
  const before = logged && cutOffs.find((c) => c.origin === logged.origin)?.before;
  if (!before || BigInt(logged.index) >= BigInt(before)) throw new RevokedKeyError(`revoked key: ${key.keyId}`);
}

/** SHA-256 of what an entry of the log commits to. */
export const commitment = (doc: Document): string =>
  base64(sha256(concat(utf8('chain-evidence-receipt log entry v1\n'), doc.signatureBytes, pae(doc))));
