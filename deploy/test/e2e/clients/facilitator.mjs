// A facilitator made of the official packages: verifies and settles payments of
// both protocol versions on one chain.
//
// settings: LISTEN_PORT, RPC_URL, FACILITATOR_KEY (pays the gas)
import { createServer } from "node:http";
import { x402Facilitator } from "@x402/core/facilitator";
import { toFacilitatorEvmSigner } from "@x402/evm";
import { registerExactEvmScheme } from "@x402/evm/exact/facilitator";
import { createWalletClient, http, nonceManager, publicActions } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { baseSepolia } from "viem/chains";

const account = privateKeyToAccount(process.env.FACILITATOR_KEY, { nonceManager });
const client = createWalletClient({
  account,
  chain: baseSepolia,
  transport: http(process.env.RPC_URL),
  pollingInterval: 100,
}).extend(publicActions);
const facilitator = registerExactEvmScheme(new x402Facilitator(), {
  signer: toFacilitatorEvmSigner({ ...client, address: account.address }),
  networks: "eip155:84532",
});

async function bodyOf(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  return JSON.parse(Buffer.concat(chunks));
}

async function answer(request) {
  switch (`${request.method} ${request.url}`) {
    case "GET /supported":
      return facilitator.getSupported();
    case "POST /verify": {
      const { paymentPayload, paymentRequirements } = await bodyOf(request);
      return facilitator.verify(paymentPayload, paymentRequirements);
    }
    case "POST /settle": {
      const { paymentPayload, paymentRequirements } = await bodyOf(request);
      return facilitator.settle(paymentPayload, paymentRequirements);
    }
  }
  return undefined;
}

createServer(async (request, response) => {
  let status = 200;
  let result;
  try {
    result = await answer(request);
    if (result === undefined) [status, result] = [404, { error: "not found" }];
  } catch (error) {
    console.error(error);
    [status, result] = [500, { error: String(error) }];
  }
  console.log(request.method, request.url, status, JSON.stringify(result));
  response.writeHead(status, { "Content-Type": "application/json" });
  response.end(JSON.stringify(result));
}).listen(Number(process.env.LISTEN_PORT), "127.0.0.1");
