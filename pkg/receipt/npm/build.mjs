// Builds dist/: one file each of ESM and CommonJS, with what they need of noble in them, and their types.
import {execFileSync} from 'node:child_process';
import {cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {build} from 'esbuild';

process.chdir(import.meta.dirname ?? new URL('.', import.meta.url).pathname);
rmSync('dist', {recursive: true, force: true});
rmSync('build', {recursive: true, force: true});
execFileSync(process.execPath, ['node_modules/typescript/bin/tsc'], {stdio: 'inherit'});

const common = {bundle: true, target: 'es2022', legalComments: 'inline', logLevel: 'warning', charset: 'utf8', minify: true};
// The program is a few lines beside the module.
const beside = {
  name: 'beside',
  setup: (b) => b.onResolve({filter: /^\.\/index\.ts$/}, ({kind}) => kind === 'entry-point' ? undefined : {path: './index.js', external: true}),
};
await build({...common, entryPoints: ['src/index.ts'], format: 'esm', platform: 'neutral', outfile: 'dist/esm/index.js'});
await build({...common, entryPoints: ['src/index.ts'], format: 'cjs', platform: 'neutral', outfile: 'dist/cjs/index.js'});
await build({...common, entryPoints: ['src/mcp.ts'], format: 'esm', platform: 'node', outfile: 'dist/esm/mcp.js', plugins: [beside]});

const types = 'build/npm/src'; // beside the constants of networks, which are imported
for (const format of ['esm', 'cjs']) {
  for (const file of readdirSync(types)) {
    const text = readFileSync(`${types}/${file}`, 'utf8');
    if (file !== 'mcp.d.ts') writeFileSync(`dist/${format}/${file}`, text.replace(/(from '\.\/[a-z]+)\.ts'/g, "$1.js'").replace(/(from "\.\/[a-z]+)\.ts"/g, '$1.js"'));
  }
}
writeFileSync('dist/cjs/package.json', '{"type": "commonjs"}\n');
rmSync('build', {recursive: true});

rmSync('networks', {recursive: true, force: true});
mkdirSync('networks');
cpSync('../finality/networks', 'networks', {recursive: true});
cpSync('../../../LICENSE', 'LICENSE');
writeFileSync('NOTICE', `This package holds parts of @noble/curves and @noble/hashes:\n\n${readFileSync('node_modules/@noble/curves/LICENSE', 'utf8')}`);
