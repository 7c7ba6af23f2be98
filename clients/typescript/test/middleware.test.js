import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import express from 'express';
import Fastify from 'fastify';
import { answerOf, limitRequests } from '../src/express.js';
import { limitRequests as fastifyLimit } from '../src/fastify.js';
import { templateOf } from '../src/middleware.js';
import { allowed, clientOf, gate, startFake, startNode } from './support.js';

/** @type {Awaited<ReturnType<typeof startNode>>} */
let node;
/** @type {Awaited<ReturnType<typeof startFake>>} */
let fake;
before(async () => {
  const window = { window_ms: 86_400_000, algorithm: 'fixed_window', align: 'first_hit' };
  node = await startNode({ rules: [
    { name: 'users', scope: 'ip', route: '/users/{id}', limit: 1, ...window },
  ] });
  fake = await startFake();
});
after(async () => {
  await node.stop();
  await fake.stop();
});

/** @typedef {import('../src/express.js').LimitOptions<any>} Options */

/**
 * A server of each framework whose handlers answer what handle returns.
 * @param {import('node:test').TestContext} t
 * @param {import('../src/index.js').Client} client
 * @param {Options} options
 * @param {(request: any) => unknown} [handle]
 */
async function servers(t, client, options = {}, handle = () => 'hello') {
  const app = express();
  const limit = limitRequests(client, options);
  const router = express.Router();
  router.get('/items/:id', limit, async (request, response) => void response.send(await handle(request)));
  app.use('/shop/:shop', router);
  app.get('/users/:id', limit, async (request, response) => void response.send(await handle(request)));
  app.use(limit, async (request, response) => void response.send(await handle(request)));
  const server = app.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const fastify = Fastify();
  await fastify.register(fastifyLimit(client, options));
  fastify.all('/users/:id', handle);
  fastify.all('/*', handle);
  await fastify.listen({ port: 0, host: '127.0.0.1' });
  t.after(async () => {
    server.closeAllConnections();
    server.close();
    await fastify.close();
  });
  const port = (/** @type {any} */ s) => s.address().port;
  return [{ name: 'express', url: `http://127.0.0.1:${port(server)}` },
    { name: 'fastify', url: `http://127.0.0.1:${port(fastify.server)}` }];
}

/** The last check that the scripted service received. */
const last = () => fake.seen.at(-1)?.checks.at(-1);

test('a request is allowed with headers, and denied with the problem document', async (t) => {
  const client = clientOf(t, node.url, { token: node.token });
  // Each server has its own client address, and so its own bucket.
  const options = { trustedProxies: ['127.0.0.1'] };
  for (const [i, { name, url }] of (await servers(t, client, options, (r) => answerOf(r)?.rule)).entries()) {
    const ask = (/** @type {string} */ path) => fetch(url + path, { headers: { 'X-Forwarded-For': `203.0.113.${i}` } });
    const first = await ask('/users/1');
    assert.equal(first.status, 200, name);
    assert.equal(await first.text(), 'users', name);
    assert.equal(first.headers.get('x-ratelimit-remaining'), '0', name);
    const second = await ask('/users/2?a=b');
    assert.equal(second.status, 429, `${name}: another user of the same route`);
    assert.ok(Number(second.headers.get('retry-after')) > 0, name);
    assert.equal(second.headers.get('content-type')?.split(';')[0], 'application/problem+json', name);
    assert.equal(second.headers.get('cache-control'), 'no-store', name);
    assert.match(await second.text(), /"error":"rate_limit_exceeded"/, name);
    assert.equal((await ask('/else')).status, 200, name);
  }
});

test('the facts of a request come from the connection, from trusted proxies only, and from describe', async (t) => {
  const client = clientOf(t, fake.url);
  const trace = '4bf92f3577b34da6a3ce929d0e0e4736';
  const headers = { 'User-Agent': 'u'.repeat(600), traceparent: `00-${trace}-00f067aa0ba902b7-01`,
    'X-Forwarded-For': '198.51.100.9, [2001:db8::7]:80, 127.0.0.3' };
  /** @type {Options} */
  const described = { describe: (r, check) => { check.user = 'ada'; } };
  for (const [options, ip] of /** @type {[Options, string][]} */ ([[described, '127.0.0.1'],
    [{ trustedProxies: ['127.0.0.0/8'] }, '2001:db8::7'],
    [{ trustedProxies: ['127.0.0.0/8', '2001:db8::/32', '198.51.100.9'] }, '198.51.100.9'],
    [{ trustedProxies: ['127.0.0.1'], clientIpHeader: 'X-Real-IP' }, '127.0.0.1']])) {
    for (const { name, url } of await servers(t, client, options)) {
      await fetch(`${url}/users/1?q=1`, { headers });
      const { host, attributes, ...check } = last();
      assert.deepEqual(check, { method: 'GET', route: '/users/{id}', ip, user_agent: 'u'.repeat(512), trace_id: trace,
        ...(options === described ? { user: 'ada' } : {}) }, name);
      assert.deepEqual([host, attributes], ['127.0.0.1', { host: '127.0.0.1' }]);
      await fetch(`${url}/${'long'.repeat(600)}`, { method: 'POST' });
      assert.ok(name === 'fastify' ? last().route === '/*' : last().route.length === 1024, name);
    }
  }
  for (const network of ['10.0.0.0/33', 'proxy', '10.0.0.0/', '10.0.0.0/8/8']) {
    assert.throws(() => limitRequests(client, { trustedProxies: [network] }), TypeError);
  }
});

