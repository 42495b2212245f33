"""The log of receipts: tlog-proof, tlog-checkpoint, tlog-cosignature, tlog-policy and signed-note of C2SP."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from . import _json as j
from ._bytes import Text, bytes_of, unbase64
from ._crypto import sha256, verify_ed25519
from ._keys import commitment, is_time
from ._receipt import Document
from .errors import LogError, MalformedError, VerificationError

_MAX_ENTRIES = 2**50
_MAX_NOTE = 64 << 10
_MAX_LISTED = 64

_SPACE = "\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # White_Space beyond ASCII
_not_origin = re.compile(f"[\x00-\x20\x7f-\x9f+{_SPACE}]")
_not_name = re.compile(f"[\x09-\x0d +{_SPACE}]")  # of sumdb's notes
_number = re.compile("0|[1-9][0-9]{0,15}")


class _Key(NamedTuple):
    """The key of a log (type 1) or of a witness (type 4), with its name."""

    name: str
    public: bytes
    type: int
    id: bytes


def _is_origin(name: str) -> bool:
    return name != "" and len(name.encode()) <= 255 and _not_origin.search(name) is None


def _utf8(data: bytes) -> Optional[str]:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _ascii(data: bytes) -> str:
    return data.decode("latin-1")


def _parse_key(line: bytes, kind: int) -> _Key:
    """Reads a verifier key: <name>+<key id>+<base64 of type and key>."""
    parts = line.split(b"+", 2)
    data = unbase64(_ascii(parts[2])) if len(parts) == 3 else None
    name = _utf8(parts[0])
    if data is None or len(data) != 33 or data[0] != kind or name is None or not _is_origin(name):
        raise MalformedError(f"not a verifier key of type {kind}")
    key = _Key(name, data[1:], kind, sha256(name.encode() + b"\n" + data)[:4])
    if key.id.hex().encode() != parts[1]:
        raise MalformedError("a verifier key whose key id does not match")
    return key


def _parse_number(text: str) -> int:
    if _number.fullmatch(text) is None or int(text) > _MAX_ENTRIES:
        raise MalformedError("not a decimal number from 0 to 2^50")
    return int(text)


def _parse_hash(text: str) -> bytes:
    data = unbase64(text)
    if data is None or len(data) != 32:
        raise MalformedError("not the base64 of 32 bytes")
    return data


class _Checkpoint(NamedTuple):
    origin: str
    size: int
    root: bytes


def _open_note(data: bytes, known: Sequence[_Key]) -> Tuple[_Checkpoint, Dict[_Key, bytes]]:
    """Reads a signed checkpoint and checks the signatures of the known keys: those that verify are returned."""
    head, found, tail = data.partition(b"\n\n")
    note = _utf8(data)
    if len(data) > _MAX_NOTE or note is None or not found or not tail.endswith(b"\n"):
        raise MalformedError("checkpoint: malformed note")
    if re.search("[\x00-\x09\x0b-\x1f]", note):
        raise MalformedError("checkpoint: a control character")
    body, lines = head + b"\n", []
    for line in tail[:-1].decode().split("\n"):
        fields = line.split(" ", 2)
        signature = unbase64(fields[2]) if len(fields) == 3 else None
        if signature is None:
            raise MalformedError("checkpoint: a signature line in another spelling")
        lines.append((fields[0], fields[1], signature))
    signed: Dict[_Key, bytes] = {}
    for i, (dash, name, signature) in enumerate(lines):
        if dash != "\u2014" or name == "" or _not_name.search(name) or len(signature) < 5 or i >= 100:
            raise MalformedError("checkpoint: a malformed signature line")
        keys = [k for k in known if k.name == name and k.id == signature[:4]]
        if len(keys) > 1:
            raise MalformedError("checkpoint: an ambiguous key")
        if not keys or keys[0] in signed:
            continue
        if not _verifies(keys[0], body, signature[4:]):
            raise LogError(f"signature of the checkpoint does not match: {name}", "checkpointSignature")
        signed[keys[0]] = signature[4:]
    return _parse_checkpoint(body.decode()), signed


def _verifies(key: _Key, body: bytes, signature: bytes) -> bool:
    if key.type == 1:
        return verify_ed25519(key.public, body, signature)
    if len(signature) != 72 or signature[0] > 0x7F:
        return False
    return verify_ed25519(key.public, f"cosignature/v1\ntime {_time_of(signature)}\n".encode() + body, signature[8:])


def _time_of(signature: bytes) -> int:
    """The time in a witness's signature, in Unix seconds."""
    return int.from_bytes(signature[:8], "big")


