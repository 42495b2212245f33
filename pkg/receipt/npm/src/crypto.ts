import {ed25519} from '@noble/curves/ed25519.js';
import {secp256k1} from '@noble/curves/secp256k1.js';
import {sha256, sha512} from '@noble/hashes/sha2.js';
import {keccak_256} from '@noble/hashes/sha3.js';
import {bigEndian, concat, equal} from './bytes.ts';

interface Point<P> { add(other: P): P; double(): P }

/** a times p plus b times q. Nothing here is secret, so that the time may depend on it. */
function sum<P extends Point<P>>(zero: P, a: bigint, p: P, b: bigint, q: P): P {
  const table = [zero, p, q, p.add(q)];
  const [x, y] = [a.toString(2), b.toString(2)];
  const size = Math.max(x.length, y.length);
  const [bits, others] = [x.padStart(size, '0'), y.padStart(size, '0')];
  let out = zero;
  for (let i = 0; i < size; i++) {
    out = out.double();
    const at = (bits[i] === '1' ? 1 : 0) + (others[i] === '1' ? 2 : 0);
    if (at > 0) out = out.add(table[at]!);
  }
  return out;
}

export {sha256, keccak_256 as keccak256};

/**
 * Reports whether an Ed25519 signature (RFC 8032) is good, by the equation without the cofactor and by
 * the bytes of R, as Go's crypto/ed25519 does: implementations differ on signatures that no honest
 * signer makes.
 */
export function verifyEd25519(publicKey: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean {
  if (publicKey.length !== 32 || signature.length !== 64) return false;
  const {Point} = ed25519;
  const order = Point.Fn.ORDER;
  const r = signature.slice(0, 32);
  const s = bigEndian(signature.slice(32).reverse());
  if (s >= order) return false;
  let key;
  try {
    key = Point.fromBytes(publicKey, true);
  } catch {
    return false;
  }
  const k = bigEndian(sha512(concat(r, publicKey, message)).reverse()) % order;
  const point = sum(Point.ZERO, s, Point.BASE, k, key.negate());
  return equal(point.toBytes(), r);
}

/** The uncompressed public key (64 bytes) that made an ECDSA signature over a digest; undefined for none. */
export function recover(digest: Uint8Array, r: bigint, s: bigint, odd: boolean): Uint8Array | undefined {
  const {Point} = secp256k1;
  const {Fn} = Point;
  if (r <= 0n || r >= Fn.ORDER || s <= 0n || s >= Fn.ORDER) return undefined;
  const x = new Uint8Array(33);
  x[0] = odd ? 3 : 2;
  x.set(Fn.toBytes(r), 1);
  try {
    const inverse = Fn.inv(r);
    const u1 = Fn.mul(Fn.neg(Fn.create(bigEndian(digest))), inverse);
    const u2 = Fn.mul(s, inverse);
    const key = sum(Point.ZERO, u1, Point.BASE, u2, Point.fromBytes(x));
    return key.is0() ? undefined : key.toBytes(false).slice(1);
  } catch {
    return undefined; // no point has this x
  }
}
