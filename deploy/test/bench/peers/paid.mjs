// A paid route made of the official server packages. Its evidence is a file.
//
// settings: PORT, FACILITATOR_URL, NETWORK, PAY_TO, ANSWER (path of the file)
import { readFileSync } from "node:fs";
import { HTTPFacilitatorClient } from "@x402/core/server";
import { ExactEvmScheme } from "@x402/evm/exact/server";
import { paymentMiddleware, x402ResourceServer } from "@x402/express";
import express from "express";

const path = "/v1/verify/base-transaction";
const answer = JSON.parse(readFileSync(process.env.ANSWER, "utf8"));
const facilitator = new HTTPFacilitatorClient({ url: process.env.FACILITATOR_URL });
const server = new x402ResourceServer(facilitator).register(process.env.NETWORK, new ExactEvmScheme());

const app = express();
app.use(express.json());
app.get("/health", (_req, res) => res.json({ status: "ok" }));
app.use(
  paymentMiddleware(
    {
      [`POST ${path}`]: {
        accepts: { scheme: "exact", price: "$0.01", network: process.env.NETWORK, payTo: process.env.PAY_TO },
        description: "Signed evidence about one finalized transaction",
        mimeType: "application/json",
      },
    },
    server,
  ),
);
app.post(path, (_req, res) => res.json(answer));
app.listen(Number(process.env.PORT), "127.0.0.1");
