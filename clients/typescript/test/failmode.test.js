import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import https from 'node:https';
import net from 'node:net';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { inspect } from 'node:util';
import { Breaker } from '../src/breaker.js';
import { Client, ClosedError, Problem, UnavailableError, overloaded, unavailable } from '../src/index.js';
import { tokenOf } from '../src/token.js';
import { Transport } from '../src/transport.js';
import { allowed, clientOf, direct, gate, patience, startFake, tempDir } from './support.js';

/** @typedef {import('./support.js').Seen} Seen */

/** @type {Awaited<ReturnType<typeof startFake>>} */
let fake;
before(async () => {
  fake = await startFake();
});
after(() => fake.stop());
beforeEach(() => {
  fake.script = () => undefined;
  fake.seen = [];
});

/** An address where nothing listens. */
async function deadURL() {
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = /** @type {net.AddressInfo} */ (server.address());
  server.close();
  await once(server, 'close');
  return `http://127.0.0.1:${port}`;
}

const problem = (/** @type {string} */ type, /** @type {number} */ status) =>
  ({ status, body: JSON.stringify({ type: `/problems/${type}`, title: type, status }),
    headers: { 'Content-Type': 'application/problem+json; charset=utf-8' } });

/**
 * Fails a test when it ends if the fail mode decided.
 * @param {import('node:test').TestContext} t
 */
function noted(t) {
  /** @type {unknown[]} */
  const reasons = [];
  t.after(() => assert.deepEqual(reasons, []));
  return (/** @type {unknown} */ e) => reasons.push(e);
}

/** Refuses every call with more than most checks, as a service without a place for them does. */
const overload = (/** @type {number} */ most) => (/** @type {Seen} */ call) =>
  call.checks.length <= most ? undefined : problem('overloaded', 503);

const deniedByOverload = (/** @type {import('../src/index.js').Answer} */ a) => !a.allowed && a.overloaded === true &&
  a.status === 503 && a.degraded === null && !a.byClient && a.headers['Retry-After'] === '1' &&
  JSON.stringify(a.body).includes('temporary-reduced-capacity');

test('the fail mode decides while the service is unavailable', async (t) => {
  const answer = (/** @type {number} */ status, /** @type {string} */ body, headers = {}) => ({ status, body, headers });
  /** @type {Record<string, { status: number, body: string, headers?: object } | undefined>} */
  const causes = { 'dead server': undefined, 500: problem('internal', 500), 503: problem('not-ready', 503),
    '502 page': answer(502, '<html>'), 429: answer(429, ''), 'no JSON': answer(200, '<html>welcome</html>'),
    'cut short': answer(200, '{"allowed":true,"status":200,"lim'), 'no body': answer(200, ''), 204: answer(204, ''),
    redirect: answer(302, '', { Location: 'http://127.0.0.1:9/' }), 'redirect with a document': problem('x', 307),
    huge: answer(200, '{}', { 'Content-Length': 256 * 2 ** 20 + 1 }), word: answer(200, '{"allowed":"yes","status":200}'),
    'no answer': answer(200, '{"status":"ok"}'), empty: answer(200, '{}'), null: answer(200, 'null'),
    list: answer(200, '[]'), 'no status': answer(200, '{"allowed":false,"status":0}'),
    'no allowed': answer(200, '{"status":200}'), 'wrong kind': answer(200, '{"allowed":true,"status":200,"remaining":"1"}'),
    'wrong limit': answer(200, '{"allowed":true,"status":200,"limits":[{"allowed":1}]}'),
    'wrong header': answer(200, '{"allowed":true,"status":200,"headers":{"X-A":"a\\nb"}}') };
  const dead = await deadURL();
  for (const [name, said] of Object.entries(causes)) {
    for (const failMode of /** @type {const} */ ([undefined, 'open', 'closed', 'local'])) {
      /** @type {unknown[]} */
      const reasons = [];
      /** @type {string[]} */
      const logged = [];
      let unreadable = 0;
      const client = clientOf(t, said ? fake.url : dead, { failMode, localLimit: { limit: 1, windowMs: 3_600_000 },
        onDegraded: (e) => reasons.push(e), log: (message) => logged.push(message),
        onCount: (counter, n) => { unreadable += counter === 'unreadable' ? n : 0; } });
      fake.script = () => said;
      const answers = [await client.check(direct('k')), await client.reserve(direct('k')), ...await client.batch([direct('k')])];
      const want = { open: [200, 200, 200], closed: [503, 503, 503], local: [200, 429, 429] }[failMode ?? 'open'];
      for (const [i, a] of answers.entries()) {
        const about = `${name}, ${failMode}, answer ${i}`;
        assert.equal(a.status, want[i], about);
        assert.equal(a.allowed, a.status === 200, about);
        assert.deepEqual([a.degraded, a.byClient], [failMode ?? 'open', true], about);
        if (!a.allowed) {
          assert.ok(a.headers['Retry-After'] && JSON.stringify(a.body).includes('violated-policies'), about);
        }
      }
      assert.equal(reasons.length, 3);
      assert.ok(reasons.every(unavailable), name);
      const bad = said && said.status < 400;
      assert.equal(logged.length, bad ? 1 : 0, `${name}: logged ${logged}`);
      assert.equal(unreadable, bad ? 3 : 0, name);
      await client.close();
    }
  }
});

