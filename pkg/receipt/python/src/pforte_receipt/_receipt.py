"""The receipt: its form, what it says, and the proof that it carries."""

from __future__ import annotations

import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from . import _json as j
from ._bytes import Text, bytes_of, hex0x, is_hex, more, quantity, unbase64, unhex
from ._evm import (
    Header, Transaction, TxReceipt, contract_address, decode_header, decode_receipt, decode_transaction, encode_uint,
    verify_trie,
)
from .errors import MalformedError, ProofError

MAX_SIZE = 16 << 20

# The two kinds: type and payload type belong together for ever.
KINDS = {
    "transaction": ("chain-evidence-receipt", "application/vnd.chain-evidence.receipt.v1+json"),
    "transfer": ("chain-evidence-transfer", "application/vnd.chain-evidence.transfer.v1+json"),
}


class Document(NamedTuple):
    """A signed receipt, read and not yet verified."""

    kind: str
    receipt: Dict[str, Any]
    body: bytes  # the canonical bytes
    key_id: str
    payload_type: str
    signature: bytes
    proof: Optional[Dict[str, Any]]


class Fact(NamedTuple):
    """One member of a receipt and how it is known."""

    field: str  # path in the receipt, such as transaction.from
    value: str  # "null" where there is none
    how: str  # in plain words


def _hex_text(v: Any, path: str) -> str:
    if not is_hex(j.text(v, path)):
        raise MalformedError(f"{path} is not 0x and lower-case hexadecimal digits")
    return v


def _texts(names: str, form: j.Form = j.text) -> Dict[str, j.Form]:
    return {name: form for name in names.split()}


_opt, _null = j.optional(j.text), j.or_null(j.text)
_receipt_form = j.shape({
    **_texts("type verdict"), "version": j.whole,
    "chain": j.shape(_texts("id name")),
    "request": j.shape({
        "transactionHash": j.text,
        "expectations": j.shape({**_texts("status from to selector", _opt), "minConfirmations": j.optional(j.whole)}),
        "transfer": j.optional(j.shape({
            **_texts("token to"), **_texts("from amount minAmount", _opt), "logPosition": j.optional(j.whole),
            "authorization": j.optional(j.shape(_texts("authorizer nonce"))),
        })),
    }),
    "transaction": j.shape({
        **_texts("hash type index from valueWei"), **_texts("to contractAddress selector nonce", _null),
    }),
    "block": j.shape(_texts("number hash parentHash timestamp transactionsRoot receiptsRoot")),
    "outcome": j.shape({**_texts("gasUsed cumulativeGasUsed logs"), "status": _null}),
    "finality": j.shape({"tag": j.text, "met": j.yes}),
    "checks": j.list_of(j.shape(_texts("name method result"))),
    "transfer": j.optional(j.shape({
        **_texts("standard from to amount matches toIn toOut"), "token": _null, "logPosition": j.or_null(j.whole),
        "authorization": j.or_null(j.shape({**_texts("authorizer nonce"), "logPosition": j.whole})),
    })),
})
_signature_form = j.shape(_texts("algorithm keyId payloadType value"))
_proof_form = j.shape({
    "headerRlp": j.optional(_hex_text), "index": _opt, "transaction": j.optional(j.list_of(_hex_text)),
    "receipt": j.optional(j.list_of(_hex_text)),
})
_envelope_form = j.list_of(j.shape(_texts("keyid sig", _opt)))


def parse(answer: Text) -> Document:
    """Reads a signed receipt in either presentation, the plain answer or the DSSE envelope, without verifying it."""
    data = bytes_of(answer)
    if len(data) > MAX_SIZE:
        raise MalformedError(f"more than {MAX_SIZE} bytes")
    doc = j.parse(data, allow_null=True)
    if not isinstance(doc, dict):
        raise MalformedError("not an object")
    for name in doc:
        if name not in ("receipt", "signature", "proof", "payloadType", "payload", "signatures"):
            raise MalformedError(f"{name} is not known")
    for name in ("payloadType", "payload"):
        if doc.get(name, "") is None:
            del doc[name]
        elif name in doc:
            j.text(doc[name], name)
    plain, envelope = {"receipt", "signature"}, {"payloadType", "payload", "signatures"}
    if plain <= doc.keys() and not envelope & doc.keys():
        return _parse_plain(doc)
    if envelope == doc.keys():
        return _parse_envelope(doc)
    raise MalformedError("neither {receipt, signature, proof} nor a DSSE envelope")


