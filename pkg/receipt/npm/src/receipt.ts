import {bytesOf, equal, isHex, more, quantity, unbase64, utf8, type Text} from './bytes.ts';
import {malformed} from './errors.ts';
import {
  canonicalize, listOf, optional, orNull, parseJson, shape, text, whole, yes, type Form, type Json,
} from './json.ts';
import {fits, transferMembers, validateRequest, type ExpectedTransfer, type Member, type ProvenTransfer} from './transfer.ts';

export const maxSize = 16 << 20;

/** The two kinds of receipt: type, payload type and version of each belong together for ever. */
export const kinds = {
  transaction: {type: 'chain-evidence-receipt', payloadType: 'application/vnd.chain-evidence.receipt.v1+json'},
  transfer: {type: 'chain-evidence-transfer', payloadType: 'application/vnd.chain-evidence.transfer.v1+json'},
} as const;
export type Kind = keyof typeof kinds;

export interface Check { name: string; method: string; result: string }
export interface Expectations { status?: string; from?: string; to?: string; selector?: string; minConfirmations?: number }
/** The signed statement. Quantities are decimal strings, bytes are 0x and lower-case hexadecimal digits. */
export interface Receipt {
  type: string;
  version: number;
  chain: {id: string; name: string};
  request: {transactionHash: string; expectations: Expectations; transfer?: ExpectedTransfer};
  transaction: {
    hash: string; type: string; index: string; from: string; to: string | null; contractAddress: string | null;
    selector: string | null; valueWei: string; nonce: string | null;
  };
  block: {
    number: string; hash: string; parentHash: string; timestamp: string; transactionsRoot: string; receiptsRoot: string;
  };
  outcome: {status: string | null; gasUsed: string; cumulativeGasUsed: string; logs: string};
  finality: {tag: string; met: boolean};
  checks: Check[];
  verdict: string;
  transfer?: ProvenTransfer;
}

export interface Signature { algorithm: string; keyId: string; payloadType: string; value: string }
export interface Proof { headerRlp: string; index: string; transaction: string[]; receipt: string[] }
/** A signed receipt, read and not yet verified. */
export interface Document {
  kind: Kind;
  receipt: Receipt;
  body: Uint8Array; // the canonical bytes
  signature: Signature;
  signatureBytes: Uint8Array;
  proof: Proof | undefined;
}

const hexText: Form<string> = (v, path) => {
  const read = text(v, path);
  if (!isHex(read)) throw malformed(`${path} is not 0x and lower-case hexadecimal digits`);
  return read;
};

const receiptForm: Form<Receipt> = shape({
  type: text, version: whole,
  chain: shape({id: text, name: text}),
  request: shape({
    transactionHash: text,
    expectations: shape({
      status: optional(text), from: optional(text), to: optional(text), selector: optional(text),
      minConfirmations: optional(whole),
    }),
    transfer: optional(shape({
      token: text, from: optional(text), to: text, amount: optional(text), minAmount: optional(text),
      logPosition: optional(whole), authorization: optional(shape({authorizer: text, nonce: text})),
    })),
  }),
  transaction: shape({
    hash: text, type: text, index: text, from: text, to: orNull(text), contractAddress: orNull(text),
    selector: orNull(text), valueWei: text, nonce: orNull(text),
  }),
  block: shape({number: text, hash: text, parentHash: text, timestamp: text, transactionsRoot: text, receiptsRoot: text}),
  outcome: shape({status: orNull(text), gasUsed: text, cumulativeGasUsed: text, logs: text}),
  finality: shape({tag: text, met: yes}),
  checks: listOf(shape({name: text, method: text, result: text})),
  verdict: text,
  transfer: optional(shape({
    standard: text, token: orNull(text), from: text, to: text, amount: text, logPosition: orNull(whole), matches: text,
    toIn: text, toOut: text, authorization: orNull(shape({authorizer: text, nonce: text, logPosition: whole})),
  })),
});

