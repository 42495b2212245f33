// Buys one answer as a tool, with the official MCP client and the official payment
// client, and asks for it again over HTTP with the same payment. With HTTP as the
// third argument it buys over HTTP first. Prints
// {tools, challenge, paid, again, http}: results of the tool, and {status, body}.
//
// usage: BUYER_KEY=0x… node buy-mcp.mjs URL JSON [HTTP]
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { x402Client } from "@x402/core/client";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { privateKeyToAccount } from "viem/accounts";

const [url, body, first] = process.argv.slice(2);
const wallet = new x402Client().register("eip155:*", new ExactEvmScheme(privateKeyToAccount(process.env.BUYER_KEY)));
const client = new Client({ name: "buy-mcp", version: "1" });
await client.connect(new StreamableHTTPClientTransport(new URL(url + "/mcp")));

const call = { name: "verify_transaction", arguments: JSON.parse(body) };
const { tools } = await client.listTools();
const challenge = await client.callTool(call);
const payment = await wallet.createPaymentPayload(challenge.structuredContent);
const asTool = () => client.callTool({ ...call, _meta: { "x402/payment": payment } });
const overHTTP = async () => {
  const answer = await fetch(url + "/v1/verify/chain-transaction", {
    method: "POST",
    headers: { "Content-Type": "application/json", "PAYMENT-SIGNATURE": btoa(JSON.stringify(payment)) },
    body,
  });
  return { status: answer.status, body: await answer.text() };
};

let http = first === "HTTP" ? await overHTTP() : undefined;
const paid = await asTool();
const again = await asTool();
http ??= await overHTTP();
await client.close();
console.log(JSON.stringify({ tools: tools.map((tool) => tool.name), challenge, paid, again, http }));
