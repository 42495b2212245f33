"""JSON read as two programs cannot read it differently (RFC 8259, RFC 7493)."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, Optional

from .errors import MalformedError

_space = re.compile(r"[ \t\n\r]*")
_plain = re.compile(r'[^"\\\x00-\x1f]*')
_number = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_word = re.compile("true|false|null")
_escape = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_escaped = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_ascii = re.compile("[ -~]*")
_integer = re.compile("0|[1-9][0-9]{0,15}")


class Number:
    """A number as the document writes it."""

    def __init__(self, text: str) -> None:
        self.text = text


def parse(data: bytes, allow_null: bool) -> Any:
    """Reads one value: valid UTF-8, no name twice, nothing after it. Numbers are Number."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise MalformedError("not UTF-8") from None
    value, at = _Reader(text, allow_null).value(0, 0)
    if _space.match(text, at).end() != len(text):  # type: ignore[union-attr]
        raise MalformedError("something follows the JSON value")
    return value


class _Reader:
    def __init__(self, text: str, allow_null: bool) -> None:
        self.text, self.allow_null = text, allow_null

    def skip(self, at: int) -> int:
        return _space.match(self.text, at).end()  # type: ignore[union-attr]

    def peek(self, at: int) -> str:
        return self.text[at : at + 1]

    def fault(self, at: int) -> MalformedError:
        return MalformedError(f"not JSON (at character {at})")

    def value(self, at: int, depth: int) -> Any:
        at = self.skip(at)
        char = self.peek(at)
        if char == '"':
            return self.string(at)
        if char in ("{", "[") and char:
            if depth == 64:
                raise MalformedError("nests deeper than 64")
            return self.object(at + 1, depth + 1) if char == "{" else self.list(at + 1, depth + 1)
        word = _word.match(self.text, at)
        if word:
            if word.group() != "null":
                return word.group() == "true", word.end()
            if not self.allow_null or depth == 0:
                raise MalformedError("must not be null")
            return None, word.end()
        number = _number.match(self.text, at)
        if not number:
            raise self.fault(at)
        return Number(number.group()), number.end()

    def string(self, at: int) -> Any:
        if self.peek(at) != '"':
            raise self.fault(at)
        at += 1
        out = []
        while True:
            plain = _plain.match(self.text, at)
            out.append(plain.group())  # type: ignore[union-attr]
            at = plain.end()  # type: ignore[union-attr]
            if self.peek(at) == '"':
                return "".join(out), at + 1
            one = _escape.match(self.text, at)
            if not one:
                raise self.fault(at)
            at = one.end()
            name = one.group()
            if name[1] != "u":
                out.append(_escaped.get(name[1], name[1]))
                continue
            unit = int(name[2:], 16)
            if 0xD800 <= unit < 0xE000:
                low = _escape.match(self.text, at)
                second = int(low.group()[2:], 16) if low and low.group()[1] == "u" else 0
                if unit >= 0xDC00 or not 0xDC00 <= second < 0xE000:
                    raise MalformedError("half of a surrogate pair")
                unit = 0x10000 + ((unit - 0xD800) << 10) + second - 0xDC00
                at = low.end()  # type: ignore[union-attr]
            out.append(chr(unit))

    def object(self, at: int, depth: int) -> Any:
        out: Dict[str, Any] = {}
        at = self.skip(at)
        if self.peek(at) == "}":
            return out, at + 1
        while True:
            name, at = self.string(self.skip(at))
            if name in out:
                raise MalformedError(f"{name!r} comes twice")
            at = self.skip(at)
            if self.peek(at) != ":":
                raise self.fault(at)
            out[name], at = self.value(at + 1, depth)
            at = self.skip(at)
            char = self.peek(at)
            at += 1
            if char == "}":
                return out, at
            if char != ",":
                raise self.fault(at)

    def list(self, at: int, depth: int) -> Any:
        out: List[Any] = []
        at = self.skip(at)
        if self.peek(at) == "]":
            return out, at + 1
        while True:
            value, at = self.value(at, depth)
            out.append(value)
            at = self.skip(at)
            char = self.peek(at)
            at += 1
            if char == "]":
                return out, at
            if char != ",":
                raise self.fault(at)


def _whole(v: Number) -> Optional[int]:
    if _integer.fullmatch(v.text) is None or int(v.text) >= 1 << 53:
        return None
    return int(v.text)


def canonicalize(v: Any, depth: int = 0) -> str:
    """The one form of a value (RFC 8785): printable ASCII, integers from 0 to 2^53-1."""
    if v is None or isinstance(v, bool):
        return "null" if v is None else "true" if v else "false"
    if isinstance(v, str):
        if _ascii.fullmatch(v) is None:
            raise MalformedError("text is not printable ASCII")
        return '"' + v.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(v, Number):
        if _whole(v) is None:
            raise MalformedError("number is not an integer from 0 to 2^53-1")
        return v.text
    if depth == 16:
        raise MalformedError("nests deeper than 16")
    if isinstance(v, list):
        return "[" + ",".join(canonicalize(x, depth + 1) for x in v) + "]"
    return "{" + ",".join(canonicalize(n) + ":" + canonicalize(v[n], depth + 1) for n in sorted(v)) + "}"


# A form reads a value, or raises. ABSENT is a member that is not there.
ABSENT: Any = object()
Form = Callable[[Any, str], Any]


def text(v: Any, path: str) -> str:
    if not isinstance(v, str):
        raise MalformedError(f"{path} is not a string")
    return v


def yes(v: Any, path: str) -> bool:
    if not isinstance(v, bool):
        raise MalformedError(f"{path} is not true or false")
    return v


def whole(v: Any, path: str) -> int:
    n = _whole(v) if isinstance(v, Number) else None
    if n is None:
        raise MalformedError(f"{path} is not a whole number")
    return n


def or_null(form: Form) -> Form:
    """A member that is null where there is none."""
    return lambda v, path: None if v is None else form(v, path)


def optional(form: Form) -> Form:
    """A member that is absent where there is none."""
    return lambda v, path: ABSENT if v is ABSENT else form(v, path)


def none(form: Form, empty: Any) -> Form:
    """A member that is null or absent where it is empty."""
    return lambda v, path: empty if v is None or v is ABSENT else form(v, path)


def list_of(form: Form) -> Form:
    def read(v: Any, path: str) -> List[Any]:
        if not isinstance(v, list):
            raise MalformedError(f"{path} is not a list")
        return [form(x, f"{path}.{i}") for i, x in enumerate(v)]

    return read


def shape(members: Dict[str, Form], loose: bool = False) -> Form:
    """An object of exactly these members; a loose one may have others, which are left aside."""

    def read(v: Any, path: str) -> Dict[str, Any]:
        if not isinstance(v, dict):
            raise MalformedError(f"{path or 'the document'} is not an object")
        if not loose:
            for name in v:
                if name not in members:
                    raise MalformedError(f"{path}.{name} is not known")
        out = {name: form(v.get(name, ABSENT), f"{path}.{name}") for name, form in members.items()}
        return {name: x for name, x in out.items() if x is not ABSENT}

    return read
