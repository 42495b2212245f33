// Buy as an assistant does: start the agent of a client's configuration, call its tools,
// and print what they answer. CALLS is a JSON list of {"name", "arguments"}.
//   npm install @modelcontextprotocol/sdk
//   node mcp.mjs CONFIGURATION CALLS
import { readFileSync } from "node:fs";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [configuration, calls] = process.argv.slice(2);
const { mcpServers } = JSON.parse(readFileSync(configuration, "utf8"));
const client = new Client({ name: "example", version: "1" });
await client.connect(new StdioClientTransport({ ...mcpServers.pforte, stderr: "ignore" }));
console.log("tools:", (await client.listTools()).tools.map((tool) => tool.name).join(" "));
for (const call of JSON.parse(calls)) {
  const result = await client.callTool(call);
  console.log(`\n> ${call.name} ${JSON.stringify(call.arguments ?? {})}\n${result.content[0].text}`);
}
await client.close();
