// Reads the value of a PAYMENT-REQUIRED header, prints that of PAYMENT-SIGNATURE:
//   npm install @x402/fetch @x402/evm viem
//   PRIVATE_KEY=0x… node sign.mjs < challenge
import { readFileSync } from "node:fs";
import { x402Client } from "@x402/fetch";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { privateKeyToAccount } from "viem/accounts";

const challenge = JSON.parse(Buffer.from(readFileSync(0, "utf8"), "base64"));
const client = new x402Client().register("eip155:*", new ExactEvmScheme(privateKeyToAccount(process.env.PRIVATE_KEY)));
console.log(Buffer.from(JSON.stringify(await client.createPaymentPayload(challenge))).toString("base64"));
