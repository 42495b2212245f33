// Buys one answer with the official v2 client, as its README shows, and prints
// {status, body, payment}.
//
// usage: BUYER_KEY=0x… node buy-v2.mjs URL JSON
import { decodePaymentResponseHeader, wrapFetchWithPaymentFromConfig } from "@x402/fetch";
import { ExactEvmScheme } from "@x402/evm";
import { privateKeyToAccount } from "viem/accounts";

const [url, body] = process.argv.slice(2);
const account = privateKeyToAccount(process.env.BUYER_KEY);
const fetchWithPayment = wrapFetchWithPaymentFromConfig(fetch, {
  schemes: [{ network: "eip155:*", client: new ExactEvmScheme(account) }],
});

const response = await fetchWithPayment(url, {
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body,
});
const header = response.headers.get("PAYMENT-RESPONSE");
console.log(JSON.stringify({
  status: response.status,
  body: await response.json(),
  payment: header && decodePaymentResponseHeader(header),
}));
