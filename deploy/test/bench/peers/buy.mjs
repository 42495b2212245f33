// Buys many answers, one after the other, with the official client as its README
// shows, and prints how many milliseconds each purchase took, as JSON.
//
// usage: BUYER_KEY=0x… node buy.mjs URL JSON TIMES
import { wrapFetchWithPaymentFromConfig } from "@x402/fetch";
import { ExactEvmScheme } from "@x402/evm";
import { privateKeyToAccount } from "viem/accounts";

const [url, body, times] = process.argv.slice(2);
const account = privateKeyToAccount(process.env.BUYER_KEY);
const fetchWithPayment = wrapFetchWithPaymentFromConfig(fetch, {
  schemes: [{ network: "eip155:*", client: new ExactEvmScheme(account) }],
});

const took = [];
for (let i = 0; i < Number(times); i++) {
  const began = performance.now();
  const response = await fetchWithPayment(url, { method: "POST", headers: { "Content-Type": "application/json" }, body });
  await response.text();
  if (response.status !== 200) throw new Error(`purchase ${i}: ${response.status}`);
  took.push(performance.now() - began);
}
console.log(JSON.stringify(took));