test('a server that changes the protocol does not cost the timeout', async (t) => {
  const server = net.createServer((socket) => {
    socket.on('error', () => {}).once('data', () =>
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n'));
  }).listen(0, '127.0.0.1');
  t.after(() => server.close());
  await once(server, 'listening');
  const { port } = /** @type {net.AddressInfo} */ (server.address());
  /** @type {string[]} */
  const reasons = [];
  const client = clientOf(t, `http://127.0.0.1:${port}`, { onDegraded: (e) => reasons.push(String(e)) });
  const a = await client.check(direct('k'));
  assert.deepEqual([a.allowed, a.byClient], [true, true]);
  assert.match(reasons.join(), /changed the protocol/);
});

test('a member that is unknown is accepted, and a null is an absent member', async (t) => {
  fake.script = (call) => ({ status: 200, body: JSON.stringify({ ...allowed(call.checks[0]), later: { a: [1] }, burst: null,
    limits: [{ rule: null, key: 'k', allowed: true, limit: 1, mode: 'new', later: 1 }], headers: { 'X-Later': '1' } }) });
  const a = await clientOf(t, fake.url, { failMode: 'closed' }).check(direct('k'));
  assert.equal(a.allowed, true);
  assert.equal('burst' in a, false);
  assert.deepEqual(/** @type {any} */ (a).later, { a: [1] });
});

test('a service that answers nothing costs the timeout, of which it knows, and then nothing', async (t) => {
  fake.script = () => new Promise(() => {});
  /** @type {Record<string, number>} */
  const counts = {};
  const client = new Client(fake.url, { onCount: (name, n) => { counts[name] = (counts[name] ?? 0) + n; } });
  t.after(() => client.close());
  for (let i = 0; i < 50; i++) {
    const a = await client.check(direct('k'));
    assert.deepEqual([a.allowed, a.degraded], [true, 'open']);
  }
  assert.equal(counts.degraded, 50);
  assert.equal(counts.calls + counts.refused, 50);
  assert.equal(counts.failures, counts.calls);
  assert.ok(counts.refused > 0);
  for (const call of fake.seen) {
    assert.equal(call.headers['sluice-timeout-ms'], '25');
  }
});

test('a call says how long its caller waits, at most 1 s', async (t) => {
  for (const [timeoutMs, want] of [[900, '900'], [30_000, '1000']]) {
    const client = clientOf(t, fake.url, { timeoutMs: Number(timeoutMs) });
    await client.check(direct('k'));
    await client.batch([direct('k'), direct('l')]);
    await client.reserve(direct('k'));
    for (const { path, headers } of fake.seen) {
      const said = String(headers['sluice-timeout-ms']);
      // A batch says what is left of the time.
      assert.ok(path.endsWith('batch') ? Number(said) >= 1 && Number(said) <= Number(want) : said === want, `${path}: ${said}`);
    }
    fake.seen = [];
  }
});

test('the breaker probes one at a time and closes', () => {
  let now = 0;
  const b = new Breaker(() => now);
  const fail = () => {
    const p = b.enter();
    assert.ok(p);
    b.leave(p, 'failing');
  };
  for (let i = 0; i < 5; i++) {
    assert.equal(b.enter(), 'permitted');
    b.leave('permitted', i === 2 ? 'unknown' : 'failing');
  }
  fail();
  assert.equal(b.enter(), undefined);
  b.leave('permitted', 'failing'); // a call from before it opened
  for (const pause of [100, 200, 400, 800, 1000, 1000]) {
    now += pause - 1;
    assert.equal(b.enter(), undefined);
    now++;
    assert.equal(b.enter(), 'probe');
    assert.equal(b.enter(), undefined, 'beside a probe');
    b.leave('probe', 'failing');
  }
  now += 1000;
  assert.equal(b.enter(), 'probe');
  b.leave('probe', 'unknown');
  assert.equal(b.enter(), 'probe', 'a probe whose caller left makes room');
  b.leave('probe', 'succeeded');
  assert.equal(b.enter(), 'permitted');
});

test('a wrong request is an error and no outage', async (t) => {
  const client = clientOf(t, fake.url, { failMode: 'closed' });
  for (const status of [400, 401, 403, 404, 413, 415, 422]) {
    fake.script = () => ({ ...problem('x', status), headers: { 'Content-Type': 'application/problem+json',
      Location: 'http://127.0.0.1:9/' } });
    for (let i = 0; i < 6; i++) {
      await assert.rejects(client.check(direct('k')), (e) => e instanceof Problem && e.status === status && !unavailable(e));
    }
  }
});

test('operations have no fail mode, and missing counters do not open the breaker', async (t) => {
  const client = clientOf(t, fake.url);
  fake.script = () => problem('store-unavailable', 503);
  for (let i = 0; i < 6; i++) {
    await assert.rejects(client.settle({ reservation: 'r', weight: 1 }),
      (e) => e instanceof Problem && unavailable(e) && e.type === '/problems/store-unavailable');
  }
  fake.script = () => undefined;
  assert.equal((await client.check(direct('k'))).degraded, null);
});

test('what an overloaded service refuses is sent again in small calls', async (t) => {
  const client = clientOf(t, fake.url, { onDegraded: noted(t) });
  const { passed, open } = gate();
  fake.script = async (call) => {
    await passed;
    return overload(100)(call);
  };
  const checks = Array.from({ length: 700 }, (_, i) => direct(`k${i}`));
  const asked = Promise.all(checks.map((q) => client.check(q)));
  open();
  const answers = await asked;
  fake.script = overload(100);
  answers.push(...await client.batch(checks));
  for (const [i, a] of answers.entries()) {
    assert.equal(a.limits[0].key, `k${i % 700}`);
  }
  const decided = fake.seen.filter((call) => call.checks.length <= 100).flatMap((call) => call.checks.map((c) => c.key));
  assert.equal(decided.length, 1400, 'each check is decided once');
  assert.equal(new Set(decided).size, 700);
});

test('an overload that lasts denies, and is no outage', async (t) => {
  const client = clientOf(t, fake.url, { onDegraded: noted(t) });
  fake.script = overload(0);
  for (let i = 0; i < 6; i++) {
    assert.ok(deniedByOverload(await client.check(direct('k'))));
    assert.ok(deniedByOverload(await client.reserve(direct('k'))));
    const answers = await client.batch(Array.from({ length: 250 }, () => direct('k')));
    assert.ok(answers.length === 250 && answers.every(deniedByOverload));
    await assert.rejects(client.release('l'), (e) => overloaded(e) && unavailable(e));
  }
  fake.script = () => undefined;
  assert.equal((await client.check(direct('k'))).allowed, true);
});

test('an invalid check of a part is named by its place in the whole batch', async (t) => {
  fake.script = (call) => {
    const at = call.checks.findIndex((c) => c.weight < 0);
    return overload(100)(call) ?? (at < 0 ? undefined : { ...problem('invalid', 422), body: JSON.stringify({
      type: '/problems/invalid', title: 'Invalid', status: 422, errors: [{ field: `checks[${at}].weight`, message: 'm' }] }) });
  };
  const checks = Array.from({ length: 250 }, (_, i) => ({ ...direct('k'), weight: i === 217 ? -1 : 1 }));
  await assert.rejects(clientOf(t, fake.url).batch(checks),
    (e) => e instanceof Problem && e.status === 422 && e.errors[0].field === 'checks[217].weight');
});

test('a caller that leaves gets its reason, and a check that was not sent never is', async (t) => {
  const client = clientOf(t, fake.url, { onDegraded: noted(t) });
  const { passed, open } = gate();
  fake.script = () => passed;
  const left = new AbortController();
  const stay = [client.check(direct('a')), client.check(direct('b'))];
  const queued = client.check(direct('leaves'), { signal: left.signal });
  left.abort(new Error('left'));
  await assert.rejects(queued, /left/);
  await assert.rejects(client.check(direct('k'), { signal: left.signal }), /left/);
  await assert.rejects(client.batch([direct('k')], { signal: left.signal }), /left/);
  const sent = new AbortController();
  const flying = client.reserve(direct('flying'), { signal: sent.signal });
  while (!fake.seen.some((call) => call.path.endsWith('reserve'))) {
    await new Promise((resolve) => setImmediate(resolve));
  }
  sent.abort(new Error('too late'));
  await assert.rejects(flying, /too late/);
  open();
  assert.ok((await Promise.all(stay)).every((a) => a.allowed));
  await client.check(direct('after'));
  assert.ok(!JSON.stringify(fake.seen).includes('leaves'));
});

test('a check for which the queue has no room is decided by the fail mode at once', async (t) => {
  /** @type {unknown[]} */
  const reasons = [];
  const client = clientOf(t, fake.url, { maxQueue: 1, maxConns: 2, failMode: 'closed', onDegraded: (e) => reasons.push(e) });
  const { passed, open } = gate();
  fake.script = () => passed;
  const stay = [client.check(direct('a')), client.check(direct('b')), client.check(direct('c'))];
  assert.equal((await client.check(direct('d'))).status, 503);
  const waiting = client.reserve(direct('e'));
  assert.equal((await client.reserve(direct('f'))).status, 503);
  open();
  assert.ok((await Promise.all([...stay, waiting])).every((a) => a.allowed));
  assert.deepEqual(reasons.map((e) => e instanceof UnavailableError), [true, true]);
  assert.ok(!JSON.stringify(fake.seen).includes('"d"'));
});

test('close ends what waits, and every method throws from then on', async () => {
  fake.script = () => new Promise(() => {});
  const client = new Client(fake.url, { timeoutMs: patience });
  const waits = [client.check(direct('a')), client.check(direct('b')), client.check(direct('c')), client.check(direct('d')),
    client.reserve(direct('e'))].map((p) => assert.rejects(p, ClosedError));
  await client.close();
  await Promise.all(waits);
  await client.close();
  for (const call of [client.check(direct('k')), client.batch([]), client.reserve(direct('k')), client.release('l')]) {
    await assert.rejects(call, ClosedError);
  }
});

test('a wrong option is refused', () => {
  /** @type {any[]} */
  const wrong = [{ failMode: 'ajar' }, { failMode: 'local' }, { timeoutMs: 0 }, { timeoutMs: -1 }, { maxConns: NaN },
    { token: 'slk_a b' }, { token: 'a\nb' }, { token: 'a', tokenFile: 'b' }, { tokenFile: '/nowhere/token' }];
  for (const options of wrong) {
    assert.throws(() => new Client(fake.url, options), (e) => e instanceof Error && !e.message.includes('slk_a'));
  }
  for (const base of ['', '127.0.0.1:8080', 'ftp://a', 'http://a?b', 'http://u:p@a', 'http://a#b']) {
    assert.throws(() => new Client(base), /must look like/);
  }
});

test('a token is sent only if there is one, and shown nowhere', async (t) => {
  const client = clientOf(t, `${fake.url}/prefix/`, { token: 'slk_hunter2' });
  await client.check(direct('k'));
  await clientOf(t, fake.url).check(direct('k'));
  assert.deepEqual(fake.seen.map((call) => [call.path, call.headers.authorization]),
    [['/prefix/ratelimit/check', 'Bearer slk_hunter2'], ['/ratelimit/check', undefined]]);
  assert.ok(!inspect(client, { depth: 9, showHidden: true }).includes('hunter2'));
});

test('a changed token file is used, and an unusable one is reported once', () => {
  const { path, remove } = tempDir();
  const file = join(path, 'token');
  let now = 0;
  /** @type {string[]} */
  const logged = [];
  writeFileSync(file, 'slk_first\n');
  const token = tokenOf({ tokenFile: file }, (message) => logged.push(message), () => now);
  assert.ok(token);
  writeFileSync(file, 'slk_second\r\n');
  assert.equal(token(), 'slk_first');
  now += 5000;
  assert.equal(token(), 'slk_second');
  for (const text of ['', 'two words']) {
    writeFileSync(file, text);
    now += 5000;
    assert.equal(token(), 'slk_second');
  }
  assert.equal(logged.length, 1);
  assert.ok(!logged[0].includes('two words'));
  remove();
});

test('a connection that opens late serves the next check, over TLS', { timeout: patience }, async (t) => {
  const { path, remove } = tempDir();
  t.after(remove);
  const [key, cert] = [join(path, 'key'), join(path, 'cert')];
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '1',
    '-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', key, '-out', cert], { stdio: 'ignore' });
  let handshakes = 0;
  const tls = https.createServer({ key: readFileSync(key), cert: readFileSync(cert) }, (request, response) => {
    request.resume().on('end', () => response.end(JSON.stringify(allowed({}))));
  });
  const opened = gate();
  tls.on('secureConnection', () => {
    handshakes++;
    opened.open();
  });
  // Nothing of the handshake is answered before the first caller has left.
  const { passed, open } = gate();
  const arrived = gate();
  const front = net.createServer({ pauseOnConnect: true }, (socket) => {
    arrived.open();
    passed.then(() => tls.emit('connection', socket));
  });
  front.listen(0, '127.0.0.1');
  await once(front, 'listening');
  const url = `https://127.0.0.1:${/** @type {net.AddressInfo} */ (front.address()).port}`;
  const transport = new Transport(new URL(url), { token: undefined, maxConns: 2, maxQueue: 2, tls: { ca: readFileSync(cert) } });
  t.after(() => {
    transport.close();
    front.close();
    tls.close();
  });
  const first = transport.post('/', '{}', 25);
  await arrived.passed;
  first.end(new UnavailableError('too slow'));
  await assert.rejects(first.promise, /too slow/);
  open();
  await opened.passed;
  assert.equal(JSON.parse(await transport.post('/', '{}', 25).promise).allowed, true);
  assert.equal(handshakes, 1);
  /** @type {unknown[]} */
  const reasons = [];
  const untrusting = new Client(url, { timeoutMs: patience, onDegraded: (e) => reasons.push(e) });
  assert.equal((await untrusting.check(direct('k'))).byClient, true);
  assert.match(String(reasons.at(-1)), /self-signed/);
  await untrusting.close();
});
