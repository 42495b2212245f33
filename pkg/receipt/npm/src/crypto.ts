import {ed25519} from '@noble/curves/ed25519.js';
import {secp256k1} from '@noble/curves/secp256k1.js';
import {sha256, sha512} from '@noble/hashes/sha2.js';
import {keccak_256} from '@noble/hashes/sha3.js';
import {bigEndian, concat, equal} from './bytes.ts';

export {sha256, keccak_256 as keccak256};

/**
 * Reports whether an Ed25519 signature (RFC 8032) is good, by the equation without the cofactor and by
 * the bytes of R, as Go's crypto/ed25519 does: implementations differ on signatures that no honest
 * signer makes.
 */
export function verifyEd25519(publicKey: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean {
  if (publicKey.length !== 32 || signature.length !== 64) return false;
  const order = ed25519.Point.Fn.ORDER;
  const r = signature.slice(0, 32);
  const s = bigEndian(signature.slice(32).reverse());
  if (s >= order) return false;
  let key;
  try {
    key = ed25519.Point.fromBytes(publicKey, true);
  } catch {
    return false;
  }
  const k = bigEndian(sha512(concat(r, publicKey, message)).reverse()) % order;
  const point = ed25519.Point.BASE.negate().negate().multiplyUnsafe(s).add(key.negate().multiplyUnsafe(k));
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
    const key = Point.BASE.negate().negate().multiplyUnsafe(u1).add(Point.fromBytes(x).multiplyUnsafe(u2));
    return key.is0() ? undefined : key.toBytes(false).slice(1);
  } catch {
    return undefined; // no point has this x
  }
}
