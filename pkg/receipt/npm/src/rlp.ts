import {bigEndian, concat, toBytes} from './bytes.ts';

/** One item of RLP (Ethereum yellow paper, appendix B): a string of bytes, or a list of items. */
export interface Item {
  list: boolean;
  content: Uint8Array;
  raw: Uint8Array; // prefix included
}

/** Reads exactly one item. An item has one encoding; whatever is not that one is an error. */
export function decode(data: Uint8Array): Item {
  const item = next(data, 0);
  if (item.raw.length !== data.length) throw new Error('rlp: bytes after the item');
  return item;
}

function next(data: Uint8Array, at: number): Item {
  const left = data.length - at;
  if (left <= 0) throw new Error('rlp: ends too early');
  let prefix = data[at]!;
  if (prefix < 0x80) {
    const raw = data.subarray(at, at + 1);
    return {list: false, content: raw, raw};
  }
  const list = prefix >= 0xc0;
  if (list) prefix -= 0x40;
  let head = 1;
  let size = prefix - 0x80;
  if (size > 55) {
    head = 1 + size - 55;
    if (left < head) throw new Error('rlp: ends too early');
    size = Number(bigEndian(data.subarray(at + 1, at + head)));
    if (data[at + 1] === 0 || size <= 55) throw new Error('rlp: not the shortest encoding');
  }
  if (size > left - head) throw new Error('rlp: ends too early');
  const content = data.subarray(at + head, at + head + size);
  if (!list && size === 1 && content[0]! < 0x80) throw new Error('rlp: not the shortest encoding');
  return {list, content, raw: data.subarray(at, at + head + size)};
}

/** The members of a list, at most `most`: a member that one byte encodes takes many times as much memory. */
export function split(item: Item, most = 32): Item[] {
  if (!item.list) throw new Error('rlp: not a list');
  const out: Item[] = [];
  for (let at = 0; at < item.content.length; at += out[out.length - 1]!.raw.length) {
    if (out.length === most) throw new Error(`rlp: more than ${most} items`);
    out.push(next(item.content, at));
  }
  return out;
}

export const decodeList = (data: Uint8Array): Item[] => split(decode(data));

export function bytes(item: Item, size?: number): Uint8Array {
  if (item.list || (size !== undefined && item.content.length !== size)) {
    throw new Error(size === undefined ? 'rlp: a list, not a string' : `rlp: not a string of ${size} bytes`);
  }
  return item.content;
}

/** An unsigned number of up to so many bytes: big endian, without leading zeros. */
export function uint(item: Item, size: number): bigint {
  if (item.list || item.content.length > size) throw new Error(`rlp: not a number of up to ${size} bytes`);
  if (item.content[0] === 0) throw new Error('rlp: not the shortest encoding');
  return bigEndian(item.content);
}

function prefix(base: number, size: number): Uint8Array {
  if (size <= 55) return Uint8Array.of(base + size);
  const long = toBytes(BigInt(size));
  return concat(Uint8Array.of(base + 55 + long.length), long);
}

export const encodeString = (text: Uint8Array): Uint8Array =>
  text.length === 1 && text[0]! < 0x80 ? text : concat(prefix(0x80, text.length), text);
export const encodeUint = (n: bigint): Uint8Array => encodeString(toBytes(n));
/** A list whose encoded items are given. */
export const encodeList = (...items: Uint8Array[]): Uint8Array => {
  const content = concat(...items);
  return concat(prefix(0xc0, content.length), content);
};
