// Judges the documents of a file of verdicts, and says where a verdict is another one.
//
// usage: node agree.mjs [FILE]
import {createHash} from 'node:crypto';
import {readFileSync} from 'node:fs';
import {fileURLToPath} from 'node:url';
import {isDeepStrictEqual} from 'node:util';

// With a file, the module is built so that each signature is computed once: most changes leave most of them alone.
const {VerificationError, verify, verifyFinality} = await import(process.argv[2]?.endsWith('.jsonl') ? await remembering() : '../dist/esm/index.js');

async function remembering() {
  const {build} = await import('esbuild');
  const names = {'crypto.ts': ['verifyEd25519', 'recover'], 'bls.ts': ['verifyAggregate']};
  const memo = (name) => `
const known_${name} = new Map();
export const ${name} = (...args) => {
  const id = JSON.stringify(args, (_, v) => typeof v === 'bigint' ? String(v) : v instanceof Uint8Array ? hex(v) : v);
  if (!known_${name}.has(id)) known_${name}.set(id, plain_${name}(...args));
  return known_${name}.get(id);
};`;
  const plugin = {name: 'memo', setup: (b) => b.onLoad({filter: /\/src\/(crypto|bls)\.ts$/}, ({path}) => {
    let contents = "import {hex} from './bytes.ts';\n" + readFileSync(path, 'utf8');
    for (const name of names[path.split('/').at(-1)]) contents = contents.replace(`export function ${name}(`, `function plain_${name}(`) + memo(name);
    return {contents, loader: 'ts'};
  })};
  const outfile = process.argv[2] + '.mjs';
  await build({entryPoints: [fileURLToPath(new URL('../src/index.ts', import.meta.url))], bundle: true, format: 'esm', platform: 'neutral', outfile, plugins: [plugin]});
  return outfile;
}

const top = fileURLToPath(new URL('../../', import.meta.url));
const cache = new Map();
const read = (path) => cache.get(path) ?? cache.set(path, readFileSync(top + path)).get(path);

/** The documents of a line, with its edits. */
export function documents(line) {
  const out = {};
  for (const [name, data] of Object.entries(line.inline ?? {})) out[name] = new Uint8Array(Buffer.from(data, 'base64'));
  for (const [name, path] of Object.entries(line.documents ?? {})) {
    let data = read(path);
    for (const e of line.edits ?? []) {
      if (e.document === name) data = Buffer.concat([data.subarray(0, e.at), Buffer.from(e.insert ?? '', 'base64'), data.subarray(e.at + e.remove)]);
    }
    out[name] = new Uint8Array(data);
  }
  return out;
}

export function judge(line) {
  const {answer, ...given} = documents(line);
  const options = {...given};
  for (const name of ['kind', 'checkpoint', 'maxCheckpointAge']) if (line[name]) options[name] = line[name];
  if (line.withoutProof) options.requireProof = false;
  try {
    if (!answer) return {code: 'valid', finality: verifyFinality(given.finality, options)};
    const r = verify(answer, options);
    const text = [r.proven, r.attested].map((l) => l.map((f) => `${f.field}\t${f.value}\t${f.how}\n`).join('') + '\n').join('');
    return {
      code: 'valid', facts: createHash('sha256').update(text).digest('hex'), proven: r.proven.length, attested: r.attested.length,
      ...(r.log ? {log: r.log} : {}), ...(r.finality ? {finality: r.finality} : {}),
    };
  } catch (err) {
    if (!(err instanceof VerificationError)) throw err;
    return {code: err.code};
  }
}

/** A verdict of Go as this package has it. */
export function expected({finality, ...verdict}) {
  if (verdict.facts) verdict.proven ??= 0;
  if (!finality) return verdict;
  const {proven, checkpointTime, ...rest} = finality;
  return {...verdict, finality: {...rest, checkpointTime: checkpointTime ?? null}};
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const lines = readFileSync(process.argv[2] ?? top + 'testdata/verdicts.jsonl', 'utf8').trimEnd().split('\n').map((l) => JSON.parse(l));
  let differ = 0;
  const began = performance.now();
  for (const line of lines) {
    let found;
    try {
      found = judge(line);
    } catch (err) {
      found = {code: `thrown: ${err.stack}`};
    }
    const want = expected(line.verdict);
    if (!isDeepStrictEqual(found, want) && ++differ <= 20) console.log(line.name, JSON.stringify(line.edits), '\n  Go:  ', JSON.stringify(want), '\n  here:', JSON.stringify(found));
  }
  console.log(`${lines.length} documents, ${differ} verdicts differ, ${((performance.now() - began) / 1000).toFixed(1)} s`);
  process.exitCode = differ > 0 ? 1 : 0;
}
