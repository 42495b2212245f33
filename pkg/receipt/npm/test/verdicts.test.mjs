import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';
import test from 'node:test';
import {expected, judge} from './agree.mjs';

test('every vector has the verdict that Go has', () => {
  const lines = readFileSync(new URL('../../testdata/verdicts.jsonl', import.meta.url), 'utf8').trimEnd().split('\n');
  assert.ok(lines.length > 400);
  for (const line of lines.map((l) => JSON.parse(l))) assert.deepEqual(judge(line), expected(line.verdict), line.name);
});
