# Pay for a call with the official Python SDK. CI compiles this file and compares its
# names with the SDK's source; it does not run it.
#   pip install "x402[requests,evm]" eth-account
#   PRIVATE_KEY=0x… python3 pay.py URL BODY > answer.json
#   receipt verify answer.json --key https://verifier.example
# After 503 send the same payment again. This client would sign a new one, so stop there.
import json
import os
import sys

from eth_account import Account
from x402 import max_amount, x402ClientSync
from x402.http.clients import x402_requests
from x402.mechanisms.evm import EthAccountSigner
from x402.mechanisms.evm.exact.register import register_exact_evm_client

url, body = sys.argv[1:]
client = x402ClientSync()
signer = EthAccountSigner(Account.from_key(os.environ["PRIVATE_KEY"]))
register_exact_evm_client(client, signer, policies=[max_amount(10_000)])  # at most 0.01 USD
with x402_requests(client) as http:
    answer = http.post(url, json=json.loads(body))
print(answer.status_code, file=sys.stderr)
print(answer.text)
sys.exit(not answer.ok)
