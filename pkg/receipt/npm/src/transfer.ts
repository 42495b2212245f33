import {isHex, more, quantity} from './bytes.ts';

export interface ExpectedTransfer {
  token: string; // its contract's address, or "native"
  from?: string;
  to: string;
  amount?: string; // atomic units; exactly one of amount and minAmount is there
  minAmount?: string;
  logPosition?: number;
  authorization?: {authorizer: string; nonce: string};
}
/** The transfer that answers a request: see the package page, "Which transfer answers". */
export interface ProvenTransfer {
  standard: string; // erc20 or native
  token: string | null; // null for the native coin
  from: string;
  to: string;
  amount: string; // atomic units
  logPosition: number | null; // among the transaction's own logs
  matches: string; // how many logs fit
  toIn: string; // sums of this token to and from `to` in the transaction
  toOut: string;
  authorization: {authorizer: string; nonce: string; logPosition: number} | null;
}

/** A member of the receipt that is a fact: its path, its value for a list of facts, whether it has its one spelling. */
export type Member = [field: string, value: string, ok: boolean];

/** An event of the transaction, as its proven receipt holds it. */
export interface Log { address: string; topics: string[]; data: string }
/** A token movement as the token's own contract logged it (ERC-20). */
export interface Transfer { token: string; from: string; to: string; value: string }

const transferTopic = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef';
const usedTopic = '0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5';
const padded = '0x000000000000000000000000';
const zeroAddress = '0x' + '0'.repeat(40);
const nativeLogs = '0x' + 'f'.repeat(39) + 'e'; // EIP-7708: the native coin, never a token

/** Reads a log as an ERC-20 transfer; undefined when it is none. */
export function asTransfer(log: Log): Transfer | undefined {
  const [topic, from, to] = log.topics;
  if (log.topics.length !== 3 || topic !== transferTopic || log.data.length !== 66) return undefined;
  if (!from!.startsWith(padded) || !to!.startsWith(padded)) return undefined;
  return {token: log.address, from: '0x' + from!.slice(26), to: '0x' + to!.slice(26), value: BigInt(log.data).toString()};
}

/**
 * Finds the transfer that a request asks for in a transaction that succeeded and in its logs. It is one log,
 * never a sum: the lowest that fits or, with an authorization, the one that belongs to it.
 */
export function findTransfer(
  x: ExpectedTransfer, tx: {from: string; to: string | null; valueWei: string}, logs: Log[],
): ProvenTransfer | undefined {
  if (!validateRequest(x)) return undefined;
  if (x.token === 'native') {
    if (tx.to === null || !fits(x, {token: '', from: tx.from, to: tx.to, value: tx.valueWei})) return undefined;
    return {
      standard: 'native', token: null, from: tx.from, to: tx.to, amount: tx.valueWei, logPosition: null, matches: '1',
      toIn: tx.valueWei, toOut: '0', authorization: null,
    };
  }
  const transfers = new Map<number, Transfer>();
  const fitting: number[] = [];
  let [toIn, toOut] = [0n, 0n];
  logs.forEach((log, i) => {
    const t = asTransfer(log);
    if (!t || t.token !== x.token || t.token === nativeLogs) return;
    transfers.set(i, t);
    if (t.to === x.to) toIn += BigInt(t.value);
    if (t.from === x.to) toOut += BigInt(t.value);
    if (fits(x, t) && (x.logPosition === undefined || x.logPosition === i)) fitting.push(i);
  });
  if (fitting.length === 0) return undefined;
  let at = fitting[0]!;
  let authorization: ProvenTransfer['authorization'] = null;
  if (x.authorization) {
    const paid = paidBy(x, x.authorization, logs, transfers, fitting);
    if (!paid) return undefined;
    at = paid.at;
    authorization = {...x.authorization, logPosition: paid.mark};
  }
  const t = transfers.get(at)!;
  return {
    standard: 'erc20', token: t.token, from: t.from, to: t.to, amount: t.value, logPosition: at,
    matches: String(fitting.length), toIn: toIn.toString(), toOut: toOut.toString(), authorization,
  };
}

