"""What an Ethereum block commits to: RLP, Merkle Patricia tries, headers, transactions, receipts.

An encoding that is not the only one is a ValueError, as it is to consensus.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from ._bytes import to_bytes
from ._crypto import keccak256, recover


class Item(NamedTuple):
    """One item of RLP (Ethereum yellow paper, appendix B)."""

    is_list: bool
    content: bytes
    raw: bytes  # prefix included


def decode(data: bytes) -> Item:
    """Reads exactly one item."""
    item = _next(data, 0)
    if len(item.raw) != len(data):
        raise ValueError("rlp: bytes after the item")
    return item


def _next(data: bytes, at: int) -> Item:
    left = len(data) - at
    if not left:
        raise ValueError("rlp: ends too early")
    prefix = data[at]
    if prefix < 0x80:
        return Item(False, data[at : at + 1], data[at : at + 1])
    is_list = prefix >= 0xC0
    size, head = prefix - (0xC0 if is_list else 0x80), 1
    if size > 55:
        head = 1 + size - 55
        if left < head:
            raise ValueError("rlp: ends too early")
        size = int.from_bytes(data[at + 1 : at + head], "big")
        if data[at + 1] == 0 or size <= 55:
            raise ValueError("rlp: not the shortest encoding")
    if size > left - head:
        raise ValueError("rlp: ends too early")
    content = data[at + head : at + head + size]
    if not is_list and size == 1 and content[0] < 0x80:
        raise ValueError("rlp: not the shortest encoding")
    return Item(is_list, content, data[at : at + head + size])


def split(item: Item, most: int = 32) -> List[Item]:
    """The members of a list, at most `most`: a member that one byte encodes takes many times as much memory."""
    if not item.is_list:
        raise ValueError("rlp: not a list")
    out: List[Item] = []
    at = 0
    while at < len(item.content):
        if len(out) == most:
            raise ValueError(f"rlp: more than {most} items")
        out.append(_next(item.content, at))
        at += len(out[-1].raw)
    return out


def decode_list(data: bytes) -> List[Item]:
    return split(decode(data))


def string(item: Item, size: Optional[int] = None) -> bytes:
    if item.is_list or (size is not None and len(item.content) != size):
        raise ValueError("rlp: not a string" + ("" if size is None else f" of {size} bytes"))
    return item.content


def uint(item: Item, size: int) -> int:
    """An unsigned number of up to so many bytes."""
    if item.is_list or len(item.content) > size:
        raise ValueError(f"rlp: not a number of up to {size} bytes")
    if item.content[:1] == b"\0":
        raise ValueError("rlp: not the shortest encoding")
    return int.from_bytes(item.content, "big")


def _prefix(base: int, size: int) -> bytes:
    if size <= 55:
        return bytes([base + size])
    long = to_bytes(size)
    return bytes([base + 55 + len(long)]) + long


def encode_string(text: bytes) -> bytes:
    return text if len(text) == 1 and text[0] < 0x80 else _prefix(0x80, len(text)) + text


def encode_uint(n: int) -> bytes:
    return encode_string(to_bytes(n))


def encode_list(*items: bytes) -> bytes:
    content = b"".join(items)
    return _prefix(0xC0, len(content)) + content


class Header(NamedTuple):
    hash: bytes
    parent_hash: bytes
    transactions_root: bytes
    receipts_root: bytes
    number: int
    timestamp: int


def decode_header(raw: bytes) -> Header:
    m = decode_list(raw)
    if not 15 <= len(m) <= 32:
        raise ValueError(f"header has {len(m)} members")
    string(m[3], 32)  # the state's root
    return Header(keccak256(raw), string(m[0], 32), string(m[4], 32), string(m[5], 32), uint(m[8], 8), uint(m[11], 8))


def _nibbles(text: bytes) -> List[int]:
    return [n for b in text for n in (b >> 4, b & 15)]


def verify_trie(root: bytes, key: bytes, nodes: Sequence[bytes]) -> bytes:
    """The value that a Merkle Patricia trie (yellow paper, appendix D) holds under a key.

    nodes are the encoded nodes on the way, in order; those below 32 bytes stand inside their parent.
    """
    child, path, used, found = Item(False, root, root), _nibbles(key), 0, False
    while not found:
        raw = child.raw
        if (child.is_list and len(raw) >= 32) or (not child.is_list and len(child.content) != 32):
            raise ValueError("the trie does not hold the key")
        if not child.is_list:
            if used == len(nodes):
                raise ValueError("a node is missing")
            raw, used = nodes[used], used + 1
            if keccak256(raw) != child.content:
                raise ValueError("a node does not have the hash that its parent names")
        node = decode_list(raw)
        if len(node) == 17:
            found = not path
            child, path = (node[16], path) if found else (node[path[0]], path[1:])
        elif len(node) == 2:
            part, found = _unpack(string(node[0]))
            if path[: len(part)] != part or (found and len(part) != len(path)):
                raise ValueError("the trie does not hold the key")
            child, path = node[1], path[len(part) :]
        else:
            raise ValueError(f"a node has {len(node)} items")
    if not string(child):
        raise ValueError("the trie does not hold the key")
    if used < len(nodes):
        raise ValueError("a node that is not on the path")
    return child.content


def _unpack(text: bytes) -> Tuple[List[int], bool]:
    """Reads the hex-prefix encoding of a part of a path (yellow paper, appendix C), and whether it is a leaf's."""
    if not text or text[0] > 0x3F:
        raise ValueError("a path is not hex-prefix encoded")
    part = _nibbles(text)
    leaf, odd = part[0] & 2 != 0, part[0] & 1 != 0
    if not odd and part[1] != 0:
        raise ValueError("a path is not hex-prefix encoded")
    part = part[1:] if odd else part[2:]
    if not leaf and not part:
        raise ValueError("an extension without a path")
    return part, leaf