def _parse_plain(doc: Dict[str, Any]) -> Document:
    receipt, body, kind = _parse_receipt(doc["receipt"])
    s = _signature_form(doc["signature"], "signature")
    proof = None
    if "proof" in doc:
        proof = {"headerRlp": "0x", "index": "", "transaction": [], "receipt": [], **_proof_form(doc["proof"], "proof")}
    return _signed(kind, receipt, body, s["algorithm"], s["keyId"], s["payloadType"], s["value"], proof)


def _parse_envelope(doc: Dict[str, Any]) -> Document:
    signatures = _envelope_form(doc["signatures"], "signatures")
    if len(signatures) != 1:
        raise MalformedError(f"{len(signatures)} signatures, not one")
    payload = unbase64(doc["payload"])
    if payload is None:
        raise MalformedError("payload is not base64")
    receipt, body, kind = _parse_receipt(j.parse(payload, allow_null=True))
    if body != payload:
        raise MalformedError("payload is not canonical")
    one = signatures[0]
    return _signed(kind, receipt, body, "Ed25519", one.get("keyid", ""), doc["payloadType"], one.get("sig", ""), None)


def _parse_receipt(value: Any) -> Tuple[Dict[str, Any], bytes, str]:
    body = j.canonicalize(value).encode()
    receipt = _receipt_form(value, "receipt")
    return receipt, body, _validate(receipt)


def is_key_id(text: str) -> bool:
    return text.startswith("sha256:") and is_hex("0x" + text[7:], 32)


def _signed(
    kind: str, receipt: Dict[str, Any], body: bytes, algorithm: str, key_id: str, payload_type: str, value: str,
    proof: Optional[Dict[str, Any]],
) -> Document:
    if algorithm != "Ed25519":
        raise MalformedError("the algorithm is not Ed25519")
    if payload_type != KINDS[kind][1]:
        raise MalformedError(f"the payload type is not {KINDS[kind][1]}")
    if not is_key_id(key_id):
        raise MalformedError("the key id is not sha256: and 64 hexadecimal digits")
    signature = unbase64(value)
    if signature is None or len(signature) != 64:
        raise MalformedError("the signature is not base64 of 64 bytes")
    return Document(kind, receipt, body, key_id, payload_type, signature, proof)


def is_chain_id(text: str) -> bool:
    return text.startswith("eip155:") and quantity(text[7:], 64) and text != "eip155:0"


Member = Tuple[str, str, bool]  # path, value for a list of facts, whether it has its one spelling


def _or_null(v: Optional[str]) -> str:
    return "null" if v is None else v


def _hex_or_null(v: Optional[str], size: int) -> bool:
    return v is None or is_hex(v, size)


_type_form = re.compile("0x(?:[0-9a-f]|[1-7][0-9a-f])")


