// Calls a free tool again and again on one connection of the official MCP client, and
// prints a line at each change between "ok" and what it fails with.
//
// usage: node survive-mcp.mjs URL
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { setTimeout } from "node:timers/promises";

const client = new Client({ name: "survive-mcp", version: "1" });
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2] + "/mcp")));
for (let last; ; await setTimeout(100)) {
  const now = await client.callTool({ name: "list_chains" }).then(() => "ok", (error) => `failed ${error.code}`);
  if (now !== last) console.log((last = now));
}
