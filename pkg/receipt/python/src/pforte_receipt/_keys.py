"""Key documents, and the signature of a receipt."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional

from . import _json as j
from ._bytes import Text, base64, bytes_of, quantity, unbase64
from ._crypto import sha256, verify_ed25519
from ._receipt import KINDS, Document, is_chain_id
from .errors import MalformedError, RevokedKeyError, SignatureError, UnknownKeyError

_word = j.none(j.text, "")


def _logged(v: Any, path: str) -> Dict[str, Any]:
    return _logged_form(v, path)


_empty_cut_off = {"origin": "", "before": "", "earlier": None}
_logged_form = j.shape({
    "origin": _word, "before": _word, "earlier": j.none(j.list_of(j.none(_logged, _empty_cut_off)), None),
}, loose=True)
_key_form = j.shape({
    **{name: _word for name in ("keyId", "publicKey", "status", "validFrom", "validUntil", "revokedAt")},
    "logged": j.none(_logged, None),
}, loose=True)
_empty_key = _key_form({}, "")
_document_form = j.shape({
    **{name: _word for name in (
        "algorithm", "keyId", "publicKey", "publicKeyFormat", "payloadType", "canonicalization", "signing", "chain")},
    "payloadTypes": j.none(j.list_of(_word), []), "keys": j.none(j.list_of(j.none(_key_form, _empty_key)), []),
}, loose=True)


def parse_keys(document: Text) -> List[Dict[str, Any]]:
    """Reads the keys of a key document. What it does not know is left aside; everything it knows must be right."""
    d = _document_form(j.parse(bytes_of(document), allow_null=True), "")
    for name, want in {
        "algorithm": "Ed25519", "publicKeyFormat": "spki-der-base64", "payloadType": KINDS["transaction"][1],
        "canonicalization": "RFC8785", "signing": "DSSEv1-PAE",
    }.items():
        if d[name] != want:
            raise MalformedError(f"key document: {name} is not {want}")
    if not is_chain_id(d["chain"]):
        raise MalformedError("key document: chain is not a CAIP-2 id of namespace eip155")
    active = [k for k in d["keys"] if k["status"] == "active"]
    if len(active) != 1 or active[0]["keyId"] != d["keyId"] or active[0]["publicKey"] != d["publicKey"]:
        raise MalformedError("key document: the active key is not the one at the top")
    for key in d["keys"]:
        _validate(key)
    if len({k["keyId"] for k in d["keys"]}) != len(d["keys"]):
        raise MalformedError("key document: a key is listed twice")
    return d["keys"]


_SPKI = bytes.fromhex("302a300506032b6570032100")


def _public(text: str) -> bytes:
    der = unbase64(text)
    if der is None or len(der) != 44 or der[:12] != _SPKI:
        raise MalformedError("public key is not the base64 SPKI DER of an Ed25519 key")
    return der[12:]


def _validate(k: Dict[str, Any]) -> None:
    if k["keyId"] != "sha256:" + sha256(_SPKI + _public(k["publicKey"])).hex():
        raise MalformedError("keyId is not the SHA-256 of the public key")
    if k["status"] not in ("active", "next", "retired", "revoked"):
        raise MalformedError("a key has no known status")
    if not all(k[name] == "" or is_time(k[name]) for name in ("validFrom", "validUntil", "revokedAt")):
        raise MalformedError("a key has a time that is not RFC 3339")
    if k["logged"] is None:
        return
    earlier = k["logged"]["earlier"] or []
    origins = [k["logged"]["origin"]] + [c["origin"] for c in earlier]
    befores = [k["logged"]["before"]] + [c["before"] for c in earlier]
    if (
        k["status"] != "revoked" or "" in origins or len(set(origins)) != len(origins)
        or not all(quantity(b, 63) for b in befores) or any(c["earlier"] is not None for c in earlier)
    ):
        raise MalformedError("a key has a cut-off that is not one of a revoked key")


_time = re.compile(
    "([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,][0-9]+)?(?:Z|[+-]([0-9]{2}):([0-9]{2}))"
)


def is_time(text: str) -> bool:
    """Reports whether text is a time of RFC 3339, as Go's time.Parse reads it."""
    found = _time.fullmatch(text)
    if not found:
        return False
    year, month, day, hour, minute, second, zone_hour, zone_minute = (int(x or 0) for x in found.groups())
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    days = [31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    return (
        1 <= month <= 12 and 1 <= day <= days[month - 1] and hour < 24 and minute < 60 and second < 60
        and zone_hour <= 24 and zone_minute <= 60
    )


def pae(doc: Document) -> bytes:
    """What is signed: DSSE's pre-authentication encoding."""
    return f"DSSEv1 {len(doc.payload_type)} {doc.payload_type} {len(doc.body)} ".encode() + doc.body


def verify_signature(doc: Document, keys: List[Dict[str, Any]], has_log: bool) -> Dict[str, Any]:
    """Finds the key that a document names and checks the signature by it.

    With a log to be asked afterwards a revoked key is returned too, because the log may have had the receipt
    before the key's cut-off.
    """
    key = next((k for k in keys if k["keyId"] == doc.key_id), None)
    if key is None:
        raise UnknownKeyError(f"unknown key: {doc.key_id}")
    if not has_log:
        check_state(key, None, 0)
    if not verify_ed25519(_public(key["publicKey"]), pae(doc), doc.signature):
        raise SignatureError("signature does not match")
    return key


def check_state(key: Dict[str, Any], origin: Optional[str], index: int) -> None:
    """Checks that a signature by the key is good, at an index of a log where it is in one."""
    if key["status"] != "revoked":
        return
    logged = key["logged"]
    cut_offs = [] if logged is None else [logged, *(logged["earlier"] or [])]
    if not any(c["origin"] == origin and index < int(c["before"]) for c in cut_offs):
        raise RevokedKeyError(f"revoked key: {key['keyId']}")


def commitment(doc: Document) -> str:
    """What the entry of the log commits to."""
    return base64(sha256(b"chain-evidence-receipt log entry v1\n" + doc.signature + pae(doc)))
