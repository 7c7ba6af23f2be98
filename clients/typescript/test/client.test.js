import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import { Problem } from '../src/index.js';
import { clientOf, direct, startNode } from './support.js';

/** @type {Awaited<ReturnType<typeof startNode>>} */
let node;
before(async () => {
  node = await startNode({ rules: [
    { name: 'reports', scope: 'user', route: '/reports', method: 'POST', limit: 2, window_ms: 86_400_000,
      algorithm: 'fixed_window', align: 'first_hit' },
    { name: 'slots', scope: 'user', route: '/slots', limit: 1, window_ms: 3_600_000, algorithm: 'concurrency' },
  ] });
});
after(() => node.stop());

test('a check by facts is allowed, and denied above the limit with what to send on', async (t) => {
  const client = clientOf(t, node.url, { token: node.token });
  const check = { method: 'POST', route: '/reports', user: 'ada', tier: '' };
  assert.equal((await client.check(check)).remaining, 1);
  assert.equal((await client.check(check)).remaining, 0);
  const a = await client.check(check);
  assert.equal(a.allowed, false);
  assert.equal(a.status, 429);
  assert.equal(a.rule, 'reports');
  assert.equal(a.byClient, false);
  assert.ok(Number(a.headers['Retry-After']) > 0);
  assert.equal(/** @type {any} */ (a.body).error, 'rate_limit_exceeded');
});

test('a check by several limits takes all or none', async (t) => {
  const client = clientOf(t, node.url, { token: node.token });
  const limits = [{ name: 'wide', ...direct('several-wide', 9) }, { name: 'narrow', ...direct('several-narrow', 1) }];
  assert.equal((await client.check({ limits })).allowed, true);
  const a = await client.check({ limits });
  assert.equal(a.rule, 'narrow');
  assert.equal(a.limits[0].remaining, 8);
});

test('a batch answers in order', async (t) => {
  const client = clientOf(t, node.url, { token: node.token });
  const answers = await client.batch([direct('batch', 1), direct('batch', 1), direct('batch-other', 5)]);
  assert.deepEqual(answers.map((a) => [a.allowed, a.remaining]), [[true, 0], [false, 0], [true, 4]]);
  assert.deepEqual(await client.batch([]), []);
});

test('a batch with an invalid check names it', async (t) => {
  const client = clientOf(t, node.url, { token: node.token });
  await assert.rejects(client.batch([direct('a'), { ...direct('b'), weight: -1 }]),
    (e) => e instanceof Problem && e.status === 422 && e.errors[0].field === 'checks[1].weight');
  await assert.rejects(client.batch([direct('a'), { user: '\ud800' }]),
    (e) => e instanceof Problem && e.status === 400 && e.errors[0].field === 'checks[1].user');
  await assert.rejects(client.check({ user: 'x\\\ud800' }), (e) => e instanceof Problem && e.status === 400);
  const answer = await client.check({ user: '\\ud800 is text, and \u{1f600} is a character' });
  assert.equal(answer.status, 200);
});

test('a reservation is settled with the actual use', async (t) => {
  const client = clientOf(t, node.url, { token: node.token });
  const a = await client.reserve({ ...direct('reserve', 100), weight: 60 }, { ttlMs: 5000, onExpire: { percent: 50 } });
  assert.equal(a.on_expire_percent, 50);
  assert.equal(a.remaining, 40);
  assert.ok(a.expires_in_ms && a.expires_in_ms <= 5000);
  const settled = await client.settle({ reservation: String(a.reservation), weight: 10 });
  assert.equal(settled.refunded, 50);
  assert.equal(settled.remaining, 90);
  await assert.rejects(client.settle({ reservation: 'none', weight: 1 }), (e) => e instanceof Problem && e.status < 500);
});

test('a slot is renewed and released', async (t) => {
  const client = clientOf(t, node.url, { token: node.token });
  const check = { user: 'slot', route: '/slots' };
  const a = await client.check(check);
  assert.equal((await client.check(check)).allowed, false);
  assert.equal((await client.renew(String(a.lease))).allowed, true);
  client.releaseLater(String(a.lease));
  await client.close();
  assert.equal((await clientOf(t, node.url, { token: node.token }).check(check)).allowed, true);
});

