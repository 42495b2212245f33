// An OpenID Connect provider on npm's oidc-provider, with its store in memory. Codes come without pages, so that only
// their exchange is compared: GET /mint?client=ID&n=N returns N of them, a line each. Keys are of the kinds that auth has. Its store is a Map.
//
// settings: PORT, SECRET (of the clients rs and es, by the algorithm of their ID tokens), REDIRECT
import { generateKeyPairSync } from "node:crypto";
import http from "node:http";
import { Provider } from "oidc-provider";

const { PORT, SECRET, REDIRECT } = process.env;
const key = (kind, options, alg) => ({ ...generateKeyPairSync(kind, options).privateKey.export({ format: "jwk" }), alg, use: "sig", kid: alg });
// The package's own store in memory keeps a thousand entries and drops the oldest.
const store = new Map();
class Memory {
  constructor(name) {
    this.name = name;
  }
  key(id) {
    return `${this.name}:${id}`;
  }
  async upsert(id, payload) {
    store.set(this.key(id), payload);
  }
  async find(id) {
    return store.get(this.key(id));
  }
  async consume(id) {
    store.get(this.key(id)).consumed = Math.floor(Date.now() / 1000);
  }
  async destroy(id) {
    store.delete(this.key(id));
  }
  async revokeByGrantId() {}
}
const client = (client_id, alg) => ({
  client_id,
  client_secret: SECRET,
  redirect_uris: [REDIRECT],
  token_endpoint_auth_method: "client_secret_post",
  grant_types: ["authorization_code"],
  response_types: ["code"],
  id_token_signed_response_alg: alg,
});
const provider = new Provider(`http://127.0.0.1:${PORT}`, {
  adapter: Memory,
  jwks: { keys: [key("rsa", { modulusLength: 2048 }, "RS256"), key("ec", { namedCurve: "P-256" }, "ES256")] },
  clients: [client("rs", "RS256"), client("es", "ES256")],
  cookies: { keys: ["a key of the benchmark"] },
  pkce: { required: () => false },
  features: { devInteractions: { enabled: false } },
  conformIdTokenClaims: false, // claims in the ID token, as auth has them
  claims: { openid: ["sub"], profile: ["name", "preferred_username", "nickname", "locale", "updated_at"] },
  findAccount: (_, id) => ({
    accountId: id,
    claims: async () => ({ sub: id, name: "Petra", preferred_username: "petra", nickname: "petra", locale: "de", updated_at: 1790000000 }),
  }),
});

const mint = async (id, n) => {
  const grant = new provider.Grant({ accountId: "b2f1e0c4", clientId: id });
  grant.addOIDCScope("openid profile");
  const grantId = await grant.save(600);
  const client = await provider.Client.find(id);
  const codes = [];
  for (let i = 0; i < n; i++) {
    const code = new provider.AuthorizationCode({ accountId: "b2f1e0c4", client, clientId: id, redirectUri: REDIRECT, scope: "openid profile", grantId, authTime: 1, expiresWithSession: false });
    codes.push(await code.save());
  }
  return codes.join("\n");
};

const app = provider.callback();
http
  .createServer(async (req, res) => {
    const to = new URL(req.url, "http://localhost");
    if (to.pathname !== "/mint") return app(req, res);
    res.end(await mint(to.searchParams.get("client"), Number(to.searchParams.get("n"))));
  })
  .listen(PORT, "127.0.0.1");