const signatureForm: Form<Signature> = shape({algorithm: text, keyId: text, payloadType: text, value: text});
const proofForm: Form<Partial<Proof>> = shape({
  headerRlp: optional(hexText), index: optional(text), transaction: optional(listOf(hexText)),
  receipt: optional(listOf(hexText)),
});

/** Reads a signed receipt in either presentation, the plain answer or the DSSE envelope, without verifying it. */
export function parse(answer: Text): Document {
  const data = bytesOf(answer);
  if (data.length > maxSize) throw malformed(`more than ${maxSize} bytes`);
  const doc = parseJson(data, {allowNull: true});
  if (!(doc instanceof Map)) throw malformed('not an object');
  for (const name of doc.keys()) {
    if (!['receipt', 'signature', 'proof', 'payloadType', 'payload', 'signatures'].includes(name)) {
      throw malformed(`${name} is not known`);
    }
  }
  for (const name of ['payloadType', 'payload']) {
    if (doc.get(name) === null) doc.delete(name);
    else optional(text)(doc.get(name), name);
  }
  const has = (name: string): boolean => doc.has(name);
  const plain = has('receipt') && has('signature');
  const rest = has('payloadType') || has('payload') || has('signatures');
  const envelope = has('payloadType') && has('payload') && has('signatures');
  if (plain && !rest) return parsePlain(doc.get('receipt')!, doc.get('signature')!, doc.get('proof'));
  if (envelope && !has('receipt') && !has('signature') && !has('proof')) {
    return parseEnvelope(doc.get('payloadType') as string, doc.get('payload') as string, doc.get('signatures')!);
  }
  throw malformed('neither {receipt, signature, proof} nor a DSSE envelope');
}

function parsePlain(receipt: Json, signature: Json, proof: Json | undefined): Document {
  const read = parseReceipt(receipt);
  const signed = signatureForm(signature, 'signature');
  const bundle = optional(proofForm)(proof, 'proof');
  return {
    ...read, ...validateSignature(signed, read.kind),
    proof: bundle && {headerRlp: '0x', index: '', transaction: [], receipt: [], ...bundle},
  };
}

function parseEnvelope(payloadType: string, payload: string, signatures: Json): Document {
  const list = listOf(shape({keyid: optional(text), sig: optional(text)}))(signatures, 'signatures');
  if (list.length !== 1) throw malformed(`${list.length} signatures, not one`);
  const body = unbase64(payload);
  if (!body) throw malformed('payload is not base64');
  const read = parseReceipt(parseJson(body, {allowNull: true}));
  if (!equal(read.body, body)) throw malformed('payload is not canonical');
  const signature = {algorithm: 'Ed25519', keyId: list[0]!.keyid ?? '', payloadType, value: list[0]!.sig ?? ''};
  return {...read, ...validateSignature(signature, read.kind), proof: undefined};
}

function parseReceipt(value: Json): {receipt: Receipt; body: Uint8Array; kind: Kind} {
  const body = utf8(canonicalize(value));
  const receipt = receiptForm(value, 'receipt');
  return {receipt, body, kind: validate(receipt)};
}

export const isKeyId = (id: string): boolean => id.startsWith('sha256:') && isHex('0x' + id.slice(7), 32);

function validateSignature(signature: Signature, kind: Kind): {signature: Signature; signatureBytes: Uint8Array} {
  if (signature.algorithm !== 'Ed25519') throw malformed('the algorithm is not Ed25519');
  if (signature.payloadType !== kinds[kind].payloadType) throw malformed(`the payload type is not ${kinds[kind].payloadType}`);
  if (!isKeyId(signature.keyId)) throw malformed('the key id is not sha256: and 64 hexadecimal digits');
  const signatureBytes = unbase64(signature.value);
  if (signatureBytes?.length !== 64) throw malformed('the signature is not base64 of 64 bytes');
  return {signature, signatureBytes};
}

export const isChainId = (text: string): boolean =>
  text.startsWith('eip155:') && quantity(text.slice(7), 64) && text !== 'eip155:0';

