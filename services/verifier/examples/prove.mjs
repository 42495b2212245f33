// Pay with the official client, then buy the evidence that this very payment was made:
//   npm install @x402/fetch @x402/evm viem
//   PRIVATE_KEY=0x… node prove.mjs URL BODY VERIFIER > evidence.json
//   receipt verify evidence.json --key VERIFIER
// After 503 send the same payment again; pay-again.mjs does it.
import { wrapFetchWithPayment, x402Client, decodePaymentResponseHeader } from "@x402/fetch";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { privateKeyToAccount } from "viem/accounts";

const [url, body, verifier] = process.argv.slice(2);
const client = new x402Client().register("eip155:*", new ExactEvmScheme(privateKeyToAccount(process.env.PRIVATE_KEY)));

// The client sends the payment by itself: keep the header that it sends.
let sent;
const pay = wrapFetchWithPayment(async (input, init) => {
  const request = new Request(input, init);
  sent = request.headers.get("PAYMENT-SIGNATURE") ?? sent;
  return fetch(request);
}, client);

const headers = { "Content-Type": "application/json" };
const bought = await pay(url, { method: "POST", headers, body });
if (!bought.ok) throw new Error(`${bought.status} ${await bought.text()}`);
const question = JSON.stringify({ payment: { response: bought.headers.get("PAYMENT-RESPONSE"), sent } });

// Nothing is signed before the payment is final, which costs nothing to ask.
const { transaction, network, extra } = decodePaymentResponseHeader(bought.headers.get("PAYMENT-RESPONSE"));
if (extra?.repeated)
  throw new Error(`bought before, by ${transaction}: this payment was not spent, ask another question`);
const { chains } = await (await fetch(`${verifier}/.well-known/x402`)).json();
const chain = chains.find(({ id }) => id === network)?.name;
if (!chain) throw new Error(`nothing is sold about ${network}`);
for (;;) {
  const state = await (await fetch(`${verifier}/v1/status/${chain}/${transaction}`)).json();
  if (state.status === "final") break;
  console.error(`${state.status}; asked again`);
  await new Promise((done) => setTimeout(done, 1000 * Math.min(state.finalInSeconds || 2, 30)));
}
const answer = await pay(`${verifier}/v1/verify/token-transfer`, { method: "POST", headers, body: question });
console.log(await answer.text());
process.exitCode = answer.ok ? 0 : 1;
