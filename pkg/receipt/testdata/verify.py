import base64, json, sys
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import load_der_public_key
answer, key_document = (json.load(open(file)) for file in sys.argv[1:])
names = {"chain-evidence-receipt": b"receipt", "chain-evidence-transfer": b"transfer"}
kind = b"application/vnd.chain-evidence.%s.v1+json" % names.get(answer["receipt"]["type"], b"")
body = json.dumps(answer["receipt"], sort_keys=True, separators=(",", ":")).encode()
signed = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(body), body)
keys = {key["keyId"]: key["publicKey"] for key in key_document["keys"] if key["status"] != "revoked"}
try:
    public = load_der_public_key(base64.b64decode(keys[answer["signature"]["keyId"]]))
    public.verify(base64.b64decode(answer["signature"]["value"]), signed)
except (KeyError, InvalidSignature): sys.exit("signature NOT valid")
print("signature valid")