def _parse_checkpoint(text: str) -> _Checkpoint:
    lines = text.split("\n")
    if len(lines) != 4:
        raise MalformedError("a checkpoint that is not three lines")
    if not _is_origin(lines[0]):
        raise MalformedError("a checkpoint without an origin")
    size, root = _parse_number(lines[1]), _parse_hash(lines[2])
    if size == 0 and root != sha256(b""):
        raise MalformedError("an empty log with a root that is not the empty tree's")
    return _Checkpoint(lines[0], size, root)


Met = Callable[[Callable[[int], bool]], bool]


class Policy(NamedTuple):
    """Which logs a reader trusts, and which witnesses must have cosigned a checkpoint."""

    logs: List[_Key]
    witnesses: List[Tuple[str, _Key]]
    met: Optional[Met]  # by the places of those that count; None where no witness is asked for


def parse_policy(document: Text) -> Policy:
    """Reads a policy file. A line that it does not know is refused."""
    data = bytes_of(document)
    if len(data) > _MAX_NOTE:
        raise MalformedError("a policy of more than 65536 bytes")
    if re.search(b"[\x00-\x08\x0b-\x1f\x7f]", data):
        raise MalformedError("a policy with a control character")
    if data and not data.endswith(b"\n"):
        raise MalformedError("a policy whose last line does not end")
    reader = _PolicyReader()
    for line in data.split(b"\n"):
        fields = [f for f in re.split(b"[ \t]", line) if f]
        if fields and not fields[0].startswith(b"#"):
            reader.line(fields[0], fields[1:])
    if not reader.has_quorum:
        raise MalformedError("a policy without a quorum")
    return Policy(reader.logs, reader.witnesses, reader.met)


class _PolicyReader:
    def __init__(self) -> None:
        self.logs: List[_Key] = []
        self.witnesses: List[Tuple[str, _Key]] = []
        self.met: Optional[Met] = None
        self.has_quorum = False
        self.names: Dict[bytes, Met] = {}
        self.used: List[bytes] = []
        self.groups = 0

    def line(self, keyword: bytes, args: List[bytes]) -> None:
        if keyword == b"log" and len(args) in (1, 2):
            self.bound(len(self.logs))
            self.logs.append(self.listed(_parse_key(args[0], 1)))
        elif keyword == b"witness" and len(args) in (2, 3):
            self.bound(len(self.witnesses))
            place = len(self.witnesses)
            key = self.listed(_parse_key(args[1], 4))
            self.witnesses.append((_utf8(args[0]) or _ascii(args[0]), key))
            self.define(args[0], lambda counts: counts(place))
        elif keyword == b"group" and len(args) >= 3:
            self.group(args[0], args[1], args[2:])
        elif keyword == b"quorum" and len(args) == 1 and not self.has_quorum:
            self.has_quorum = True
            if args[0] != b"none":
                if args[0] not in self.names:
                    raise MalformedError("quorum: a name that is not defined above")
                self.met = self.names[args[0]]
        else:
            raise MalformedError("neither log, witness, group nor one quorum")

    def bound(self, n: int) -> None:
        if n >= _MAX_LISTED:
            raise MalformedError("more than 64 of a kind")

    def listed(self, key: _Key) -> _Key:
        """Refuses a key twice: a witness that counts twice would be a smaller quorum."""
        for k in self.logs + [w[1] for w in self.witnesses]:
            if k.public == key.public and (4 in (k.type, key.type) or k.name == key.name):
                raise MalformedError(f"the key of {key.name} is listed twice")
        return key

    def define(self, name: bytes, met: Met) -> None:
        if name in self.names or name == b"none":
            raise MalformedError("a name is taken")
        self.names[name] = met

    def group(self, name: bytes, threshold: bytes, members: List[bytes]) -> None:
        self.bound(self.groups)
        self.groups += 1
        for each in members:
            if each not in self.names or each in self.used:
                raise MalformedError("a group with a member that is not defined above, or is in a group already")
            self.used.append(each)
        mets = [self.names[each] for each in members]
        least = {b"any": 1, b"all": len(mets)}.get(threshold, 0)
        if re.fullmatch(b"[1-9][0-9]{0,3}", threshold):
            least = int(threshold)
        if not 1 <= least <= len(mets):
            raise MalformedError("a group whose threshold is not one")
        self.define(name, lambda counts: sum(m(counts) for m in mets) >= least)


