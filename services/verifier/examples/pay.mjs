// Pay for a call with the official client:
//   npm install @x402/fetch @x402/evm viem
//   PRIVATE_KEY=0x… node pay.mjs URL BODY > answer.json
//   receipt verify answer.json --key https://verifier.example
// After 503 send the same payment again; pay-again.mjs does it.
import { wrapFetchWithPayment, x402Client, decodePaymentResponseHeader } from "@x402/fetch";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { privateKeyToAccount } from "viem/accounts";

const [url, body] = process.argv.slice(2);
const account = privateKeyToAccount(process.env.PRIVATE_KEY);
const pay = wrapFetchWithPayment(fetch, new x402Client().register("eip155:*", new ExactEvmScheme(account)));

const answer = await pay(url, { method: "POST", headers: { "Content-Type": "application/json" }, body });
const settled = answer.headers.get("PAYMENT-RESPONSE");
console.error(answer.status, JSON.stringify(settled && decodePaymentResponseHeader(settled)));
console.log(await answer.text());
process.exitCode = answer.ok ? 0 : 1;
