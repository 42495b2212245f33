import {bls12_381 as curve} from '@noble/curves/bls12-381.js';
import {bigEndian} from './bytes.ts';

const domain = 'BLS_SIG_BLS12381G2_XMD:SHA-256_SSWU_RO_POP_';
const modulus = curve.fields.Fp.ORDER;

type G1 = InstanceType<typeof curve.G1.Point>;

/** Checks the flags of a compressed point and that its coordinates are below the modulus; infinity is none. */
function isCompressed(bytes: Uint8Array): boolean {
  if ((bytes[0]! & 0xc0) !== 0x80) return false;
  const first = bytes.slice(0, 48);
  first[0]! &= 0x1f;
  return bigEndian(first) < modulus && (bytes.length === 48 || bigEndian(bytes.slice(48)) < modulus);
}

function publicKey(bytes: Uint8Array): G1 {
  if (!isCompressed(bytes)) throw new Error('not a point of the subgroup, or the point at infinity');
  const point = curve.G1.Point.fromBytes(bytes);
  point.assertValidity();
  return point;
}

/**
 * Reports whether an aggregate signature is by all keys of a group but the absent ones. sum is the sum of all
 * the group's keys, which the caller trusts to be that.
 */
export function verifyAggregate(sum: Uint8Array, absent: Uint8Array[], message: Uint8Array, signature: Uint8Array): boolean {
  try {
    let key = publicKey(sum);
    for (const one of absent) key = key.subtract(publicKey(one));
    if (!isCompressed(signature) || key.is0()) return false;
    const signed = curve.G2.Point.fromBytes(signature);
    signed.assertValidity();
    const hashed = curve.G2.hashToCurve(message, {DST: domain}) as typeof signed;
    const product = curve.pairingBatch([{g1: key, g2: hashed}, {g1: curve.G1.Point.BASE.negate(), g2: signed}]);
    return curve.fields.Fp12.eql(product, curve.fields.Fp12.ONE);
  } catch {
    return false; // no points of the curve
  }
}
