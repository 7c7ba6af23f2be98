import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { members } from '../src/answer.js';
import { root } from './support.js';

const here = fileURLToPath(new URL('..', import.meta.url));
const document = parse(readFileSync(`${root}openapi.yaml`, 'utf8'));

/**
 * Follows a reference.
 * @param {any} node
 * @returns {any}
 */
function resolve(node) {
  return node?.$ref ? resolve(node.$ref.slice(2).split('/').reduce((/** @type {any} */ at, /** @type {string} */ name) => at[name],
    document)) : node;
}

/** The alternatives of a schema, or the schema. */
const alternatives = (/** @type {any} */ schema) => (schema.oneOf ?? schema.anyOf ?? [schema]).map(resolve);

/** The schema of what an operation takes. */
const asked = (/** @type {string} */ path) =>
  resolve(resolve(document.paths[path].post.requestBody).content['application/json'].schema);

/** The schema of what an operation answers. */
const answered = (/** @type {string} */ path) =>
  resolve(resolve(document.paths[path].post.responses['200']).content['application/json'].schema);

/** The alternative that has a member. */
const having = (/** @type {any} */ schema, /** @type {string} */ name) => {
  const found = alternatives(schema).find((/** @type {any} */ s) => s.properties?.[name]);
  assert.ok(found, `no alternative has ${name}`);
  return found;
};

const answer = answered('/ratelimit/check');
const limits = having(asked('/ratelimit/check'), 'limits');
const limit = resolve(answer.properties.limits.items);
const problem = resolve(Object.values(resolve(document.paths['/ratelimit/check'].post.responses['422']).content)[0].schema);

test('the types have the members of openapi.yaml, and require the same', () => {
  const text = (/** @type {string[]} */ names) => names.map((name) => JSON.stringify(name)).join(' | ') || 'never';
  const lines = [`import type * as sluice from ${JSON.stringify(join(here, 'src/index.js'))};`,
    'type Optional<T> = { [K in keyof T]-?: {} extends Pick<T, K> ? K : never }[keyof T];',
    'type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : never) : never;'];
  const compare = (/** @type {string} */ type, /** @type {any} */ schema, /** @type {string[]} */ but = []) => {
    const names = Object.keys(schema.properties).filter((name) => !but.includes(name));
    const optional = names.filter((name) => !(schema.required ?? []).includes(name));
    lines.push(`true satisfies Same<keyof ${type}, ${text(names)}>; // ${type}: members`,
      `true satisfies Same<Optional<${type}>, ${text(optional)}>; // ${type}: optional members`);
    for (const name of names) {
      const kind = { integer: 'number', number: 'number', boolean: 'boolean', string: 'string' }[
        /** @type {string} */ (resolve(schema.properties[name]).type)];
      if (kind) {
        lines.push(`true satisfies [NonNullable<${type}[${JSON.stringify(name)}]>] extends [${kind}] ? true : never;`);
      }
    }
  };
  for (const path of ['/ratelimit/check', '/ratelimit/reserve']) {
    compare('sluice.DirectCheck', having(asked(path), 'key'), ['ttl_ms', 'times', 'least']);
    compare('sluice.LimitsCheck', having(asked(path), 'limits'), ['ttl_ms', 'times', 'least']);
    // Only a check can be deferred with a payload.
    compare(path.endsWith('check') ? 'sluice.FactsCheck' : "Omit<sluice.FactsCheck, 'payload'>",
      having(asked(path), 'route'), ['ttl_ms', 'times', 'least']);
  }
  compare('sluice.DirectLimit', resolve(resolve(limits.properties.limits).items));
  compare('sluice.Settlement', asked('/ratelimit/settle'));
  compare("Omit<sluice.Answer, 'byClient'>", answer);
  compare('sluice.LimitAnswer', limit);
  compare('sluice.Denial', resolve(document.components.schemas.Denial));
  compare('sluice.ProblemDocument', problem);
  compare('sluice.FieldError', resolve(problem.properties.errors.items));
  // The classes are what index.d.ts declares.
  for (const name of ['Client', 'Problem', 'UnavailableError', 'ClosedError', 'unavailable', 'overloaded', 'retryAfter']) {
    const [file] = { Client: ['client'], retryAfter: ['retry'] }[name] ?? ['errors'];
    lines.push(`import { ${name} as own${name} } from ${JSON.stringify(join(here, `src/${file}.js`))};`,
      `own${name} satisfies typeof sluice.${name};`);
  }
  const dir = mkdtempSync(join(here, 'node_modules', '.types-'));
  try {
    writeFileSync(join(dir, 'types.ts'), `${lines.join('\n')}\n`);
    writeFileSync(join(dir, 'tsconfig.json'), JSON.stringify({ extends: '../../tsconfig.json',
      include: ['types.ts', '../../src'], compilerOptions: { noUnusedLocals: false } }));
    execFileSync(process.execPath, [join(here, 'node_modules/typescript/bin/tsc'), '-p', dir], { encoding: 'utf8' });
  } catch (error) {
    const output = String(/** @type {any} */ (error).stdout);
    const at = Number(/types\.ts\((\d+)/.exec(output)?.[1]);
    assert.fail(`${lines[at - 1]}\n${output}`);
  } finally {
    rmSync(dir, { recursive: true });
  }
});

test('the members that an answer is read by are those of openapi.yaml, with their kinds', () => {
  for (const [table, schema] of /** @type {const} */ ([[members.answer, answer], [members.limit, limit]])) {
    /** @type {Record<string, string>} */
    const want = {};
    for (const name of Object.keys(schema.properties)) {
      const s = resolve(schema.properties[name]);
      want[name] = (s.type ?? 'object') + (s.nullable && s.type === 'string' ? '?' : '');
    }
    assert.deepEqual(table, want);
  }
});

test('the version is that of the server', () => {
  assert.equal(JSON.parse(readFileSync(join(here, 'package.json'), 'utf8')).version, document.info.version);
});