class Transaction:
    """What a transaction's encoding commits to."""

    def __init__(self, raw: bytes, kind: int) -> None:
        self.hash, self.type = keccak256(raw), kind
        self.chain_id: Optional[int] = None
        self.sender, self.signed = bytes(20), False  # signed: whether a signature shows the sender
        self.to: Optional[bytes] = None
        self.value = 0
        self.selector: Optional[bytes] = None
        self.nonce: Optional[int] = None
        self.account_nonce = False  # whether the nonce counts the sender's transactions


# Members of each type's payload. "to?" may be empty; "retry" is a nonce that counts the retries of a ticket.
_LAYOUTS: Dict[int, List[str]] = {
    kind: text.split()
    for kind, text in {
        0x00: "nonce gasPrice gas to? value input v r s",
        0x01: "chainId nonce gasPrice gas to? value input accessList v r s",  # EIP-2930
        0x02: "chainId nonce gasTip gasFee gas to? value input accessList v r s",  # EIP-1559
        0x03: "chainId nonce gasTip gasFee gas to value input accessList blobFee blobHashes v r s",  # EIP-4844
        0x04: "chainId nonce gasTip gasFee gas to value input accessList authorizations v r s",  # EIP-7702
        # Arbitrum: deposit, unsigned, contract, retry, submit retryable, internal
        0x64: "chainId requestId from to value",
        0x65: "chainId from nonce gasFee gas to? value input",
        0x66: "chainId requestId from gasFee gas to? value input",
        0x68: "chainId retry from gasFee gas to? value input ticketId refundTo maxRefund submissionFee",
        0x69: "chainId requestId from baseFee depositValue gasFee gas retryTo retryValue beneficiary "
        "maxSubmissionFee feeRefundTo retryData",
        0x6A: "chainId input",
        0x7E: "sourceHash from to? mint value gas isSystem input",  # OP-stack deposit
    }.items()
}
_ARBOS = (0x0A4B05).to_bytes(20, "big")


def _split_type(raw: bytes) -> Tuple[int, bytes]:
    """Parts an EIP-2718 envelope into its type and its payload."""
    if not raw:
        raise ValueError("no bytes")
    if raw[0] >= 0xC0:
        return 0, raw
    if raw[0] == 0 or raw[0] > 0x7F:
        raise ValueError("transaction type is not supported")
    return raw[0], raw[1:]


