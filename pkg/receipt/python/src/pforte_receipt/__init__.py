"""Checks signed receipts about blockchain transactions, offline: no network, no clock, no dependency.

    from pforte_receipt import verify
    result = verify(open("answer.json").read(), keys=open("receipt-signing-key.json").read(), kind="transfer")
    print(result.transfer["amount"], [fact.field for fact in result.proven])

Finality documents are not checked here: FinalityUnsupportedError says so.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional

from ._bytes import Text
from ._keys import check_state, parse_keys, verify_signature
from ._log import Cosignature, Logged, included, parse_list, parse_policy
from ._receipt import Fact, Log, Transfer, as_transfer, attested, parse, verify_proof
from .errors import (
    FinalityUnsupportedError, LogError, MalformedError, NoProofError, OtherKindError, ProofError, RevokedKeyError,
    SignatureError, UnknownKeyError, VerificationError,
)

__version__ = "0.1.0"
__all__ = [
    "Cosignature", "Fact", "FinalityUnsupportedError", "Log", "LogError", "Logged", "MalformedError", "NoProofError",
    "OtherKindError", "ProofError", "Result", "RevokedKeyError", "SignatureError", "Transfer", "UnknownKeyError",
    "VerificationError", "verify",
]


class Result(NamedTuple):
    """What is known after a check. Whatever does not hold is raised instead."""

    kind: str  # transaction or transfer
    receipt: Dict[str, Any]  # as it was signed
    key: Dict[str, Any]  # that signed it: keyId, publicKey, status
    proven: List[Fact]  # follows from the proof alone
    attested: List[Fact]  # stands on the signature alone
    transfer: Optional[Dict[str, Any]]  # of a transfer receipt
    transfers: List[Transfer]  # ERC-20, in the proven logs
    logs: List[Log]  # the transaction's events, proven
    log: Optional[Logged]  # where the log has it


def verify(
    answer: Text,
    *,
    keys: Text,
    kind: Optional[str] = None,
    require_proof: bool = True,
    log: Optional[Text] = None,
    policy: Optional[Text] = None,
    log_list: Optional[Text] = None,
    finality: Optional[Text] = None,
    checkpoint: Optional[str] = None,
) -> Result:
    """Checks a signed receipt: signature, keys, block proof, and the log where its proof is given.

    keys is the seller's key document; kind, transaction or transfer, refuses the other; log (a tlog-proof) and
    policy (a tlog-policy of your own) go together; log_list is the seller's list of its logs, for a policy that
    names several generations. Documents are text, bytes, or what json.loads made of them; text is the strictest.
    Raises VerificationError.
    """
    doc = parse(answer)
    if kind is not None and kind != doc.kind:
        raise OtherKindError(f"a receipt of another kind: {doc.receipt['type']}")
    listed = parse_keys(keys)
    has_log = log is not None or policy is not None or log_list is not None
    if has_log and log is None:
        raise LogError("a policy without the proof of the log", "noLogProof")
    if has_log and policy is None:
        raise LogError("a proof of the log without a policy of your own", "noPolicy")
    trusted = parse_policy(policy) if policy is not None else None
    generations = parse_list(log_list) if log_list is not None else None
    key = verify_signature(doc, listed, has_log)
    logged = None
    if log is not None and trusted is not None:
        logged = included(doc, log, trusted, generations)
        check_state(key, logged.origin, logged.index)
    if doc.proof is None and require_proof:
        raise NoProofError("the answer has no proof; require_proof=False accepts the signature alone")
    proven, logs = verify_proof(doc.receipt, doc.proof) if doc.proof is not None else ([], [])
    if finality is not None or checkpoint is not None:
        raise FinalityUnsupportedError("finality documents are not checked here; the npm module and `receipt verify` do")
    return Result(
        doc.kind, doc.receipt, key, proven, attested(doc.receipt, proven), doc.receipt.get("transfer"),
        [t for t in map(as_transfer, logs) if t is not None], logs, logged,
    )