def _members(r: Dict[str, Any]) -> List[Member]:
    t, b, o = r["transaction"], r["block"], r["outcome"]
    return [
        ("transaction.hash", t["hash"], is_hex(t["hash"], 32)),
        ("transaction.type", t["type"], _type_form.fullmatch(t["type"]) is not None),
        ("transaction.index", t["index"], quantity(t["index"], 64)),
        ("transaction.from", t["from"], is_hex(t["from"], 20)),
        ("transaction.to", _or_null(t["to"]), _hex_or_null(t["to"], 20)),
        ("transaction.contractAddress", _or_null(t["contractAddress"]), _hex_or_null(t["contractAddress"], 20)),
        ("transaction.selector", _or_null(t["selector"]), _hex_or_null(t["selector"], 4)),
        ("transaction.valueWei", t["valueWei"], quantity(t["valueWei"], 256)),
        ("transaction.nonce", _or_null(t["nonce"]), t["nonce"] is None or quantity(t["nonce"], 64)),
        ("block.number", b["number"], quantity(b["number"], 64)),
        ("block.hash", b["hash"], is_hex(b["hash"], 32)),
        ("block.parentHash", b["parentHash"], is_hex(b["parentHash"], 32)),
        ("block.timestamp", b["timestamp"], quantity(b["timestamp"], 64)),
        ("block.transactionsRoot", b["transactionsRoot"], is_hex(b["transactionsRoot"], 32)),
        ("block.receiptsRoot", b["receiptsRoot"], is_hex(b["receiptsRoot"], 32)),
        ("outcome.status", _or_null(o["status"]), o["status"] in (None, "success", "reverted")),
        ("outcome.gasUsed", o["gasUsed"], quantity(o["gasUsed"], 64)),
        ("outcome.cumulativeGasUsed", o["cumulativeGasUsed"], quantity(o["cumulativeGasUsed"], 64)),
        ("outcome.logs", o["logs"], quantity(o["logs"], 64)),
    ] + (_transfer_members(r["transfer"]) if "transfer" in r else [])


def _transfer_members(t: Dict[str, Any]) -> List[Member]:
    sum_bits = 288  # of 2^32 transfers of 256 bits
    a = t["authorization"]
    out: List[Member] = [
        ("transfer.standard", t["standard"], t["standard"] in ("erc20", "native")),
        ("transfer.token", _or_null(t["token"]), _hex_or_null(t["token"], 20)),
        ("transfer.from", t["from"], is_hex(t["from"], 20)),
        ("transfer.to", t["to"], is_hex(t["to"], 20)),
        ("transfer.amount", t["amount"], t["amount"] != "0" and quantity(t["amount"], 256)),
        ("transfer.logPosition", "null" if t["logPosition"] is None else str(t["logPosition"]), True),
        ("transfer.matches", t["matches"], t["matches"] != "0" and quantity(t["matches"], 63)),
        ("transfer.toIn", t["toIn"], quantity(t["toIn"], sum_bits)),
        ("transfer.toOut", t["toOut"], quantity(t["toOut"], sum_bits)),
    ]
    if a is None:
        return out + [("transfer.authorization", "null", True)]
    return out + [
        ("transfer.authorization.authorizer", a["authorizer"], is_hex(a["authorizer"], 20)),
        ("transfer.authorization.nonce", a["nonce"], is_hex(a["nonce"], 32)),
        ("transfer.authorization.logPosition", str(a["logPosition"]), True),
    ]


def _checks_for(sender_method: str, request: Dict[str, Any]) -> List[Dict[str, str]]:
    """The checks that follow from a request: the six of the block, then one for each expectation."""
    e, x = request["expectations"], request.get("transfer")
    names = ["status", "transfer"] if x else [n for n in ("status", "from", "to", "selector") if n in e]
    names += ["authorization"] if x and "authorization" in x else []
    names += ["minConfirmations"] if "minConfirmations" in e else []
    checks = [
        ("canonicalBlock", "block"), ("transactionHash", "keccak256"), ("sender", sender_method),
        ("transactionsRoot", "mpt"), ("receiptsRoot", "mpt"), ("headerHash", "keccak256"),
    ] + [(name, "expectation") for name in names]
    return [{"name": name, "method": method, "result": "pass"} for name, method in checks]


def _fault(what: str, ok: bool) -> None:
    if not ok:
        raise MalformedError(f"{what} is not as the format has it")


_name_form = re.compile("[a-z0-9-]{1,64}")


