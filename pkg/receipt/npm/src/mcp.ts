#!/usr/bin/env node
// Checks receipts as a tool of the Model Context Protocol over stdio: check_receipt. It fetches nothing.
import {readFileSync} from 'node:fs';
import {createInterface} from 'node:readline';
import {parseArgs} from 'node:util';
import tokens from '../../tokens.json' with {type: 'json'};
import packageFile from '../package.json' with {type: 'json'};
import {verify, VerificationError, type Options, type Result} from './index.ts';

const usage = `pforte-receipt mcp --keys FILE [--policy FILE [--list FILE]] [--checkpoint ROOT [--network FILE]]

Serves check_receipt to an assistant, over stdio. Nothing is fetched: the key document (/.well-known/receipt-signing-key.json
of the verifier that you trust), the log's policy and the checkpoint are yours, and no tool call changes them.

  {"mcpServers": {"receipts": {"command": "npx", "args": ["@pforte/receipt", "mcp", "--keys", "/path/to/keys.json"]}}}
`;

const maxMessage = 512 << 10;

function options(): Options {
  try {
    const {values, positionals} = parseArgs({allowPositionals: true, options: {
      keys: {type: 'string'}, policy: {type: 'string'}, list: {type: 'string'}, checkpoint: {type: 'string'},
      network: {type: 'string'},
    }});
    if (positionals.length !== 1 || positionals[0] !== 'mcp' || !values.keys) throw new Error('mcp and --keys are needed');
    const out: Options = {keys: readFileSync(values.keys)};
    for (const name of ['policy', 'list', 'network'] as const) if (values[name]) out[name] = readFileSync(values[name]);
    if (values.checkpoint) out.checkpoint = values.checkpoint;
    return out;
  } catch (err) {
    process.stderr.write(`${(err as Error).message}\n\n${usage}`);
    process.exit(2);
  }
}

const text = {type: ['object', 'string'], description: 'the document, or its text'};
const tool = {
  name: 'check_receipt',
  description: 'Checks a signed receipt on this machine: its signature, the proof that is in it, and the proofs of log and finality that are given. Free.',
  inputSchema: {
    type: 'object', additionalProperties: false, required: ['answer'],
    properties: {answer: {...text, description: 'the signed answer, or its text'}, log: {type: 'string', description: 'its tlog-proof'}, finality: text},
  },
  outputSchema: {
    type: 'object', required: ['valid'],
    properties: {
      valid: {type: 'boolean'}, code: {type: 'string'}, error: {type: 'string'}, receipt: {type: 'object'}, keyId: {type: 'string'},
      proven: {type: 'array', items: {type: 'string'}}, attested: {type: 'array', items: {type: 'string'}},
      log: {type: ['object', 'null']}, finality: {type: ['object', 'null']},
    },
  },
  annotations: {readOnlyHint: true, openWorldHint: false},
};

/** An amount for people: of a known token by its symbol and as a decimal number. */
function amountOf(chain: string, address: string, atomic: string): string {
  const t = tokens.find((each) => each.chain === chain && each.address.toLowerCase() === address);
  if (!t) return `${atomic} of token ${address}`;
  const digits = atomic.padStart(t.decimals + 1, '0');
  const part = digits.slice(digits.length - t.decimals).replace(/0+$/, '');
  return `${digits.slice(0, digits.length - t.decimals)}${part && '.' + part} ${t.symbol}`;
}

function sentence({receipt: r, transfer: t, proven, log, finality, key}: Result): string {
  const what = t
    ? `${t.token === null ? `${t.amount} of the native coin, in atomic units,` : amountOf(r.chain.id, t.token, t.amount)} from ${t.from} to ${t.to}`
    : r.outcome.status === 'success' ? 'it succeeded' : r.outcome.status === 'reverted' ? 'it was reverted' : 'without a recorded status';
  return `Valid: transaction ${r.transaction.hash} in block ${r.block.number} of ${r.chain.name} (${r.chain.id}): ${what}. ` +
    `Signed by ${key.keyId}; ${proven.length ? 'the proof holds' : 'without a proof, so that all of it stands on the signature'}; ` +
    `log: ${log ? `entry ${log.index} of ${log.origin}` : 'not asked for'}; ` +
    `final: ${finality ? 'proven from the checkpoint' : 'the signer says so'}.`;
}

function check(given: Options, {answer, log, finality}: Record<string, never>): object {
  const result = (words: string, structuredContent: object, isError: boolean): object =>
    ({content: [{type: 'text', text: words}], structuredContent, isError});
  try {
    const {policy, list, checkpoint, network, ...keys} = given;
    const r = verify(answer ?? '', {
      ...keys,
      ...(policy ? {policy, ...(list ? {list} : {})} : {}), ...(log === undefined ? {} : {log}),
      ...(checkpoint && finality !== undefined ? {checkpoint, ...(network ? {network} : {})} : {}),
      ...(finality === undefined ? {} : {finality}), requireProof: false,
    });
    return result(sentence(r), {
      valid: true, receipt: r.receipt, keyId: r.key.keyId, proven: r.proven.map((f) => f.field), attested: r.attested.map((f) => f.field),
      log: r.log, finality: r.finality,
    }, false);
  } catch (err) {
    if (!(err instanceof VerificationError)) throw err;
    return result(`NOT VALID: ${err.message}`, {valid: false, code: err.code, error: err.message}, true);
  }
}

function answer(given: Options, method: string, params: any): object | undefined {
  switch (method) {
    case 'initialize': {
      const known = ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25'];
      return {
        protocolVersion: known.includes(params?.protocolVersion) ? params.protocolVersion : known[known.length - 1],
        capabilities: {tools: {}}, serverInfo: {name: 'pforte-receipt', version: packageFile.version},
      };
    }
    case 'ping': return {};
    case 'tools/list': return {tools: [tool]};
    case 'tools/call': return params?.name === tool.name ? check(given, params.arguments ?? {}) : undefined;
    default: return undefined;
  }
}

const given = options();
const send = (message: object): void => void process.stdout.write(JSON.stringify({jsonrpc: '2.0', ...message}) + '\n');
for await (const line of createInterface({input: process.stdin})) {
  if (line.trim() === '') continue;
  let message: any;
  try {
    if (line.length > maxMessage) throw new Error();
    message = JSON.parse(line);
  } catch {
    send({id: null, error: {code: -32700, message: 'not JSON, or larger than 512 KB'}});
    continue;
  }
  const {id, method, params} = message ?? {};
  if (id === undefined || typeof method !== 'string') continue; // a notification, or an answer
  try {
    const result = answer(given, method, params);
    send(result ? {id, result} : {id, error: {code: method === 'tools/call' ? -32602 : -32601, message: 'not known'}});
  } catch {
    send({id, error: {code: -32603, message: 'internal error'}});
  }
}
