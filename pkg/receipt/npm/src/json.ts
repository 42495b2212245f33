import {fromUtf8} from './bytes.ts';
import {malformed} from './errors.ts';

/** A number as the document writes it. */
export class JsonNumber {
  readonly text: string;
  constructor(text: string) { this.text = text; }
}

/** A value of a document, read as two programs cannot read differently. */
export type Json = null | boolean | string | JsonNumber | Json[] | Map<string, Json>;

export interface Rules {
  /** Allows null within the document. */
  allowNull?: boolean;
  /** How deep objects and lists may nest. */
  depth?: number;
}

const space = /[ \t\n\r]*/y;
const plain = /[^"\\\u0000-\u001f]*/y;
const number = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const word = /true|false|null/y;
const escape = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;
const escaped: Record<string, string> = {b: '\b', f: '\f', n: '\n', r: '\r', t: '\t'};

/** Reads one JSON value (RFC 8259, RFC 7493): valid UTF-8, no name twice, nothing after it. */
export function parseJson(data: Uint8Array, rules: Rules): Json {
  const text = fromUtf8(data);
  if (text === undefined) throw malformed('not UTF-8');
  const limit = rules.depth ?? 64;
  let at = 0;

  const take = (form: RegExp): string => {
    form.lastIndex = at;
    const found = form.exec(text)?.[0] ?? '';
    at += found.length;
    return found;
  };
  const next = (): string | undefined => {
    take(space);
    return text[at];
  };
  const expect = (char: string): void => {
    if (next() !== char) throw malformed(`not JSON (at character ${at})`);
    at++;
  };

  const string = (): string => {
    expect('"');
    let out = '';
    for (;;) {
      out += take(plain);
      if (text[at] === '"') {
        at++;
        return out;
      }
      const one = take(escape);
      if (!one) throw malformed(`not JSON (at character ${at})`);
      if (one[1] !== 'u') {
        out += escaped[one[1]!] ?? one[1]!;
        continue;
      }
      const unit = parseInt(one.slice(2), 16);
      if (unit >= 0xdc00 && unit < 0xe000) throw malformed('half of a surrogate pair');
      if (unit >= 0xd800 && unit < 0xdc00) {
        const low = take(escape);
        const second = low[1] === 'u' ? parseInt(low.slice(2), 16) : 0;
        if (second < 0xdc00 || second >= 0xe000) throw malformed('half of a surrogate pair');
        out += String.fromCharCode(unit, second);
      } else out += String.fromCharCode(unit);
    }
  };

  const value = (depth: number): Json => {
    const char = next();
    if (char === '"') return string();
    if (char === '{' || char === '[') {
      if (depth === limit) throw malformed(`nests deeper than ${limit}`);
      at++;
      return char === '{' ? object(depth + 1) : list(depth + 1);
    }
    const literal = take(word);
    if (literal) {
      if (literal !== 'null') return literal === 'true';
      if (!rules.allowNull || depth === 0) throw malformed('must not be null');
      return null;
    }
    const digits = take(number);
    if (!digits) throw malformed(`not JSON (at character ${at})`);
    return new JsonNumber(digits);
  };

  const object = (depth: number): Json => {
    const out = new Map<string, Json>();
    if (next() === '}') {
      at++;
      return out;
    }
    for (;;) {
      next();
      const name = string();
      if (out.has(name)) throw malformed(`${JSON.stringify(name)} comes twice`);
      expect(':');
      out.set(name, value(depth));
      if (next() !== ',') break;
      at++;
    }
    expect('}');
    return out;
  };

  const list = (depth: number): Json => {
    const out: Json[] = [];
    if (next() === ']') {
      at++;
      return out;
    }
    for (;;) {
      out.push(value(depth));
      if (next() !== ',') break;
      at++;
    }
    expect(']');
    return out;
  };

  const read = value(0);
  if (next() !== undefined) throw malformed('something follows the JSON value');
  return read;
}

const ascii = /^[ -~]*$/;
const integer = /^(?:0|[1-9][0-9]{0,15})$/;

/**
 * The one form of a value (RFC 8785), for the part of JSON of which every tool has the same:
 * printable ASCII, integers from 0 to 2^53-1.
 */
export function canonicalize(v: Json, depth = 0): string {
  if (v === null || typeof v === 'boolean') return String(v);
  if (typeof v === 'string') {
    if (!ascii.test(v)) throw malformed('text is not printable ASCII');
    return JSON.stringify(v);
  }
  if (v instanceof JsonNumber) {
    if (!integer.test(v.text) || !Number.isSafeInteger(Number(v.text))) {
      throw malformed('number is not an integer from 0 to 2^53-1');
    }
    return v.text;
  }
  if (depth === 16) throw malformed('nests deeper than 16');
  if (Array.isArray(v)) return '[' + v.map((x) => canonicalize(x, depth + 1)).join(',') + ']';
  const names = [...v.keys()].sort();
  return '{' + names.map((n) => canonicalize(n) + ':' + canonicalize(v.get(n)!, depth + 1)).join(',') + '}';
}

/** A form of a value: reads it, or throws. */
export type Form<T> = (v: Json | undefined, path: string) => T;

export const text: Form<string> = (v, path) => {
  if (typeof v !== 'string') throw malformed(`${path} is not a string`);
  return v;
};
export const yes: Form<boolean> = (v, path) => {
  if (typeof v !== 'boolean') throw malformed(`${path} is not true or false`);
  return v;
};
export const whole: Form<number> = (v, path) => {
  if (!(v instanceof JsonNumber) || !integer.test(v.text) || !Number.isSafeInteger(Number(v.text))) {
    throw malformed(`${path} is not a whole number`);
  }
  return Number(v.text);
};
/** A member that is null where there is none. */
export const orNull = <T>(form: Form<T>): Form<T | null> => (v, path) => (v === null ? null : form(v, path));
/** A member that is absent where there is none. */
export const optional = <T>(form: Form<T>): Form<T | undefined> => (v, path) => (v === undefined ? undefined : form(v, path));
/** An optional member that is absent where it is empty, too. */
export const filled = <T extends {length: number}>(form: Form<T>): Form<T | undefined> => (v, path) => {
  if (v === undefined) return undefined;
  const read = form(v, path);
  if (read.length === 0) throw malformed(`${path} is empty`);
  return read;
};
export const listOf = <T>(form: Form<T>): Form<T[]> => (v, path) => {
  if (!Array.isArray(v)) throw malformed(`${path} is not a list`);
  return v.map((x, i) => form(x, `${path}.${i}`));
};

type Shape<S> = {[K in keyof S]: S[K] extends Form<infer T> ? T : never};

/** An object of exactly these members. */
export const shape = <S extends Record<string, Form<unknown>>>(members: S): Form<Shape<S>> => (v, path) => {
  if (!(v instanceof Map)) throw malformed(`${path || 'the document'} is not an object`);
  for (const name of v.keys()) {
    if (!Object.hasOwn(members, name)) throw malformed(`${path ? path + '.' : ''}${name} is not known`);
  }
  return loose(members)(v, path);
};

/** An object of these members, and of others that are left aside. */
export const loose = <S extends Record<string, Form<unknown>>>(members: S): Form<Shape<S>> => (v, path) => {
  if (!(v instanceof Map)) throw malformed(`${path || 'the document'} is not an object`);
  const out: Record<string, unknown> = {};
  for (const [name, form] of Object.entries(members)) {
    const read = form(v.get(name), path ? `${path}.${name}` : name);
    if (read !== undefined) out[name] = read;
  }
  return out as Shape<S>;
};