const orNullText = (v: string | null): string => v ?? 'null';
const hexOrNull = (v: string | null, size: number): boolean => v === null || isHex(v, size);

export function members(r: Receipt): Member[] {
  const {transaction: t, block: b, outcome: o} = r;
  return [
    ['transaction.hash', t.hash, isHex(t.hash, 32)],
    ['transaction.type', t.type, /^0x(?:[0-9a-f]|[1-7][0-9a-f])$/.test(t.type)],
    ['transaction.index', t.index, quantity(t.index, 64)],
    ['transaction.from', t.from, isHex(t.from, 20)],
    ['transaction.to', orNullText(t.to), hexOrNull(t.to, 20)],
    ['transaction.contractAddress', orNullText(t.contractAddress), hexOrNull(t.contractAddress, 20)],
    ['transaction.selector', orNullText(t.selector), hexOrNull(t.selector, 4)],
    ['transaction.valueWei', t.valueWei, quantity(t.valueWei, 256)],
    ['transaction.nonce', orNullText(t.nonce), t.nonce === null || quantity(t.nonce, 64)],
    ['block.number', b.number, quantity(b.number, 64)],
    ['block.hash', b.hash, isHex(b.hash, 32)],
    ['block.parentHash', b.parentHash, isHex(b.parentHash, 32)],
    ['block.timestamp', b.timestamp, quantity(b.timestamp, 64)],
    ['block.transactionsRoot', b.transactionsRoot, isHex(b.transactionsRoot, 32)],
    ['block.receiptsRoot', b.receiptsRoot, isHex(b.receiptsRoot, 32)],
    ['outcome.status', orNullText(o.status), [null, 'success', 'reverted'].includes(o.status)],
    ['outcome.gasUsed', o.gasUsed, quantity(o.gasUsed, 64)],
    ['outcome.cumulativeGasUsed', o.cumulativeGasUsed, quantity(o.cumulativeGasUsed, 64)],
    ['outcome.logs', o.logs, quantity(o.logs, 64)],
    ...(r.transfer ? transferMembers(r.transfer) : []),
  ];
}

/** The checks that follow from a request: the six of the block, then one for each expectation. */
function checksFor(senderMethod: string, {expectations: e, transfer: x}: Receipt['request']): Check[] {
  const expected = x
    ? {status: true, transfer: true, authorization: x.authorization, minConfirmations: e.minConfirmations}
    : {status: e.status, from: e.from, to: e.to, selector: e.selector, minConfirmations: e.minConfirmations};
  return [
    ['canonicalBlock', 'block'], ['transactionHash', 'keccak256'], ['sender', senderMethod],
    ['transactionsRoot', 'mpt'], ['receiptsRoot', 'mpt'], ['headerHash', 'keccak256'],
    ...Object.entries(expected).filter(([, given]) => given).map(([name]) => [name, 'expectation']),
  ].map(([name, method]) => ({name: name!, method: method!, result: 'pass'}));
}

