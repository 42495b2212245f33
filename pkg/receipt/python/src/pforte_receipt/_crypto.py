"""Keccak-256, Ed25519 and the recovery of secp256k1 keys.

All of it verifies and holds no secret, so that its time may depend on what it reads.
"""

from __future__ import annotations

import hashlib
from typing import List, Optional, Tuple


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


# ---- Keccak-256, as submitted and not as standardized


def _constants() -> Tuple[List[int], List[Tuple[int, int, int]]]:
    rounds, r = [], 1
    for _ in range(24):
        constant = 0
        for j in range(7):
            if r & 1:
                constant ^= 1 << ((1 << j) - 1)
            r = (r << 1) ^ ((r >> 7) * 0x171)
        rounds.append(constant)
    moves, x, y = [], 1, 0  # from lane, by bits, to lane
    for t in range(24):
        x_next, y_next = y, (2 * x + 3 * y) % 5
        moves.append((x + 5 * y, (t + 1) * (t + 2) // 2 % 64, x_next + 5 * y_next))
        x, y = x_next, y_next
    return rounds, moves


_ROUNDS, _MOVES = _constants()
_MASK = (1 << 64) - 1


def _permute(a: List[int]) -> List[int]:
    for constant in _ROUNDS:
        c0 = a[0] ^ a[5] ^ a[10] ^ a[15] ^ a[20]
        c1 = a[1] ^ a[6] ^ a[11] ^ a[16] ^ a[21]
        c2 = a[2] ^ a[7] ^ a[12] ^ a[17] ^ a[22]
        c3 = a[3] ^ a[8] ^ a[13] ^ a[18] ^ a[23]
        c4 = a[4] ^ a[9] ^ a[14] ^ a[19] ^ a[24]
        d = (
            c4 ^ ((c1 << 1 | c1 >> 63) & _MASK),
            c0 ^ ((c2 << 1 | c2 >> 63) & _MASK),
            c1 ^ ((c3 << 1 | c3 >> 63) & _MASK),
            c2 ^ ((c4 << 1 | c4 >> 63) & _MASK),
            c3 ^ ((c0 << 1 | c0 >> 63) & _MASK),
        )
        b = [a[0] ^ d[0]] * 25
        for source, bits, target in _MOVES:
            lane = a[source] ^ d[source % 5]
            b[target] = (lane << bits | lane >> (64 - bits)) & _MASK
        for y in (0, 5, 10, 15, 20):
            b0, b1, b2, b3, b4 = b[y : y + 5]
            a[y] = b0 ^ (~b1 & b2)
            a[y + 1] = b1 ^ (~b2 & b3)
            a[y + 2] = b2 ^ (~b3 & b4)
            a[y + 3] = b3 ^ (~b4 & b0)
            a[y + 4] = b4 ^ (~b0 & b1)
        a[0] ^= constant
    return a


def keccak256(data: bytes) -> bytes:
    rate = 136
    padded = bytearray(data) + b"\x01" + bytes((-len(data) - 1) % rate)
    padded[-1] |= 0x80
    lanes = [0] * 25
    for block in range(0, len(padded), rate):
        for i in range(rate // 8):
            lanes[i] ^= int.from_bytes(padded[block + 8 * i : block + 8 * i + 8], "little")
        lanes = _permute(lanes)
    return b"".join(lane.to_bytes(8, "little") for lane in lanes[:4])


# ---- Ed25519 (RFC 8032), points in extended coordinates

_P = 2**255 - 19
_L = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, _P) % _P
_ROOT = pow(2, (_P - 1) // 4, _P)
_Point = Tuple[int, int, int, int]
_ZERO: _Point = (0, 1, 1, 0)


def _decompress(data: bytes) -> Optional[_Point]:
    """Reads a point as Go's crypto/ed25519 does: y may be above the field's order, and x may be minus 0."""
    number = int.from_bytes(data, "little")
    y, sign = (number & ((1 << 255) - 1)) % _P, number >> 255
    u, v = (y * y - 1) % _P, (_D * y * y + 1) % _P
    x = u * pow(v, 3, _P) * pow(u * pow(v, 7, _P), (_P - 5) // 8, _P) % _P
    if (v * x * x - u) % _P:
        x = x * _ROOT % _P
        if (v * x * x - u) % _P:
            return None
    if x & 1 != sign:
        x = -x % _P
    return x, y, 1, x * y % _P


def _add(p: _Point, q: _Point) -> _Point:
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % _P, (p[1] + p[0]) * (q[1] + q[0]) % _P
    c, d = 2 * p[3] * q[3] * _D % _P, 2 * p[2] * q[2] % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _sum(a: int, p: _Point, b: int, q: _Point) -> _Point:
    """a times p plus b times q."""
    table = {(1, 0): p, (0, 1): q, (1, 1): _add(p, q)}
    out = _ZERO
    for i in reversed(range(max(a.bit_length(), b.bit_length()))):
        out = _add(out, out)
        bits = (a >> i & 1, b >> i & 1)
        if bits != (0, 0):
            out = _add(out, table[bits])
    return out


_BASE = _decompress(bytes.fromhex("58" + "66" * 31)) or _ZERO


def verify_ed25519(public: bytes, message: bytes, signature: bytes) -> bool:
    """Reports whether a signature is good, by the equation without the cofactor and by the bytes of R."""
    if len(public) != 32 or len(signature) != 64:
        return False
    r, s = signature[:32], int.from_bytes(signature[32:], "little")
    key = _decompress(public)
    if key is None or s >= _L:
        return False
    k = int.from_bytes(hashlib.sha512(r + public + message).digest(), "little") % _L
    x, y, z, _ = _sum(s, _BASE, k, (-key[0] % _P, key[1], 1, -key[3] % _P))
    inverse = pow(z, -1, _P)
    x, y = x * inverse % _P, y * inverse % _P
    return (y | (x & 1) << 255).to_bytes(32, "little") == r


# ---- secp256k1, points in Jacobian coordinates; None is infinity

_Q = 2**256 - 2**32 - 977
_N = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
_G = (
    0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798,
    0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8,
    1,
)
_Jacobian = Optional[Tuple[int, int, int]]


def _double(p: _Jacobian) -> _Jacobian:
    if p is None:
        return None
    x, y, z = p  # y is never 0: the order is odd
    s, m = 4 * x * y * y % _Q, 3 * x * x % _Q
    x3 = (m * m - 2 * s) % _Q
    return x3, (m * (s - x3) - 8 * pow(y, 4, _Q)) % _Q, 2 * y * z % _Q


def _plus(p: _Jacobian, q: _Jacobian) -> _Jacobian:
    if p is None or q is None:
        return q if p is None else p
    z1, z2 = p[2] * p[2] % _Q, q[2] * q[2] % _Q
    u1, u2 = p[0] * z2 % _Q, q[0] * z1 % _Q
    s1, s2 = p[1] * z2 * q[2] % _Q, q[1] * z1 * p[2] % _Q
    if u1 == u2:
        return _double(p) if s1 == s2 else None
    h, r = u2 - u1, s2 - s1
    h2 = h * h % _Q
    h3, v = h2 * h % _Q, u1 * h2 % _Q
    x = (r * r - h3 - 2 * v) % _Q
    return x, (r * (v - x) - s1 * h3) % _Q, h * p[2] * q[2] % _Q


def recover(digest: bytes, r: int, s: int, odd: bool) -> Optional[bytes]:
    """The public key (64 bytes) that made an ECDSA signature over a digest; None where there is none."""
    if not (0 < r < _N and 0 < s < _N):
        return None
    square = (pow(r, 3, _Q) + 7) % _Q
    y = pow(square, (_Q + 1) // 4, _Q)
    if y * y % _Q != square:
        return None
    if (y & 1 == 1) != odd:
        y = _Q - y
    inverse = pow(r, -1, _N)
    a, b = -int.from_bytes(digest, "big") * inverse % _N, s * inverse % _N
    point: _Jacobian = (r, y, 1)
    table = {(1, 0): _G, (0, 1): point, (1, 1): _plus(_G, point)}
    out: _Jacobian = None
    for i in reversed(range(256)):
        out = _double(out)
        bits = (a >> i & 1, b >> i & 1)
        if bits != (0, 0):
            out = _plus(out, table[bits])
    if out is None:
        return None
    z = pow(out[2], -1, _Q)
    return (out[0] * z * z % _Q).to_bytes(32, "big") + (out[1] * z * z * z % _Q).to_bytes(32, "big")
