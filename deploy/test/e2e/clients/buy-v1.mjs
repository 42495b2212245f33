// Buys one answer with the official v1 client, as its README shows, and prints
// {status, body, payment}.
//
// usage: BUYER_KEY=0x… RPC_URL=http://… node buy-v1.mjs URL JSON
import { createWalletClient, http } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { baseSepolia } from "viem/chains";
import { decodeXPaymentResponse, wrapFetchWithPayment } from "x402-fetch";

const [url, body] = process.argv.slice(2);
const client = createWalletClient({
  account: privateKeyToAccount(process.env.BUYER_KEY),
  transport: http(process.env.RPC_URL),
  chain: baseSepolia,
});
const fetchWithPayment = wrapFetchWithPayment(fetch, client);

const response = await fetchWithPayment(url, {
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body,
});
const header = response.headers.get("X-PAYMENT-RESPONSE");
console.log(JSON.stringify({
  status: response.status,
  body: await response.json(),
  payment: header && decodeXPaymentResponse(header),
}));
