// Pay for a call with the official client:
//   npm install @x402/fetch @x402/evm viem
//   PRIVATE_KEY=0x… node pay.mjs URL TRANSACTION
import { wrapFetchWithPayment, x402Client, decodePaymentResponseHeader } from "@x402/fetch";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { privateKeyToAccount } from "viem/accounts";

const [url, transactionHash] = process.argv.slice(2);
const account = privateKeyToAccount(process.env.PRIVATE_KEY);
const pay = wrapFetchWithPayment(fetch, new x402Client().register("eip155:*", new ExactEvmScheme(account)));

const answer = await pay(url, {
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify({ transactionHash, expectations: { status: "success" } }),
});
console.log(answer.status, decodePaymentResponseHeader(answer.headers.get("PAYMENT-RESPONSE")));
console.log((await answer.json()).receipt.verdict);