def _seconds(v: Any, path: str) -> int:
    if v is j.ABSENT:
        return 0
    if not isinstance(v, j.Number) or re.fullmatch("-?[0-9]{1,19}", v.text) is None or not 0 <= int(v.text) < 1 << 63:
        raise MalformedError(f"{path} is not a number of seconds")
    return int(v.text)


def _word(v: Any, path: str) -> str:
    return "" if v is j.ABSENT else j.text(v, path)


_list_form = j.shape({
    "logs": j.list_of(j.shape({n: _word for n in ("origin", "key", "prefix", "from", "to", "final")}, loose=True)),
    "mergeDelay": _seconds, "policy": _word,
}, loose=True)


def parse_list(document: Text) -> List[Dict[str, str]]:
    """Reads the generations in a verifier's list of its logs (/.well-known/receipt-log.json)."""
    data = bytes_of(document)
    if len(data) > 1 << 20:
        raise MalformedError("a list of logs of more than 1 MiB")
    read = _list_form(j.parse(data, allow_null=False), "")
    if not 1 <= len(read["logs"]) <= _MAX_LISTED:
        raise MalformedError("list of logs: none, or more than 64")
    for i, g in enumerate(read["logs"]):
        key, path = _parse_key(g["key"].encode(), 1), g["prefix"]
        clean = path == "/" or all(part not in ("", ".", "..") for part in path[1:].split("/"))
        if key.name != g["origin"] or not path.startswith("/") or not clean or re.search(r"[?#%\\ ]", path) or (
            not is_time(g["from"])
        ):
            raise MalformedError(f"list of logs: {g['origin']} is not as the format has it")
        if i == 0 and g["to"] == "" and g["final"] == "":
            continue
        if not is_time(g["to"]):
            raise MalformedError("list of logs: a time is not RFC 3339")
        try:
            _open_for(g["final"].encode(), key)
        except VerificationError as err:
            raise MalformedError(f"list of logs: a final checkpoint: {err}") from None
    parse_policy(read["policy"])
    return read["logs"]


def _open_for(data: bytes, key: _Key) -> _Checkpoint:
    """Reads a signed checkpoint of one log, and checks that log's signature."""
    checkpoint, signed = _open_note(data, [key])
    if key not in signed or checkpoint.origin != key.name:
        raise LogError(f"not signed by a log of the policy: {checkpoint.origin}", "unknownLog")
    return checkpoint


def _generation_of(origin: str) -> Optional[str]:
    """The log of which an origin, HOST/v1/log/N, is a generation."""
    log, _, n = origin.rpartition("/")
    return log if log and n != "0" and _number.fullmatch(n) and int(n) <= _MAX_ENTRIES else None


def _same_log(a: str, b: str) -> bool:
    return a == b or (_generation_of(a) is not None and _generation_of(a) == _generation_of(b))


def _admit(
    policy: Policy, generations: Optional[List[Dict[str, str]]], note: bytes, origin: str, index: int
) -> None:
    """Checks that a checkpoint which the policy accepts is of a log that the verifier lists."""

    def unlisted(why: str) -> LogError:
        return LogError(f"a log that the verifier does not list: {why}", "unlisted")

    listed = generations or []
    g = next((each for each in listed if each["origin"] == origin), None)
    if g is not None:
        key = _parse_key(g["key"].encode(), 1)
        try:
            _open_for(note, key)
        except VerificationError as err:
            raise unlisted(f"{origin} with another key: {err}") from None
        if g["final"] and index >= _open_for(g["final"].encode(), key).size:
            raise unlisted(f"{origin} was closed before entry {index}")
        return
    if any(_same_log(each["origin"], origin) for each in listed):
        raise unlisted(origin)
    if sum(_same_log(k.name, origin) for k in policy.logs) > 1:
        raise unlisted(f"the policy names several generations of {origin}; give the verifier's list")


