"""Spellings of bytes and numbers, each of which has exactly one."""

from __future__ import annotations

import base64 as _base64
import json
import re
from typing import Optional, Union

from .errors import MalformedError

Text = Union[str, bytes, bytearray, dict]

_hex = re.compile(r"0x(?:[0-9a-f]{2})*")
_base64_form = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_quantity = re.compile(r"0|[1-9][0-9]{0,86}")


def bytes_of(text: Text) -> bytes:
    """The bytes of a document: its text, its bytes, or what json.loads made of it."""
    if isinstance(text, (bytes, bytearray)):
        return bytes(text)
    if not isinstance(text, str):
        text = json.dumps(text, ensure_ascii=False, allow_nan=False)
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise MalformedError("not a text") from None


def is_hex(text: str, size: Optional[int] = None) -> bool:
    """Reports whether text is 0x and lower-case hexadecimal digits, for size bytes where it is given."""
    return _hex.fullmatch(text) is not None and (size is None or len(text) == 2 + 2 * size)


def unhex(text: str) -> bytes:
    return bytes.fromhex(text[2:])


def hex0x(data: bytes) -> str:
    return "0x" + data.hex()


def base64(data: bytes) -> str:
    return _base64.b64encode(data).decode()


def unbase64(text: str) -> Optional[bytes]:
    """Reads base64 with padding (RFC 4648 section 4) in its one spelling; None for any other."""
    if _base64_form.fullmatch(text) is None:
        return None
    data = _base64.b64decode(text)
    return data if base64(data) == text else None  # no stray bits


def quantity(text: str, bits: int) -> bool:
    """Reports whether text is a decimal number without leading zeros that fits into so many bits."""
    return _quantity.fullmatch(text) is not None and int(text) < 1 << bits


def more(a: str, b: str) -> bool:
    """Compares two quantities."""
    return len(a) > len(b) or (len(a) == len(b) and a > b)


def to_bytes(n: int) -> bytes:
    """A number, big endian, without leading zeros."""
    return n.to_bytes((n.bit_length() + 7) // 8, "big")
