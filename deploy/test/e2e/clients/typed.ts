// A client made of /openapi.json: it compiles without a cast, strictly (see discovery_test.go).
import createClient from "openapi-fetch";
import type { paths } from "./typed.generated";

const client = createClient<paths>({ baseUrl: "http://localhost:8080" });
const transactionHash = "0x0000000000000000000000000000000000000000000000000000000000000000";

export async function buy(payment: string): Promise<string> {
  const sold = await client.POST("/v1/verify/chain-transaction", {
    params: { header: { "PAYMENT-SIGNATURE": payment } },
    body: { transactionHash, expectations: { status: "success" } },
  });
  if (sold.error) return `${sold.error.reason}: ${sold.error.error}`;
  return sold.data.receipt.transaction.from + sold.data.signature.value + sold.data.receipt.block.number;
}

export async function buyTransfer(): Promise<string> {
  const sold = await client.POST("/v1/verify/token-transfer", {
    body: { transactionHash, transfer: { token: "native", to: "0x0000000000000000000000000000000000000001", amount: "1" } },
  });
  return sold.data ? sold.data.receipt.transfer.from + sold.data.receipt.transfer.amount : sold.error.reason;
}

export async function look(): Promise<string | undefined> {
  const state = await client.GET("/v1/status/{chain}/{hash}", { params: { path: { chain: "base", hash: transactionHash } } });
  const sample = await client.GET("/v1/sample");
  const price = await client.GET("/v1/verify/chain-transaction");
  const kept = await client.GET("/v1/receipts/{hash}", { params: { path: { hash: transactionHash.slice(2) } } });
  return state.data?.status ?? sample.data?.answer.receipt.verdict ?? kept.data?.receipt.verdict ?? price.error?.reason;
}