/** Reports whether parties and amount are as expected. */
export function fits(x: ExpectedTransfer, t: Transfer): boolean {
  const payer = x.authorization?.authorizer ?? x.from;
  if (t.to !== x.to || t.from === t.to || (payer !== undefined ? t.from !== payer : t.from === zeroAddress)) return false;
  return x.amount !== undefined ? t.value === x.amount : !more(x.minAmount!, t.value);
}

/**
 * The transfer that an authorization made, and the log that marks it as used: the token's first transfer after
 * the mark and before its next mark. Only where the transaction has one mark, and no transfer of the payer comes
 * next, it may be an earlier one.
 */
function paidBy(
  x: ExpectedTransfer, auth: {authorizer: string; nonce: string}, logs: Log[], transfers: Map<number, Transfer>,
  fitting: number[],
): {at: number; mark: number} | undefined {
  const isMark = (log: Log): boolean => log.address === x.token && log.topics.length === 3 && log.topics[0] === usedTopic;
  let [marks, ours, paidOther] = [0, -1, false];
  for (const [m, log] of logs.entries()) {
    if (!isMark(log)) continue;
    marks++;
    if (log.topics[1] !== padded + auth.authorizer.slice(2) || log.topics[2] !== auth.nonce || log.data !== '0x') continue;
    ours = m;
    for (let i = m + 1; i < logs.length && !isMark(logs[i]!); i++) {
      const t = transfers.get(i);
      if (!t) continue;
      if (fitting.includes(i)) return {at: i, mark: ours};
      paidOther = t.from === auth.authorizer;
      break;
    }
  }
  return marks === 1 && ours >= 0 && !paidOther && fitting[0]! < ours ? {at: fitting[0]!, mark: ours} : undefined;
}

/** Reports whether a request for a transfer is one that may be asked. */
export function validateRequest(x: ExpectedTransfer): boolean {
  const {from, authorization: a} = x;
  const native = x.token === 'native';
  const amount = (v: string | undefined): boolean => v === undefined || (v !== '0' && quantity(v, 256));
  return (native || (isHex(x.token, 20) && x.token !== zeroAddress && x.token !== nativeLogs)) &&
    isHex(x.to, 20) && x.to !== zeroAddress &&
    (from === undefined || (isHex(from, 20) && from !== x.to)) &&
    (x.amount === undefined) !== (x.minAmount === undefined) && amount(x.amount) && amount(x.minAmount) &&
    (x.logPosition === undefined || (x.logPosition <= 1_000_000 && !native)) &&
    (a === undefined || (!native && isHex(a.authorizer, 20) && isHex(a.nonce, 32) && a.authorizer !== x.to &&
      (from === undefined || from === a.authorizer)));
}

const sumBits = 288; // of 2^32 transfers of 256 bits

export function transferMembers(t: ProvenTransfer): Member[] {
  const a = t.authorization;
  return [
    ['transfer.standard', t.standard, t.standard === 'erc20' || t.standard === 'native'],
    ['transfer.token', t.token ?? 'null', t.token === null || isHex(t.token, 20)],
    ['transfer.from', t.from, isHex(t.from, 20)],
    ['transfer.to', t.to, isHex(t.to, 20)],
    ['transfer.amount', t.amount, t.amount !== '0' && quantity(t.amount, 256)],
    ['transfer.logPosition', String(t.logPosition), true],
    ['transfer.matches', t.matches, t.matches !== '0' && quantity(t.matches, 63)],
    ['transfer.toIn', t.toIn, quantity(t.toIn, sumBits)],
    ['transfer.toOut', t.toOut, quantity(t.toOut, sumBits)],
    ...(a ? [
      ['transfer.authorization.authorizer', a.authorizer, isHex(a.authorizer, 20)],
      ['transfer.authorization.nonce', a.nonce, isHex(a.nonce, 32)],
      ['transfer.authorization.logPosition', String(a.logPosition), true],
    ] as Member[] : [['transfer.authorization', 'null', true] as Member]),
  ];
}
