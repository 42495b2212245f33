// A paid route made of the official server packages, which offers what ours does: the
// same price, description and extensions. Its evidence is a file.
//
// settings: PORT, FACILITATOR_URL, NETWORK, PAY_TO, ANSWER (path of the file)
import { readFileSync } from "node:fs";
import { HTTPFacilitatorClient } from "@x402/core/server";
import { ExactEvmScheme } from "@x402/evm/exact/server";
import { paymentMiddleware, x402ResourceServer } from "@x402/express";
import { bazaarResourceServerExtension, declareDiscoveryExtension } from "@x402/extensions/bazaar";
import { declarePaymentIdentifierExtension, PAYMENT_IDENTIFIER, paymentIdentifierResourceServerExtension } from "@x402/extensions/payment-identifier";
import express from "express";

const path = "/v1/verify/base-transaction";
const answer = JSON.parse(readFileSync(process.env.ANSWER, "utf8"));
const facilitator = new HTTPFacilitatorClient({ url: process.env.FACILITATOR_URL });
const server = new x402ResourceServer(facilitator)
  .register(process.env.NETWORK, new ExactEvmScheme())
  .registerExtension(bazaarResourceServerExtension)
  .registerExtension(paymentIdentifierResourceServerExtension);

const address = { type: "string", pattern: "^0x[0-9a-fA-F]{40}$" };
const discovery = declareDiscoveryExtension({
  bodyType: "json",
  input: { transactionHash: `0x${"0".repeat(64)}`, expectations: { status: "success" } },
  inputSchema: {
    type: "object",
    required: ["transactionHash"],
    additionalProperties: false,
    properties: {
      transactionHash: { type: "string", pattern: "^0x[0-9a-fA-F]{64}$" },
      expectations: {
        type: "object",
        additionalProperties: false,
        properties: {
          status: { type: "string", enum: ["success", "reverted"] },
          from: address,
          to: address,
          selector: { type: "string", pattern: "^0x[0-9a-fA-F]{8}$" },
          minConfirmations: { type: "integer", minimum: 1, maximum: 100000 },
        },
      },
    },
  },
  output: { example: { receipt: { verdict: "verified" }, signature: { algorithm: "Ed25519" } } },
});

const app = express();
app.use(express.json());
app.get("/health", (_req, res) => res.json({ status: "ok" }));
app.use(
  paymentMiddleware(
    {
      [`POST ${path}`]: {
        accepts: { scheme: "exact", price: "$0.01", network: process.env.NETWORK, payTo: process.env.PAY_TO },
        description: "Signed, offline-checkable evidence about one finalized transaction on base, judged against your expectations.",
        mimeType: "application/json",
        serviceName: "Pforte",
        tags: ["blockchain", "verification", "evidence", "receipt"],
        extensions: { ...discovery, [PAYMENT_IDENTIFIER]: declarePaymentIdentifierExtension(false) },
      },
    },
    server,
  ),
);
app.post(path, (_req, res) => res.json(answer));
app.listen(Number(process.env.PORT), "127.0.0.1");
