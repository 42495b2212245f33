import { createPublicKey, verify } from 'node:crypto'
import { readFileSync } from 'node:fs'
const [answer, keyDocument] = process.argv.slice(2).map((file) => JSON.parse(readFileSync(file, 'utf8')))
const canonical = (v) => v === null || typeof v !== 'object' ? JSON.stringify(v)
  : Array.isArray(v) ? `[${v.map(canonical)}]`
  : `{${Object.keys(v).sort().map((name) => `${JSON.stringify(name)}:${canonical(v[name])}`)}}`
const kinds = { 'chain-evidence-receipt': 'receipt', 'chain-evidence-transfer': 'transfer' }
const type = `application/vnd.chain-evidence.${kinds[answer.receipt.type]}.v1+json`, body = canonical(answer.receipt)
const key = keyDocument.keys.find((k) => k.keyId === answer.signature.keyId && k.status !== 'revoked')
const publicKey = key && createPublicKey({ key: Buffer.from(key.publicKey, 'base64'), format: 'der', type: 'spki' })
const signed = Buffer.from(`DSSEv1 ${type.length} ${type} ${body.length} ${body}`)
const valid = publicKey && verify(null, signed, publicKey, Buffer.from(answer.signature.value, 'base64'))
console.log(valid ? 'signature valid' : 'signature NOT valid')
process.exit(valid ? 0 : 1)