def _validate(r: Dict[str, Any]) -> str:
    """Checks that the receipt is one that may exist, and returns its kind."""
    kind = next((k for k, (name, _) in KINDS.items() if name == r["type"]), None)
    if kind is None or r["version"] != 1:
        raise MalformedError("type is not as the format has it")
    q, t, o = r["request"], r["transaction"], r["outcome"]
    e, is_transfer = q["expectations"], kind == "transfer"
    _fault("transfer", ("transfer" in r) == is_transfer)
    _fault("request.transfer", ("transfer" in q) == is_transfer)
    _fault("verdict", r["verdict"] == "verified")
    _fault("chain.id", is_chain_id(r["chain"]["id"]))
    _fault("chain.name", _name_form.fullmatch(r["chain"]["name"]) is not None)
    _fault("finality", r["finality"] == {"tag": "finalized", "met": True})
    _fault("request.expectations", all(v not in ("", 0) for v in e.values()))  # what is empty is absent
    _fault("checks", any(r["checks"] == _checks_for(m, q) for m in ("secp256k1", "preimage")))
    _fault("request.transactionHash", q["transactionHash"] == t["hash"])
    for field, _, ok in _members(r):
        _fault(field, ok)
    _fault("transaction.selector", t["to"] is not None or t["selector"] is None)
    _fault("transaction.contractAddress", t["contractAddress"] is None or (
        t["to"] is None and o["status"] == "success" and t["nonce"] is not None))
    _fault("outcome.gasUsed", not more(o["gasUsed"], o["cumulativeGasUsed"]) and (
        t["index"] != "0" or o["gasUsed"] == o["cumulativeGasUsed"]))
    if is_transfer:
        _transfer_holds(r)
    _fault("expectations.status", e.get("status", o["status"]) == o["status"])
    for name in ("from", "to", "selector"):
        _fault(f"expectations.{name}", e.get(name, t[name]) == t[name])
    _fault("expectations.minConfirmations", e.get("minConfirmations", 1) <= 100_000)
    return kind


def _transfer_holds(r: Dict[str, Any]) -> None:
    """Checks that the transfer is the one that is asked for, and can be one of this transaction."""
    x, t, tx = r["request"]["transfer"], r["transfer"], r["transaction"]
    native = x["token"] == "native"
    _fault("request.transfer", _may_be_asked(x))

    def in_logs(position: int) -> bool:
        return not more(str(position + 1), r["outcome"]["logs"])

    _fault("outcome.status", r["outcome"]["status"] == "success")
    _fault("request.expectations", r["request"]["expectations"].keys() <= {"minConfirmations"})
    _fault("transfer.standard", (t["standard"] == "native") == native)
    _fault("transfer.token", t["token"] is None if native else t["token"] == x["token"])
    _fault("transfer.amount", _fits(x, t["from"], t["to"], t["amount"]) and not more(t["amount"], t["toIn"]))
    position = t["logPosition"]
    _fault("transfer.logPosition", (position is None) == native and (position is None or in_logs(position)))
    _fault("transfer.logPosition", "logPosition" not in x or (x["logPosition"] == position and t["matches"] == "1"))
    _fault("transfer.matches", not native or (t["matches"] == "1" and t["toIn"] == t["amount"] and t["toOut"] == "0"))
    _fault("transfer.from", not native or (
        t["from"] == tx["from"] and t["to"] == tx["to"] and t["amount"] == tx["valueWei"]))
    a, wanted = t["authorization"], x.get("authorization")
    _fault("transfer.authorization", (a is None) == (wanted is None))
    _fault("transfer.authorization", a is None or (
        a["authorizer"] == wanted["authorizer"] and a["nonce"] == wanted["nonce"] and in_logs(a["logPosition"])))


