// Pay for a tool with the official clients, then buy by MCP the evidence that this very payment was made:
//   npm install @modelcontextprotocol/sdk @x402/core @x402/evm viem
//   PRIVATE_KEY=0x… node prove-mcp.mjs SELLER TOOL ARGUMENTS VERIFIER > evidence.json
//   receipt verify evidence.json --key VERIFIER
// SELLER is the address of any MCP server that sells by x402. After an error with code 503 send the same
// payment again.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { x402Client } from "@x402/core/client";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { privateKeyToAccount } from "viem/accounts";

const [seller, tool, input, verifier] = process.argv.slice(2);
const wallet = new x402Client().register("eip155:*", new ExactEvmScheme(privateKeyToAccount(process.env.PRIVATE_KEY)));

async function connect(url) {
  const client = new Client({ name: "prove-mcp", version: "1" });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  return client;
}

// Calls a paid tool: the first call is answered with the price, the second pays it.
async function pay(client, call) {
  const challenge = await client.callTool(call);
  if (!challenge.structuredContent?.accepts) throw new Error(challenge.content[0].text);
  const sent = await wallet.createPaymentPayload(challenge.structuredContent);
  const result = await client.callTool({ ...call, _meta: { "x402/payment": sent } });
  if (result.isError) throw new Error(result.content[0].text);
  return { result, sent };
}

const shop = await connect(seller);
const { result, sent } = await pay(shop, { name: tool, arguments: JSON.parse(input) });
await shop.close();
const response = result._meta["x402/payment-response"];
if (response.extra?.repeated)
  throw new Error(`bought before, by ${response.transaction}: this payment was not spent, ask another question`);

// Nothing is signed before the payment is final, which costs nothing to ask.
const witness = await connect(`${verifier}/mcp`);
const { chains } = (await witness.callTool({ name: "list_chains" })).structuredContent;
const chain = chains.find(({ id }) => id === response.network)?.name;
if (!chain) throw new Error(`nothing is sold about ${response.network}`);
for (;;) {
  const asked = { chain, transactionHash: response.transaction };
  const state = (await witness.callTool({ name: "transaction_status", arguments: asked })).structuredContent;
  if (state.status === "final") break;
  console.error(`${state.status}; asked again`);
  await new Promise((done) => setTimeout(done, 1000 * Math.min(state.finalInSeconds || 2, 30)));
}
const question = { chain, payment: { response, sent }, proof: "inline" };
const evidence = await pay(witness, { name: "verify_token_transfer", arguments: question });
await witness.close();
console.error(evidence.result.content[0].text);
console.log(evidence.result.content[1].text);