test('the route is the template of the framework, or the path', async (t) => {
  const [express, fastify] = await servers(t, clientOf(t, fake.url), {});
  for (const [server, path, route] of [[express, '/users/1', '/users/{id}'], [express, '/shop/9/items/1?q', '/shop/9/items/{id}'],
    [express, '/else/1?q=/', '/else/1'], [fastify, '/users/1', '/users/{id}'], [fastify, '/else/1', '/*']]) {
    await fetch(`${/** @type {any} */ (server).url}${path}`);
    assert.equal(last().route, route);
  }
  for (const [template, want] of [['/a/:b/c', '/a/{b}/c'], ['/a/:b(\\d+)', '/a/{b}'], ['/a/*', '/a/*'], ['/a/*rest', '/a/*'],
    ['/a{/:b}', '/a/{b}'], ['/:a-:b', '/{a}-{b}']]) {
    assert.equal(templateOf(template), want);
  }
});

test('requests are skipped as the program says, and OPTIONS without it', async (t) => {
  const client = clientOf(t, fake.url);
  fake.seen = [];
  for (const { url } of await servers(t, client)) {
    await fetch(`${url}/users/1`, { method: 'OPTIONS' });
  }
  for (const { url } of await servers(t, client, { skip: (r) => r.url === '/healthz' })) {
    await fetch(`${url}/healthz`);
  }
  assert.deepEqual(fake.seen, []);
});

test('an outage and a wrong token are decided by the fail mode', async (t) => {
  fake.script = () => ({ status: 500, body: '' });
  for (const { name, url } of await servers(t, clientOf(t, fake.url, { failMode: 'closed' }))) {
    const r = await fetch(url);
    assert.deepEqual([r.status, r.headers.get('x-ratelimit-mode'), r.headers.get('retry-after')], [503, 'closed', '1'], name);
  }
  fake.script = () => undefined;
  /** @type {unknown[]} */
  const errors = [];
  const wrong = clientOf(t, node.url, { token: 'slk_wrong' });
  for (const { name, url } of await servers(t, wrong, { onError: (r, e) => errors.push(e), headers: ['Retry-After'] })) {
    const r = await fetch(url);
    assert.deepEqual([r.status, r.headers.get('x-ratelimit-mode')], [200, null], name);
  }
  assert.equal(errors.length, 2);
});

test('a denial is held back, and a client may leave meanwhile', async (t) => {
  let delay = 1;
  const denied = (/** @type {any} */ check) => ({ ...allowed(check), allowed: false, status: 429, delay_ms: delay });
  fake.script = (call) => ({ status: 200, body: JSON.stringify(denied(call.checks[0])) });
  for (const { name, url } of await servers(t, clientOf(t, fake.url), {}, () => assert.fail('a denied request ran'))) {
    delay = 1;
    assert.equal((await fetch(url)).status, 429, name);
    delay = 3_600_000;
    const left = new AbortController();
    const seen = fake.seen.length;
    const request = fetch(url, { signal: left.signal });
    while (fake.seen.length === seen) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    left.abort();
    await assert.rejects(request);
  }
  fake.script = () => undefined;
});

test('no more requests wait at once than may', async (t) => {
  const client = clientOf(t, fake.url);
  for (const outcome of [{ allowed: true, status: 200 }, { allowed: false, status: 429 }]) {
    fake.script = (call) => ({ status: 200,
      body: JSON.stringify({ ...allowed(call.checks[0]), ...outcome, delay_ms: 3_600_000 }) });
    for (const { name, url } of await servers(t, client, { mostWaiting: 2 }, () => 'ok')) {
      const left = new AbortController();
      const three = [1, 2, 3].map(() => fetch(url, { signal: left.signal }));
      const first = await Promise.race(three);
      assert.equal(first.status, outcome.status, `${name}: the one for which there is no room`);
      await first.text();
      left.abort();
      const ends = await Promise.allSettled(three);
      assert.equal(ends.filter((end) => end.status === 'rejected').length, 2, `${name}: those that waited`);
    }
  }
  fake.script = () => undefined;
  for (const mostWaiting of [0, -1, 1.5, NaN]) {
    assert.throws(() => limitRequests(client, { mostWaiting }), TypeError);
  }
});

test('a delayed request waits, and does not run if its client leaves', async (t) => {
  let ran = 0;
  let delay = 1;
  fake.script = (call) => ({ status: 200, body: JSON.stringify({ ...allowed(call.checks[0]), delay_ms: delay }) });
  const client = clientOf(t, fake.url);
  for (const { name, url } of await servers(t, client, {}, () => { ran++; return 'ok'; })) {
    delay = 1;
    assert.equal((await fetch(url)).status, 200, name);
    delay = 3_600_000;
    const left = new AbortController();
    const request = fetch(url, { signal: left.signal });
    const seen = fake.seen.length;
    while (fake.seen.length === seen) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    left.abort();
    await assert.rejects(request);
  }
  assert.equal(ran, 2);
  fake.script = () => undefined;
});

test('a slot is released when the response has ended', async (t) => {
  fake.script = (call) => ({ status: 200, body: JSON.stringify({ ...allowed(call.checks[0]), lease: 'held' }) });
  const client = clientOf(t, fake.url);
  let started = gate();
  let ends = gate();
  const all = await servers(t, client, {}, async () => {
    started.open();
    await ends.passed;
    return 'ok';
  });
  for (const { name, url } of all) {
    fake.seen = [];
    [started, ends] = [gate(), gate()];
    const released = () => fake.seen.filter((call) => call.path === '/ratelimit/release').map((call) => call.checks[0].lease);
    const response = fetch(url);
    await started.passed;
    assert.deepEqual(released(), [], name);
    ends.open();
    await (await response).text();
    while (released().length === 0) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    assert.deepEqual(released(), ['held'], name);
  }
  fake.script = () => undefined;
});
