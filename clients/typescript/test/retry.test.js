import assert from 'node:assert/strict';
import { test } from 'node:test';
import { retryAfter } from '../src/index.js';

test('Retry-After is read in each of its forms', () => {
  const now = Date.UTC(1994, 10, 6, 8, 49, 7);
  /** @type {[any, number | undefined][]} */
  const cases = [
    ['12', 12], [' 0 ', 0], [7, 7], ['Sun, 06 Nov 1994 08:49:37 GMT', 30], ['Sunday, 06-Nov-94 08:49:37 GMT', 30],
    ['Sun Nov  6 08:49:37 1994', 30], ['Sat, 05 Nov 1994 08:49:37 GMT', 0],
    [-1, undefined], ['-1', undefined], ['1.5', undefined], ['soon', undefined], ['', undefined], [null, undefined],
    [undefined, undefined], ['1994-11-06T08:49:37Z', undefined], [NaN, undefined], [Infinity, undefined],
    [{ allowed: false, retry_after_s: 3, headers: { 'Retry-After': '4' } }, 3],
    [{ allowed: false, retry_after_s: -1, headers: {} }, undefined], [{ allowed: true, headers: {} }, undefined],
    [{ headers: { 'retry-after': '5' } }, 5], [new Headers({ 'Retry-After': '6' }), 6],
    [new Response('', { status: 429, headers: { 'Retry-After': '8' } }), 8], [{ 'Retry-After': '9' }, 9],
    [{}, undefined],
  ];
  for (const [source, want] of cases) {
    assert.equal(retryAfter(source, { now }), want, JSON.stringify(source));
  }
  assert.equal(retryAfter('61', { mostS: 60 }), undefined);
  assert.equal(retryAfter('60', { mostS: 60 }), 60);
});
