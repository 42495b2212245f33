"""Judges the documents of a file of verdicts, and says where a verdict is another one.

usage: python3 agree.py [FILE]
"""

import base64
import functools
import hashlib
import json
import multiprocessing
import pathlib
import sys
import time

here = pathlib.Path(__file__).resolve().parent
top = here.parent.parent
sys.path.insert(0, str(here.parent / "src"))

from pforte_receipt import VerificationError, _keys, _log, verify  # noqa: E402
from pforte_receipt import _crypto  # noqa: E402

# Most changes leave the signature alone: it is computed once.
_keys.verify_ed25519 = _log.verify_ed25519 = functools.lru_cache(maxsize=None)(_crypto.verify_ed25519)


@functools.lru_cache(maxsize=None)
def read(path):
    return (top / path).read_bytes()


def documents(line):
    out = {name: base64.b64decode(data) for name, data in line.get("inline", {}).items()}
    for name, path in line.get("documents", {}).items():
        data = read(path)
        for e in line.get("edits") or []:
            if e["document"] == name:
                data = data[: e["at"]] + base64.b64decode(e["insert"] or "") + data[e["at"] + e["remove"] :]
        out[name] = data
    return out


def judge(line):
    given = documents(line)
    options = {"keys": given["keys"], "log": given.get("log"), "policy": given.get("policy"), "log_list": given.get("list")}
    options.update(kind=line.get("kind") or None, require_proof=not line.get("withoutProof"))
    try:
        r = verify(given["answer"], **options)
    except VerificationError as err:
        return {"code": err.code}
    text = "".join("".join("\t".join(f) + "\n" for f in facts) + "\n" for facts in (r.proven, r.attested))
    out = {"code": "valid", "facts": hashlib.sha256(text.encode()).hexdigest(), "proven": len(r.proven), "attested": len(r.attested)}
    if r.log:
        out["log"] = {**r.log._asdict(), "cosignatures": [c._asdict() for c in r.log.cosignatures]}
    return out


def compare(line):
    want = line["verdict"]
    if "facts" in want:
        want.setdefault("proven", 0)
    try:
        found = judge(line)
    except Exception as err:  # every other error is a fault
        found = {"code": f"raised: {err!r}"}
    return None if found == want else f"{line['name']} {line.get('edits')}\n  Go:   {want}\n  here: {found}"


if __name__ == "__main__":
    began = time.monotonic()
    path = sys.argv[1] if len(sys.argv) > 1 else top / "testdata" / "verdicts.jsonl"
    with open(path, encoding="utf-8") as file:
        lines = [json.loads(text) for text in file]
    # What concerns finality is not for this package.
    lines = [x for x in lines if not {"finality", "checkpoint"} & {*x.get("documents", {}), *x.get("inline", {}), *(n for n, v in x.items() if v)}]
    with multiprocessing.Pool(2) as pool:
        differ = [text for text in pool.imap_unordered(compare, lines, chunksize=100) if text]
    print("\n".join(differ[:20]))
    print(f"{len(lines)} documents, {len(differ)} verdicts differ, {time.monotonic() - began:.1f} s")
    sys.exit(1 if differ else 0)
