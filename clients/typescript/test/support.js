// A real node, a scripted service, and what both tests and the benchmark need of them.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { Client } from '../src/index.js';

export const root = fileURLToPath(new URL('../../../', import.meta.url));

/** Longer than any step of a test takes on a busy machine, in ms. */
export const patience = 30_000;

/** A directory that the function it comes with deletes. */
export function tempDir() {
  const path = mkdtempSync(join(tmpdir(), 'sluice-client-'));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

/**
 * Starts a node with an embedded store on a free port. Its program is SLUICE_BIN, or is built.
 * @param {{ rules?: object[] }} [options]
 */
export async function startNode({ rules = [] } = {}) {
  const { path: dir, remove } = tempDir();
  let bin = process.env.SLUICE_BIN;
  if (!bin) {
    bin = join(dir, 'sluice');
    execFileSync('go', ['build', '-o', bin, './cmd/sluice'], { cwd: root, env: { ...process.env, CGO_ENABLED: '0' } });
  }
  const program = bin;
  const data = `--data-dir=${join(dir, 'data')}`;
  /** @param {string} scopes */
  const create = (scopes) => execFileSync(program, ['token', 'create', scopes, `--scopes=${scopes}`, data],
    { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  const token = create('check');
  const admin = create('admin');
  const child = spawn(program, ['serve', '--listen=127.0.0.1:0', data], { stdio: ['ignore', 'pipe', 'ignore'],
    env: { ...process.env, SLUICE_STORE_TIMEOUT: '1s' } }); // no fail mode of the node decides on a busy machine
  const ended = once(child, 'exit');
  const stop = async () => {
    child.kill('SIGTERM');
    await ended;
    remove();
  };
  let url = '';
  for await (const line of createInterface({ input: child.stdout })) {
    const found = /listening on (http:\S+)/.exec(line);
    if (found) {
      url = found[1];
      break;
    }
  }
  child.stdout.resume();
  if (!url) {
    await stop();
    throw new Error('the node did not start');
  }
  const file = join(dir, 'rules.json');
  writeFileSync(file, JSON.stringify({ rules }));
  execFileSync(program, ['rules', 'apply', `--server=${url}`, '-f', file],
    { env: { ...process.env, SLUICE_TOKEN: admin }, stdio: 'ignore' });
  return { url, token, pid: /** @type {number} */ (child.pid), stop };
}

/**
 * One call that the scripted service received.
 * @typedef {{ path: string, headers: http.IncomingHttpHeaders, checks: any[] }} Seen
 */

/**
 * What the scripted service answers: undefined for an allowed answer to each check, or a status and a body.
 * @typedef {(call: Seen) => undefined | { status: number, body: string, headers?: object } |
 *   Promise<undefined | { status: number, body: string, headers?: object }>} Script
 */

/** The answer of the scripted service to one check. */
export const allowed = (/** @type {any} */ check) => ({ allowed: true, status: 200, delay_ms: 0, degraded: null, rule: null,
  limits: [{ rule: null, key: check.key ?? '', allowed: true, limit: 1, mode: 'enforce' }], headers: {} });

/** Starts a service that answers as its script says. */
export async function startFake() {
  /** @type {{ script: Script, seen: Seen[] }} */
  const fake = { script: () => undefined, seen: [] };
  const server = http.createServer(async (request, response) => {
    let body = '';
    for await (const part of request) {
      body += part;
    }
    const document = JSON.parse(body);
    const call = { path: request.url ?? '', headers: request.headers, checks: document.checks ?? [document] };
    fake.seen.push(call);
    const said = await fake.script(call);
    if (response.destroyed) {
      return;
    }
    const answers = call.checks.map(allowed);
    response.writeHead(said?.status ?? 200, { 'Content-Type': 'application/json', ...said?.headers });
    response.end(said ? said.body : JSON.stringify(document.checks ? { results: answers } : answers[0]));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  return Object.assign(fake, { url: `http://127.0.0.1:${port}`, stop: async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  } });
}

/**
 * A client that waits for as long as it takes, and closes when the test ends.
 * @param {import('node:test').TestContext} t
 * @param {string} url
 * @param {import('../src/index.js').Options} [options]
 */
export function clientOf(t, url, options) {
  const client = new Client(url, { timeoutMs: patience, callTimeoutMs: patience, ...options });
  t.after(() => client.close());
  return client;
}

/** A direct check. */
export const direct = (/** @type {string} */ key, limit = 100) => ({ key, limit, window_ms: 3_600_000 });

/** A promise and the function that resolves it. */
export function gate() {
  let open = () => {};
  const passed = new Promise((/** @type {(value: undefined) => void} */ resolve) => {
    open = () => resolve(undefined);
  });
  return { passed, open };
}
