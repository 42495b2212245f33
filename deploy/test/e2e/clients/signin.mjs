// Signs in by a library for OpenID Connect, openid-client or oauth4webapi, as each kind of client:
// node signin.mjs LIBRARY ISSUER REDIRECT COOKIE CLIENTS, the last a list of {id, secret, method, alg}. Prints what it
// learned of the user by each client.
import assert from 'node:assert/strict'
import * as openid from 'openid-client'
import * as oauth from 'oauth4webapi'

const [library, issuer, redirect, cookie, list] = process.argv.slice(2)
const scope = 'openid profile email groups offline_access'

// browse follows redirects with the user's session, up to the one that leads to the application.
async function browse (url) {
  for (let i = 0; i < 10; i++) {
    const answer = await fetch(url, { redirect: 'manual', headers: { cookie, accept: 'text/html' } })
    const to = answer.headers.get('location')
    assert.ok(to, `${url} is answered ${answer.status}: ${await answer.clone().text()}`)
    url = new URL(to, url)
    if (url.href.startsWith(redirect)) return url
  }
  throw new Error('too many redirects')
}

// refuses checks that a promise fails, and that the fault names a cause.
const refuses = (promise, cause) => assert.rejects(promise, e => {
  const text = [e, e.cause].map(x => `${x?.message} ${x?.error} ${x?.code} ${JSON.stringify(x?.cause ?? {})}`).join(' ')
  assert.match(text, cause)
  return true
})

async function byOpenidClient ({ id, secret, method, alg }) {
  const auth = { basic: openid.ClientSecretBasic, post: openid.ClientSecretPost, none: openid.None }[method](secret)
  const config = await openid.discovery(new URL(issuer), id, { id_token_signed_response_alg: alg }, auth, { execute: [openid.allowInsecureRequests] })
  const pkceCodeVerifier = openid.randomPKCECodeVerifier(); const expectedState = openid.randomState(); const expectedNonce = openid.randomNonce()
  const ask = async extra => browse(openid.buildAuthorizationUrl(config, {
    redirect_uri: redirect, scope, state: expectedState, nonce: expectedNonce, code_challenge: await openid.calculatePKCECodeChallenge(pkceCodeVerifier), code_challenge_method: 'S256', ...extra
  }))
  const checks = { pkceCodeVerifier, expectedState, expectedNonce, idTokenExpected: true }
  const back = await ask({ max_age: '3600' })
  assert.equal(back.searchParams.get('iss'), issuer)

  // A mix-up: the library refuses an answer that names another issuer, and one that names none.
  for (const change of [u => u.searchParams.set('iss', 'https://evil.example'), u => u.searchParams.delete('iss')]) {
    const foreign = new URL(back); change(foreign)
    await refuses(openid.authorizationCodeGrant(config, foreign, { ...checks, maxAge: 3600 }), /iss/)
  }
  const tokens = await openid.authorizationCodeGrant(config, back, { ...checks, maxAge: 3600 })
  const claims = tokens.claims()
  const info = await openid.fetchUserInfo(config, tokens.access_token, claims.sub)
  await refuses(openid.authorizationCodeGrant(config, back, { ...checks, maxAge: 3600 }), /invalid_grant/)

  // Twenty copies of one refresh have one successor; a confidential client keeps its token.
  const fresh = (await openid.authorizationCodeGrant(config, await ask({}), checks)).refresh_token
  const again = await Promise.all(Array.from({ length: 20 }, () => openid.refreshTokenGrant(config, fresh)))
  const successors = [...new Set(again.map(t => t.refresh_token))]
  assert.equal(successors.length, 1)
  assert.equal(successors[0] === fresh || successors[0] === undefined, method !== 'none')
  if (method !== 'none') {
    assert.equal((await openid.tokenIntrospection(config, again[0].access_token)).active, true)
    await openid.tokenRevocation(config, again[0].access_token)
    await refuses(openid.fetchUserInfo(config, again[0].access_token, claims.sub), /invalid_token/)
  }
  // An error comes back with the issuer as well, so that the library reads it.
  const refused = await ask({ response_type: 'token' })
  assert.equal(refused.searchParams.get('iss'), issuer)
  await refuses(openid.authorizationCodeGrant(config, refused, checks), /unsupported_response_type/)
  return { claims, info, alg: JSON.parse(Buffer.from(tokens.id_token.split('.')[0], 'base64url')).alg }
}

async function byOauth4webapi ({ id, secret, method, alg }) {
  const plain = { [oauth.allowInsecureRequests]: true }
  const as = await oauth.processDiscoveryResponse(new URL(issuer), await oauth.discoveryRequest(new URL(issuer), plain))
  const client = { client_id: id, id_token_signed_response_alg: alg }
  const auth = { basic: oauth.ClientSecretBasic, post: oauth.ClientSecretPost, none: oauth.None }[method](secret)
  const verifier = oauth.generateRandomCodeVerifier(); const state = oauth.generateRandomState(); const nonce = oauth.generateRandomNonce()
  const to = new URL(as.authorization_endpoint)
  for (const [name, value] of Object.entries({
    client_id: id, redirect_uri: redirect, response_type: 'code', scope, state, nonce, code_challenge: await oauth.calculatePKCECodeChallenge(verifier), code_challenge_method: 'S256'
  })) to.searchParams.set(name, value)
  const back = await browse(to)
  const foreign = new URL(back); foreign.searchParams.set('iss', 'https://evil.example')
  assert.throws(() => oauth.validateAuthResponse(as, client, foreign, state), /iss/)
  const params = oauth.validateAuthResponse(as, client, back, state)
  const response = await oauth.authorizationCodeGrantRequest(as, client, auth, params, redirect, verifier, plain)
  const tokens = await oauth.processAuthorizationCodeResponse(as, client, response, { expectedNonce: nonce, requireIdToken: true })
  await oauth.validateApplicationLevelSignature(as, response, plain)
  const claims = oauth.getValidatedIdTokenClaims(tokens)
  const info = await oauth.processUserInfoResponse(as, client, claims.sub, await oauth.userInfoRequest(as, client, tokens.access_token, plain))
  const refreshed = await oauth.processRefreshTokenResponse(as, client, await oauth.refreshTokenGrantRequest(as, client, auth, tokens.refresh_token, plain))
  assert.equal(oauth.getValidatedIdTokenClaims(refreshed).sub, claims.sub)
  return { claims, info, alg: JSON.parse(Buffer.from(tokens.id_token.split('.')[0], 'base64url')).alg }
}

const results = {}
for (const client of JSON.parse(list)) results[client.id] = await (library === 'openid-client' ? byOpenidClient : byOauth4webapi)(client)
console.log(JSON.stringify(results))
