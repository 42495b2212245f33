// Reads challenges from stdin, an object by name, and prints by the same names what the
// official validator finds wrong with their entries for registries (x402 extension
// bazaar), and what a registry makes of them: {errors, resource, method, tool, service, tags}.
//
// usage: node validate-bazaar.mjs <challenges.json
import { extractDiscoveryInfo, validateDiscoveryExtension, validateDiscoveryExtensionSpec } from "@x402/extensions/bazaar";
import { readFileSync } from "node:fs";

const verdict = ({ x402Version, resource, accepts, extensions }) => {
  const errors = [validateDiscoveryExtension, validateDiscoveryExtensionSpec].flatMap((validate) => validate(extensions.bazaar).errors ?? []);
  const found = extractDiscoveryInfo({ x402Version, resource, extensions, accepted: accepts[0], payload: {} }, accepts[0]);
  return { errors, resource: found?.resourceUrl, method: found?.method, tool: found?.toolName, service: found?.serviceName, tags: found?.tags };
};
const challenges = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(Object.fromEntries(Object.entries(challenges).map(([name, challenge]) => [name, verdict(challenge)]))));
