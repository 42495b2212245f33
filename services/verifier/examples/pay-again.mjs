// Pay for a call, and send the same payment again until the answer is there:
//   npm install @x402/fetch @x402/evm viem
//   PRIVATE_KEY=0x… node pay-again.mjs URL BODY > answer.json
//   receipt verify answer.json --key https://verifier.example
// After 503 send the same payment again, never a new one: the first may still be settled.
import { x402Client, x402HTTPClient } from "@x402/fetch";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { privateKeyToAccount } from "viem/accounts";

const [url, body] = process.argv.slice(2);
const wallet = new x402HTTPClient(new x402Client().register("eip155:*", new ExactEvmScheme(privateKeyToAccount(process.env.PRIVATE_KEY))));
const send = (headers) => fetch(url, { method: "POST", headers: { "Content-Type": "application/json", ...headers }, body });

let answer = await send();
if (answer.status === 402) {
  const payment = wallet.encodePaymentSignatureHeader(
    await wallet.createPaymentPayload(wallet.getPaymentRequiredResponse((name) => answer.headers.get(name))),
  );
  for (;;) {
    answer = await send(payment).catch(() => undefined); // a lost answer is open as well
    if (answer && answer.status < 500 && answer.status !== 429) break;
    const asked = answer?.headers.get("Retry-After") ?? 2; // until the next month, at the facilitator's limit
    await new Promise((again) => setTimeout(again, 1000 * Math.min(asked, 600)));
  }
}
console.error(answer.status);
console.log(await answer.text());
process.exitCode = answer.ok ? 0 : 1;