class Cosignature(NamedTuple):
    witness: str
    time: str


class Logged(NamedTuple):
    """That a receipt is in the log, and who saw it there."""

    origin: str
    index: int  # of the receipt's entry, from 0
    size: int  # of the tree that was signed
    leaf: str  # hash of the entry, hexadecimal
    cosignatures: List[Cosignature]  # of the policy's witnesses
    earliest: Optional[str]  # when as many witnesses as the policy asks for had cosigned


def included(
    doc: Document, proof: Text, policy: Policy, generations: Optional[List[Dict[str, str]]]
) -> Logged:
    """Checks that a receipt is in a log that the policy trusts, and that witnesses saw it as the policy asks."""
    entry = f"chain-evidence-receipt/v1\n{doc.key_id}\n{commitment(doc)}\n".encode()
    leaf = sha256(b"\0" + entry)
    index, hashes, note = _parse_proof(bytes_of(proof))
    c, signed = _open_note(note, policy.logs + [key for _, key in policy.witnesses])
    if not any(k in signed and k.name == c.origin for k in policy.logs):
        raise LogError(f"not signed by a log of the policy: {c.origin}", "unknownLog")
    times = [_time_of(signed[key]) if key in signed else None for _, key in policy.witnesses]

    def met(until: int) -> bool:
        return policy.met is None or policy.met(lambda i: times[i] is not None and times[i] <= until)  # type: ignore

    if not met(1 << 63):
        raise LogError("too few witnesses", "quorum")
    _admit(policy, generations, note, c.origin, index)
    if index >= c.size or _root(leaf, index, c.size, hashes) != c.root:
        raise LogError("the entry is not in the log", "inclusion")
    seen = sorted(t for t in times if t is not None)
    earliest = (seen or [None])[-1] if policy.met is None else next(t for t in seen if met(t))
    cosignatures = [Cosignature(name, _date(t)) for (name, _), t in zip(policy.witnesses, times) if t is not None]
    return Logged(c.origin, index, c.size, leaf.hex(), cosignatures, None if earliest is None else _date(earliest))


def _date(seconds: int) -> str:
    """A time in Unix seconds as RFC 3339, and as the number where no calendar has it."""
    if seconds >= 253_402_300_800:
        return str(seconds)
    return (datetime(1970, 1, 1) + timedelta(seconds=seconds)).isoformat() + "Z"


def _parse_proof(data: bytes) -> Tuple[int, List[bytes], bytes]:
    header = b"c2sp.org/tlog-proof@v1\n"
    if not data.startswith(header):
        raise MalformedError("log proof: the first line is not c2sp.org/tlog-proof@v1")
    rest = data[len(header) :]
    head, _, note = rest.partition(b"\n\n")
    if len(rest) > _MAX_NOTE + (8 << 10) or not note:
        raise MalformedError("log proof: there is no checkpoint")
    lines = _ascii(head).split("\n")
    if not lines[0].startswith("index "):
        raise MalformedError('log proof: a line does not begin with "index "')
    index = _parse_number(lines[0][6:])
    if len(lines) > 52:
        raise MalformedError("log proof: more than 51 hashes")
    return index, [_parse_hash(line) for line in lines[1:]], note


def _root(leaf: bytes, index: int, size: int, hashes: List[bytes]) -> Optional[bytes]:
    """The root to which hashes lead from a leaf (RFC 6962 section 2.1.1); None where they are too many or too few."""
    if size == 1:
        return None if hashes else leaf
    if not hashes:
        return None
    k = 1 << (size - 1).bit_length() - 1  # the largest power of two below size
    left = index < k
    below = _root(leaf, index, k, hashes[:-1]) if left else _root(leaf, index - k, size - k, hashes[:-1])
    if below is None:
        return None
    return sha256(b"\1" + below + hashes[-1]) if left else sha256(b"\1" + hashes[-1] + below)
