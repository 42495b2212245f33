import {malformed} from './errors.ts';

/** What a document may come as: its text, its bytes, or what JSON.parse made of it. */
export type Text = string | Uint8Array | object;

const digits = Array.from({length: 256}, (_, i) => i.toString(16).padStart(2, '0'));

/** Lower-case hexadecimal digits without a prefix. */
export function hex(bytes: Uint8Array): string {
  let out = '';
  for (const b of bytes) out += digits[b];
  return out;
}

/** 0x and lower-case hexadecimal digits. */
export const hex0x = (bytes: Uint8Array): string => '0x' + hex(bytes);

const hexForm = /^0x(?:[0-9a-f]{2})*$/;

/** Reports whether text is 0x and lower-case hexadecimal digits, for size bytes where it is given. */
export const isHex = (text: string, size?: number): boolean =>
  hexForm.test(text) && (size === undefined || text.length === 2 + 2 * size);

/** The bytes of text that isHex. */
export function unhex(text: string): Uint8Array {
  const out = new Uint8Array(text.length / 2 - 1);
  for (let i = 0; i < out.length; i++) out[i] = parseInt(text.slice(2 + 2 * i, 4 + 2 * i), 16);
  return out;
}

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
const base64Form = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** Base64 with padding (RFC 4648 section 4). */
export function base64(bytes: Uint8Array): string {
  let out = '';
  for (let i = 0; i < bytes.length; i += 3) {
    const n = (bytes[i]! << 16) | ((bytes[i + 1] ?? 0) << 8) | (bytes[i + 2] ?? 0);
    out += alphabet[n >> 18]! + alphabet[(n >> 12) & 63]!;
    out += i + 1 < bytes.length ? alphabet[(n >> 6) & 63]! : '=';
    out += i + 2 < bytes.length ? alphabet[n & 63]! : '=';
  }
  return out;
}

/** Reads base64 with padding in its one spelling; undefined for any other. */
export function unbase64(text: string): Uint8Array | undefined {
  if (!base64Form.test(text)) return undefined;
  const padding = text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0;
  const out = new Uint8Array((text.length / 4) * 3 - padding);
  for (let i = 0, at = 0; i < text.length; i += 4) {
    let n = 0;
    for (let j = 0; j < 4; j++) n = n * 64 + Math.max(0, alphabet.indexOf(text[i + j]!));
    for (let j = 0; j < 3 && at < out.length; j++) out[at++] = (n >> (16 - 8 * j)) & 255;
  }
  return base64(out) === text ? out : undefined; // no stray bits
}

export function concat(...parts: Uint8Array[]): Uint8Array {
  const out = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

export const equal = (a: Uint8Array, b: Uint8Array): boolean => a.length === b.length && a.every((x, i) => x === b[i]);

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', {fatal: true, ignoreBOM: true});

export const utf8 = (text: string): Uint8Array => encoder.encode(text);

/** Text of bytes that are UTF-8; undefined for others. */
export function fromUtf8(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}

/** The bytes of a document. A lone surrogate in a string is no UTF-8. */
export function bytesOf(text: Text): Uint8Array {
  if (text instanceof Uint8Array) return text;
  const s = typeof text === 'string' ? text : JSON.stringify(text);
  if (typeof s !== 'string' || /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/.test(s)) {
    throw malformed('not a text');
  }
  return utf8(s);
}

/** Bytes as a string of one character each, for formats whose lines may hold any bytes. */
export function latin1(bytes: Uint8Array): string {
  let out = '';
  for (let i = 0; i < bytes.length; i += 4096) out += String.fromCharCode(...bytes.subarray(i, i + 4096));
  return out;
}

/** The bytes of what latin1 returned. */
export const unlatin1 = (text: string): Uint8Array => Uint8Array.from(text, (c) => c.charCodeAt(0));

export function bigEndian(bytes: Uint8Array): bigint {
  return bytes.length === 0 ? 0n : BigInt(hex0x(bytes));
}

/** A number as its bytes, big endian, without leading zeros. */
export function toBytes(n: bigint): Uint8Array {
  if (n === 0n) return new Uint8Array(0);
  const text = n.toString(16);
  return unhex('0x' + (text.length % 2 ? '0' : '') + text);
}

/** Reports whether text is a decimal number without leading zeros that fits into so many bits. */
export const quantity = (text: string, bits: number): boolean =>
  /^(?:0|[1-9][0-9]{0,86})$/.test(text) && BigInt(text) < 1n << BigInt(bits);

/** Reports whether one quantity is more than another. */
export const more = (a: string, b: string): boolean => a.length > b.length || (a.length === b.length && a > b);