def facts(r: Dict[str, Any]) -> List[Fact]:
    """Every member of a receipt that is a fact or a check, in order, as known by the signature."""
    by = "stated by the signer"
    more_words = {
        "canonicalBlock": ": this block is the canonical one at its height",
        "minConfirmations": ": this block has as many confirmations as expected",
    }
    return [
        Fact("chain.id", r["chain"]["id"], by), Fact("chain.name", r["chain"]["name"], by),
        *(Fact(field, value, by) for field, value, _ in _members(r)),
        Fact("finality.tag", r["finality"]["tag"], by + ": the chain calls this block finalized"),
        *(Fact("checks." + c["name"], c["result"], by + more_words.get(c["name"], "")) for c in r["checks"]),
    ]


def attested(r: Dict[str, Any], proven: List[Fact]) -> List[Fact]:
    """The facts that are not proven, and for which only the signature stands."""
    known = {fact.field for fact in proven}
    return [fact for fact in facts(r) if fact.field not in known]


# ---- transfers

_TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
_USED = "0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5"
_PADDED = "0x" + 24 * "0"
_ZERO_ADDRESS = "0x" + 40 * "0"
_NATIVE_LOGS = "0x" + 39 * "f" + "e"  # EIP-7708: the native coin, never a token


class Log(NamedTuple):
    """An event of the transaction, as its proven receipt holds it."""

    address: str
    topics: List[str]
    data: str


class Transfer(NamedTuple):
    """A token movement as the token's own contract logged it (ERC-20)."""

    token: str
    sender: str
    to: str
    value: str


def as_transfer(log: Log) -> Optional[Transfer]:
    topics = log.topics
    if len(topics) != 3 or topics[0] != _TRANSFER or len(log.data) != 66:
        return None
    if not topics[1].startswith(_PADDED) or not topics[2].startswith(_PADDED):
        return None
    return Transfer(log.address, "0x" + topics[1][26:], "0x" + topics[2][26:], str(int(log.data, 16)))


def _may_be_asked(x: Dict[str, Any]) -> bool:
    native, a, payer = x["token"] == "native", x.get("authorization"), x.get("from")

    def amount(name: str) -> bool:
        return name not in x or (x[name] != "0" and quantity(x[name], 256))

    return (
        (native or (is_hex(x["token"], 20) and x["token"] not in (_ZERO_ADDRESS, _NATIVE_LOGS)))
        and is_hex(x["to"], 20) and x["to"] != _ZERO_ADDRESS
        and (payer is None or (is_hex(payer, 20) and payer != x["to"]))
        and ("amount" in x) != ("minAmount" in x) and amount("amount") and amount("minAmount")
        and ("logPosition" not in x or (x["logPosition"] <= 1_000_000 and not native))
        and (a is None or (
            not native and is_hex(a["authorizer"], 20) and is_hex(a["nonce"], 32) and a["authorizer"] != x["to"]
            and payer in (None, a["authorizer"])))
    )


def _fits(x: Dict[str, Any], sender: str, to: str, value: str) -> bool:
    """Reports whether parties and amount are as expected."""
    payer = x["authorization"]["authorizer"] if "authorization" in x else x.get("from")
    if to != x["to"] or sender == to or (sender == _ZERO_ADDRESS if payer is None else sender != payer):
        return False
    return value == x["amount"] if "amount" in x else not more(x["minAmount"], value)


def _find_transfer(x: Dict[str, Any], tx: Transaction, logs: List[Log]) -> Optional[Dict[str, Any]]:
    """Finds the transfer that a request asks for: one log, the lowest that fits or the authorization's."""
    if x["token"] == "native":
        sender, value = hex0x(tx.sender), str(tx.value)
        to = None if tx.to is None else hex0x(tx.to)
        if to is None or not _fits(x, sender, to, value):
            return None
        return {
            "standard": "native", "token": None, "from": sender, "to": to, "amount": value, "logPosition": None,
            "matches": "1", "toIn": value, "toOut": "0", "authorization": None,
        }
    transfers: Dict[int, Transfer] = {}
    for i, log in enumerate(logs):
        t = as_transfer(log)
        if t is not None and t.token == x["token"]:
            transfers[i] = t
    fitting = [
        i for i, t in transfers.items() if _fits(x, t.sender, t.to, t.value) and x.get("logPosition", i) == i
    ]
    if not fitting:
        return None
    at, authorization = fitting[0], None
    if "authorization" in x:
        paid = _paid_by(x, logs, transfers, fitting)
        if paid is None:
            return None
        at, authorization = paid[0], {**x["authorization"], "logPosition": paid[1]}
    t = transfers[at]
    return {
        "standard": "erc20", "token": t.token, "from": t.sender, "to": t.to, "amount": t.value, "logPosition": at,
        "matches": str(len(fitting)),
        "toIn": str(sum(int(m.value) for m in transfers.values() if m.to == x["to"])),
        "toOut": str(sum(int(m.value) for m in transfers.values() if m.sender == x["to"])),
        "authorization": authorization,
    }