test('a repeat with the same request_id is charged once', async (t) => {
  const client = clientOf(t, node.url, { token: node.token });
  const check = { ...direct('repeat', 5), request_id: 'r1' };
  await client.check(check);
  const a = await client.check(check);
  assert.equal(a.replayed, true);
  assert.equal(a.remaining, 4);
});

test('concurrent checks share calls, and are counted exactly', async (t) => {
  /** @type {Record<string, number>} */
  const counts = {};
  const client = clientOf(t, node.url, { token: node.token, onCount: (name, n) => {
    counts[name] = (counts[name] ?? 0) + n;
    throw new Error('a callback must not decide');
  } });
  const answers = await Promise.all(Array.from({ length: 500 }, () => client.check(direct('shared', 300))));
  assert.deepEqual(answers.filter((a) => a.degraded || a.overloaded), []);
  assert.equal(answers.filter((a) => a.allowed).length, 300);
  assert.equal(counts.checks, 500);
  assert.equal(counts.carried, 500);
  assert.ok(counts.calls < 50, `${counts.calls} calls`);
  assert.equal(counts.degraded, undefined);
});

test('an invalid check among concurrent ones is an error for its caller only', async (t) => {
  const client = clientOf(t, node.url, { token: node.token });
  const settled = await Promise.allSettled(Array.from({ length: 64 }, (_, i) =>
    client.check({ ...direct('mixed', 63), ...(i === 40 ? { weight: -1 } : {}) })));
  for (const [i, s] of settled.entries()) {
    if (i !== 40) {
      assert.ok(s.status === 'fulfilled' && s.value.allowed, `check ${i}`);
    } else {
      assert.ok(s.status === 'rejected' && s.reason instanceof Problem);
      assert.deepEqual([s.reason.status, s.reason.errors[0].field], [422, 'weight']);
    }
  }
});

test('a check with a payload or of more than 16 KiB travels alone', async (t) => {
  const client = clientOf(t, node.url, { token: node.token });
  const attributes = Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`a${i}`, 'x'.repeat(1000)]));
  const answers = await Promise.all([...Array.from({ length: 9 }, () => client.check(direct('long'))),
    client.check({ user: 'ada', attributes }), client.check({ user: 'ada', payload: '' })]);
  assert.ok(answers.every((a) => a.allowed && !a.byClient));
});

test('a token that the service does not know is an error', async (t) => {
  for (const token of ['slk_hunter2', undefined]) {
    const client = clientOf(t, node.url, { token, failMode: 'open' });
    await assert.rejects(client.check(direct('k')), (e) => e instanceof Problem && e.status === 401 &&
      !e.stack?.includes('hunter2'));
  }
});

test('a program that does not close its client ends nevertheless', () => {
  const program = `import { Client } from ${JSON.stringify(new URL('../src/index.js', import.meta.url).href)};
    const client = new Client(process.argv[1], { token: process.argv[2], timeoutMs: 30000 });
    console.log((await client.check({ key: 'ends', limit: 1, window_ms: 1000 })).status);`;
  assert.equal(execFileSync(process.execPath, ['--input-type=module', '-e', program, node.url, node.token],
    { encoding: 'utf8', timeout: 30_000 }), '200\n');
});

test('an answer that arrives while the program is busy still counts', async (t) => {
  let answered = false;
  // The node may be too slow for an attempt. Without this rule no attempt gets an answer.
  for (let attempt = 0; attempt < 30 && !answered; attempt++) {
    const client = clientOf(t, node.url, { token: node.token, timeoutMs: 200 });
    await client.check(direct('busy')); // opens the connection
    const check = client.check(direct('busy'));
    await new Promise((resolve) => setImmediate(resolve)); // it is sent
    for (const until = performance.now() + 500; performance.now() < until;) {
      // busy
    }
    answered = !(await check).byClient;
  }
  assert.ok(answered);
});
