import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { LocalLimiter } from '../src/local.js';
import { root } from './support.js';

const from = 1_800_000_000_000;

test('local decides the worked cases that all clients share', () => {
  const cases = JSON.parse(readFileSync(`${root}api/client/testdata/local_limit.json`, 'utf8'));
  assert.ok(cases.length > 0);
  for (const c of cases) {
    let now = 0;
    const l = new LocalLimiter({ limit: c.limit, windowMs: c.window_ms, burst: c.burst }, () => now);
    for (const [i, { at_ms, weight, ...want }] of c.steps.entries()) {
      now = from + at_ms;
      const d = l.take({ user: 'ada', weight });
      assert.deepEqual({ allowed: d.allowed, remaining: d.remaining, used: d.used, reset_ms: d.resetMs,
        retry_after_ms: d.retryAfterMs }, want, `${c.name}, step ${i}`);
    }
  }
});

test('local is exact at the largest products', () => {
  let now = from;
  const l = new LocalLimiter({ limit: 9_007_199_254_740_991, windowMs: 1 }, () => now);
  assert.deepEqual(l.take({ user: 'a', weight: 9_007_199_254_740_990 }),
    { allowed: true, remaining: 1, used: 9_007_199_254_740_990, resetMs: 1, retryAfterMs: 0 });
  assert.equal(l.take({ user: 'a', weight: 2 }).allowed, false);
  assert.equal(l.take({ user: 'a', weight: 1 }).remaining, 0);
  now++;
  assert.equal(l.take({ user: 'a' }).used, 1);
});

test('each key has its bucket, and buckets are bounded', () => {
  let now = from;
  const l = new LocalLimiter({ limit: 10, windowMs: 1000, maxKeys: 3 }, () => now);
  const admitted = (/** @type {import('../src/index.js').Check} */ q, n = 50) =>
    Array.from({ length: n }, () => l.take(q)).filter((d) => d.allowed).length;
  assert.equal(admitted({ user: 'a' }), 10);
  assert.equal(admitted({ user: 'b', ip: '::1' }), 10);
  assert.equal(admitted({ limits: [{ key: 'a', limit: 1, window_ms: 1 }] }), 10);
  assert.equal(admitted({ key: 'a', limit: 1, window_ms: 1 }), 0, 'the first limit has the key of a direct check');
  assert.equal(admitted({ user: 'c' }, 6) + admitted({ user: 'd' }), 10, 'further keys share a bucket');
  now += 300;
  assert.equal(admitted({ user: 'a' }), 3);
  now += 1000;
  assert.equal(admitted({ user: 'e' }), 10, 'buckets that are full again make room');
  assert.ok(l.size <= 3);
  assert.equal(l.take({ user: 'z', weight: 11 }).retryAfterMs, -1);
  assert.equal(l.take({ user: 'e', weight: -5 }).remaining, 0, 'a negative weight gives nothing back');
  assert.equal(l.take({ user: 'e', weight: NaN }).allowed, false);
});

test('a bucket that never refills is not forgotten', () => {
  let now = from;
  const l = new LocalLimiter({ limit: 0, windowMs: 1, burst: 1, maxKeys: 1 }, () => now);
  assert.equal(l.take({ user: 'a' }).allowed, true);
  now += 1e9;
  l.take({ user: 'b' });
  assert.equal(l.take({ user: 'a' }).allowed, false);
});

test('a local limit that could not be exact is refused', () => {
  for (const wrong of [undefined, { limit: 1.5, windowMs: 1 }, { limit: 1, windowMs: 0 }, { limit: -1, windowMs: 1 },
    { limit: 1, windowMs: 400_000_000_000 }, { limit: 1e12, windowMs: 10_000_000 }, { limit: 1, windowMs: 1, maxKeys: -1 }]) {
    assert.throws(() => new LocalLimiter(wrong), TypeError);
  }
});