def _paid_by(
    x: Dict[str, Any], logs: List[Log], transfers: Dict[int, Transfer], fitting: List[int]
) -> Optional[Tuple[int, int]]:
    """The places of the transfer that an authorization made and of the log that marks it as used.

    It is the token's first transfer after the mark and before its next mark. Only where the transaction has
    one mark, and no transfer of the payer comes next, it may be an earlier one.
    """
    a = x["authorization"]
    wanted = [_USED, _PADDED + a["authorizer"][2:], a["nonce"]]
    marks = [i for i, g in enumerate(logs) if g.address == x["token"] and len(g.topics) == 3 and g.topics[0] == _USED]
    ours, paid_other = -1, False
    for n, mark in enumerate(marks):
        if logs[mark].topics != wanted or logs[mark].data != "0x":
            continue
        ours = mark
        until = marks[n + 1] if n + 1 < len(marks) else len(logs)
        following = next((i for i in range(mark + 1, until) if i in transfers), None)
        if following in fitting:
            return following, ours  # type: ignore[return-value]
        if following is not None:
            paid_other = transfers[following].sender == a["authorizer"]
    if len(marks) == 1 and ours >= 0 and not paid_other and fitting[0] < ours:
        return fitting[0], ours
    return None


# ---- the proof


class _Evidence(NamedTuple):
    """What a proof leads to."""

    header: Header
    index: int
    transaction: Transaction
    receipt: TxReceipt


_IN_HEADER = "in the block's header"
_HEADER_HASH = "hash of the block's header"
_IN_TRANSACTION = "in the transaction under transactionsRoot"
_TRANSACTION_HASH = "hash of the transaction under transactionsRoot"
_IN_RECEIPT = "in its receipt under receiptsRoot"
_AS_EXPECTED = "the proven facts are as expected"


def verify_proof(r: Dict[str, Any], proof: Dict[str, Any]) -> Tuple[List[Fact], List[Log]]:
    """Checks that a proof leads to the receipt's block hash and agrees with the receipt; returns what it proves."""
    try:
        e = _follow(proof)
    except ValueError as err:
        raise ProofError(f"proof does not hold: {err}") from None
    logs = [Log(hex0x(a), [hex0x(t) for t in topics], hex0x(data)) for a, topics, data in e.receipt.logs]
    faults, proven = [], _proven(e)
    if "transfer" in r:
        x = r["request"]["transfer"]
        found = _find_transfer(x, e.transaction, logs) if e.receipt.success else None
        how = _IN_TRANSACTION if x["token"] == "native" else "in the logs of its receipt under receiptsRoot"
        if found is None:
            faults.append("the proven logs hold no transfer as the receipt's request asks for")
        else:
            proven += [Fact(field, value, how) for field, value, _ in _transfer_members(found)]
    method = "secp256k1" if e.transaction.signed else "preimage"
    known = {
        "transactionHash": _TRANSACTION_HASH, "sender": "by " + method, "headerHash": _HEADER_HASH,
        "transactionsRoot": _IN_TRANSACTION, "receiptsRoot": _IN_RECEIPT,
        **{name: _AS_EXPECTED for name in ("status", "from", "to", "selector", "transfer", "authorization")},
    }
    proven += [Fact("checks." + c["name"], "pass", known[c["name"]]) for c in r["checks"] if c["name"] in known]
    claimed = {fact.field: fact.value for fact in facts(r)}
    faults += [
        f"{fact.field} is {fact.value}, the receipt says {claimed.get(fact.field, '')}"
        for fact in proven if claimed.get(fact.field) != fact.value
    ]
    if r["checks"][2]["method"] != method:
        faults.append(f"the sender is known by {method}, the receipt says {r['checks'][2]['method']}")
    if faults:
        raise ProofError("proof does not hold: " + "; ".join(faults))
    return proven, logs