def decode_transaction(raw: bytes) -> Transaction:
    """Reads a transaction as its trie holds it, and recovers the sender where the type has a signature."""
    kind, payload = _split_type(raw)
    if kind not in _LAYOUTS:
        raise ValueError(f"transaction type is not supported: {kind:#x}")
    names, m = _LAYOUTS[kind], decode_list(payload)
    if len(m) != len(names):
        raise ValueError(f"transaction has {len(m)} members, not {len(names)}")
    tx = Transaction(raw, kind)
    if kind == 0x69:
        tx.to, tx.selector = (0x6E).to_bytes(20, "big"), bytes.fromhex("c9f95d32")
    elif kind == 0x6A:
        tx.sender, tx.to = _ARBOS, _ARBOS
    elif kind == 0x7E:
        tx.account_nonce = True  # the nonce is in the receipt
    for name, item in zip(names, m):
        if name == "chainId":
            tx.chain_id = uint(item, 32)
        elif name in ("nonce", "retry"):
            tx.nonce, tx.account_nonce = uint(item, 8), name == "nonce"
        elif name == "from":
            tx.sender = string(item, 20)
        elif name == "to" or (name == "to?" and (item.is_list or item.content)):
            tx.to = string(item, 20)
        elif name == "value":
            tx.value = uint(item, 32)
        elif name == "input" and tx.to is not None and len(string(item)) >= 4:
            tx.selector = item.content[:4]
    if names[-1] == "s":
        _recover_sender(tx, m)
    return tx


def _recover_sender(tx: Transaction, m: List[Item]) -> None:
    parity, r, s = (uint(item, 32) for item in m[-3:])
    signed = [item.raw for item in m[:-3]]
    if tx.type == 0:
        if parity >= 35:  # EIP-155: the chain id is signed
            tx.chain_id, parity = (parity - 35) >> 1, (parity - 35) & 1
            signed += [encode_uint(tx.chain_id), encode_uint(0), encode_uint(0)]
        else:
            parity -= 27
    digest = keccak256((b"" if tx.type == 0 else bytes([tx.type])) + encode_list(*signed))
    key = recover(digest, r, s, parity == 1) if parity in (0, 1) else None
    if key is None:
        raise ValueError("no sender follows from the signature")
    tx.sender, tx.signed = keccak256(key)[12:], True


def contract_address(sender: bytes, nonce: int) -> bytes:
    """The address of the contract that a creation makes."""
    return keccak256(encode_list(encode_string(sender), encode_uint(nonce)))[12:]


class TxReceipt(NamedTuple):
    """What the chain's own receipt of a transaction commits to."""

    type: int
    success: Optional[bool]  # None before the Byzantium fork
    cumulative_gas: int
    logs: List[Tuple[bytes, List[bytes], bytes]]  # address, topics, data
    deposit_nonce: Optional[int]


def decode_receipt(raw: bytes) -> TxReceipt:
    kind, payload = _split_type(raw)
    m = decode_list(payload)
    deposit = kind == 0x7E and len(m) == 6
    if len(m) != 4 and not deposit:
        raise ValueError(f"transaction receipt has {len(m)} members")
    success = None
    if m[0].is_list or len(m[0].content) != 32:
        status = uint(m[0], 8)
        if status > 1:
            raise ValueError("transaction receipt: neither a status nor a state root")
        success = status == 1
    gas = uint(m[1], 8)
    string(m[2], 256)
    nonce = None
    if deposit:
        nonce = uint(m[4], 8)
        uint(m[5], 8)
    logs = []
    for log in split(m[3], len(m[3].content) // 24):  # no log is shorter
        members = split(log)
        if len(members) != 3:
            raise ValueError(f"log has {len(members)} members, not 3")
        topics = split(members[1])
        if len(topics) > 4:
            raise ValueError("not a list of up to 4 topics")
        logs.append((string(members[0], 20), [string(t, 32) for t in topics], string(members[2])))
    return TxReceipt(kind, success, gas, logs, nonce)