/** Checks that the receipt is one that may exist, and returns its kind. */
function validate(r: Receipt): Kind {
  const kind = (Object.keys(kinds) as Kind[]).find((k) => kinds[k].type === r.type);
  if (!kind || r.version !== 1) throw malformed('type is not as the format has it');
  const {request: q, transaction: t, outcome: o} = r;
  const e = q.expectations;
  const isTransfer = kind === 'transfer';
  const fault = (what: string, ok: boolean): void => {
    if (!ok) throw malformed(`${what} is not as the format has it`);
  };
  fault('transfer', (r.transfer !== undefined) === isTransfer);
  fault('request.transfer', (q.transfer !== undefined) === isTransfer);
  fault('verdict', r.verdict === 'verified');
  fault('chain.id', isChainId(r.chain.id));
  fault('chain.name', /^[a-z0-9-]{1,64}$/.test(r.chain.name));
  fault('finality', r.finality.tag === 'finalized' && r.finality.met);
  // What is empty or zero is absent in the format.
  fault('request.expectations', !Object.values(e).some((x) => x === '' || x === 0));
  fault('checks', ['secp256k1', 'preimage'].some((m) => JSON.stringify(checksFor(m, q)) === JSON.stringify(
    r.checks.map(({name, method, result}) => ({name, method, result})))));
  fault('request.transactionHash', q.transactionHash === t.hash);
  for (const [field, , ok] of members(r)) fault(field, ok);

  fault('transaction.selector', t.to !== null || t.selector === null);
  fault('transaction.contractAddress', t.contractAddress === null ||
    (t.to === null && o.status === 'success' && t.nonce !== null));
  fault('outcome.gasUsed', !more(o.gasUsed, o.cumulativeGasUsed) &&
    (t.index !== '0' || o.gasUsed === o.cumulativeGasUsed));
  if (isTransfer) transferHolds(r, fault);
  fault('expectations.status', e.status === undefined || e.status === o.status);
  fault('expectations.from', e.from === undefined || e.from === t.from);
  fault('expectations.to', e.to === undefined || e.to === t.to);
  fault('expectations.selector', e.selector === undefined || e.selector === t.selector);
  fault('expectations.minConfirmations', e.minConfirmations === undefined || e.minConfirmations <= 100_000);
  return kind;
}

/** Checks that the transfer is the one that is asked for, and can be one of this transaction. */
function transferHolds(r: Receipt, fault: (what: string, ok: boolean) => void): void {
  const [x, t, tx, e] = [r.request.transfer!, r.transfer!, r.transaction, r.request.expectations];
  const native = x.token === 'native';
  fault('request.transfer', validateRequest(x));
  const inLogs = (position: number): boolean => !more(String(position + 1), r.outcome.logs);
  fault('outcome.status', r.outcome.status === 'success');
  fault('request.expectations', Object.keys(e).every((name) => name === 'minConfirmations'));
  fault('transfer.standard', (t.standard === 'native') === native);
  fault('transfer.token', native ? t.token === null : t.token === x.token);
  fault('transfer.amount', fits(x, {token: '', from: t.from, to: t.to, value: t.amount}) && !more(t.amount, t.toIn));
  fault('transfer.logPosition', (t.logPosition === null) === native && (t.logPosition === null || inLogs(t.logPosition)));
  fault('transfer.logPosition', x.logPosition === undefined || (x.logPosition === t.logPosition && t.matches === '1'));
  fault('transfer.matches', !native || (t.matches === '1' && t.toIn === t.amount && t.toOut === '0'));
  fault('transfer.from', !native || (t.from === tx.from && t.to === tx.to && t.amount === tx.valueWei));
  const [a, wanted] = [t.authorization, x.authorization];
  fault('transfer.authorization', (a === null) === (wanted === undefined));
  fault('transfer.authorization', !a || !wanted ||
    (a.authorizer === wanted.authorizer && a.nonce === wanted.nonce && inLogs(a.logPosition)));
}

/** One member of a receipt and how it is known. */
export interface Fact {
  field: string; // path in the receipt, such as transaction.from
  value: string; // "null" where there is none
  how: string; // in plain words
}

/** Every member of a receipt that is a fact or a check, in order, as known by the signature. */
export function facts(r: Receipt): Fact[] {
  const by = 'stated by the signer';
  return [
    {field: 'chain.id', value: r.chain.id, how: by},
    {field: 'chain.name', value: r.chain.name, how: by},
    ...members(r).map(([field, value]) => ({field, value, how: by})),
    {field: 'finality.tag', value: r.finality.tag, how: by + ': the chain calls this block finalized'},
    ...r.checks.map(({name, result}) => ({field: 'checks.' + name, value: result, how: by + (
      name === 'canonicalBlock' ? ': this block is the canonical one at its height'
        : name === 'minConfirmations' ? ': this block has as many confirmations as expected' : '')})),
  ];
}

/** The facts that are not proven, and for which only the signature stands. */
export function attested(r: Receipt, proven: Fact[]): Fact[] {
  const known = new Set(proven.map((f) => f.field));
  return facts(r).filter((f) => !known.has(f.field));
}