def _follow(proof: Dict[str, Any]) -> _Evidence:
    """Goes from the header through both tries."""
    if not quantity(proof["index"], 64):
        raise ValueError("index is not a decimal number")
    index, header = int(proof["index"]), decode_header(unhex(proof["headerRlp"]))
    key = encode_uint(index)
    tx = decode_transaction(verify_trie(header.transactions_root, key, [unhex(n) for n in proof["transaction"]]))
    receipt = decode_receipt(verify_trie(header.receipts_root, key, [unhex(n) for n in proof["receipt"]]))
    if receipt.type != tx.type:
        raise ValueError("transaction and receipt are of different types")
    return _Evidence(header, index, tx, receipt)


def _proven(e: _Evidence) -> List[Fact]:
    h, tx, r = e.header, e.transaction, e.receipt
    nonce = r.deposit_nonce if tx.nonce is None else tx.nonce
    address, how_address = "null", "no contract whose address follows from proven facts"
    if tx.to is None and nonce is not None and tx.account_nonce and r.success:
        address, how_address = hex0x(contract_address(tx.sender, nonce)), "hash of the proven sender and nonce"
    sender = "in what the transaction's hash covers, or fixed by its type"
    if tx.signed:
        sender = "recovered from the transaction's signature"
    out = [
        Fact("block.hash", hex0x(h.hash), _HEADER_HASH),
        Fact("block.parentHash", hex0x(h.parent_hash), _IN_HEADER),
        Fact("block.number", str(h.number), _IN_HEADER),
        Fact("block.timestamp", str(h.timestamp), _IN_HEADER),
        Fact("block.transactionsRoot", hex0x(h.transactions_root), _IN_HEADER),
        Fact("block.receiptsRoot", hex0x(h.receipts_root), _IN_HEADER),
        Fact("transaction.index", str(e.index), "its key under transactionsRoot"),
        Fact("transaction.hash", hex0x(tx.hash), _TRANSACTION_HASH),
        Fact("transaction.type", hex(tx.type), _IN_TRANSACTION),
    ]
    if tx.chain_id is not None:
        out.append(Fact("chain.id", f"eip155:{tx.chain_id}", _IN_TRANSACTION))
    out += [
        Fact("transaction.from", hex0x(tx.sender), sender),
        Fact("transaction.to", "null" if tx.to is None else hex0x(tx.to), _IN_TRANSACTION),
        Fact("transaction.selector", "null" if tx.selector is None else hex0x(tx.selector), _IN_TRANSACTION),
        Fact("transaction.valueWei", str(tx.value), _IN_TRANSACTION),
        Fact("transaction.nonce", "null" if nonce is None else str(nonce),
             _IN_RECEIPT if tx.nonce is None and nonce is not None else _IN_TRANSACTION),
        Fact("transaction.contractAddress", address, how_address),
        Fact("outcome.status", "null" if r.success is None else "success" if r.success else "reverted", _IN_RECEIPT),
        Fact("outcome.cumulativeGasUsed", str(r.cumulative_gas), _IN_RECEIPT),
        Fact("outcome.logs", str(len(r.logs)), _IN_RECEIPT),
    ]
    if e.index == 0:
        out.append(Fact("outcome.gasUsed", str(r.cumulative_gas), "cumulative gas of the block's first transaction"))
    return out
