// Compiles USDCoin.sol and compares the result with what is committed:
//   npm ci && node compile.mjs          fails when USDCoin.json differs
//   npm ci && node compile.mjs --write  writes it
import { readFileSync, writeFileSync } from 'node:fs'
import solc from 'solc'

const here = new URL('./', import.meta.url)
const input = {
  language: 'Solidity',
  sources: { 'USDCoin.sol': { content: readFileSync(new URL('USDCoin.sol', here), 'utf8') } },
  settings: {
    evmVersion: 'cancun',
    optimizer: { enabled: true, runs: 200 },
    viaIR: true,
    // Without the metadata hash the code depends on source and compiler only.
    metadata: { appendCBOR: false, bytecodeHash: 'none' },
    outputSelection: { '*': { '*': ['abi', 'evm.deployedBytecode.object', 'storageLayout'] } },
  },
}
const output = JSON.parse(solc.compile(JSON.stringify(input)))
for (const e of output.errors ?? []) console.error(e.formattedMessage)
if ((output.errors ?? []).some((e) => e.severity === 'error')) process.exit(1)

const token = output.contracts['USDCoin.sol'].USDCoin
const slots = Object.fromEntries(token.storageLayout.storage.map((s) => [s.label, Number(s.slot)]))
const compiled = JSON.stringify({
  compiler: solc.version(), slots, abi: token.abi, deployedBytecode: '0x' + token.evm.deployedBytecode.object,
}, null, 1) + '\n'
const file = new URL('USDCoin.json', here)
if (process.argv[2] === '--write') {
  writeFileSync(file, compiled)
} else if (readFileSync(file, 'utf8') !== compiled) {
  console.error('USDCoin.json is not what USDCoin.sol compiles to')
  process.exit(1)
}
console.log('USDCoin.json is what USDCoin.sol compiles to, by solc ' + solc.version())
