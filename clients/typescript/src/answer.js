import { Problem, UnreadableError } from './errors.js';

/** @typedef {import('./types.js').Answer} Answer */

// A "?" also permits null.
/** @typedef {'boolean' | 'integer' | 'string' | 'string?' | 'object' | 'array' | 'any'} Kind */

/**
 * The members of an answer and of its limits. Members that are not listed are accepted.
 * @type {Record<'answer' | 'limit', Record<string, Kind>>}
 */
export const members = {
  answer: {
    allowed: 'boolean', status: 'integer', limit: 'integer', burst: 'integer', remaining: 'integer', used: 'integer',
    reset_ms: 'integer', retry_after_ms: 'integer', retry_after_s: 'integer', ban_ms: 'integer', delay_ms: 'integer',
    degraded: 'string?', rule: 'string?', soft: 'boolean', elastic: 'boolean', shed: 'boolean', overloaded: 'boolean',
    replayed: 'boolean', advice: 'object', lease: 'string', reservation: 'string', expires_in_ms: 'integer',
    ticket: 'string', granted: 'integer', spend_within_ms: 'integer', shrinks: 'boolean',
    deferred: 'string', not_deferred: 'string', reset: 'integer', refunded: 'integer', limits: 'array',
    headers: 'object', body: 'object',
  },
  limit: {
    rule: 'string?', key: 'string', allowed: 'boolean', limit: 'integer', burst: 'integer', remaining: 'integer',
    used: 'integer', reset_ms: 'integer', retry_after_ms: 'integer', ban_ms: 'integer', delay_ms: 'integer',
    refunded: 'integer', mode: 'string', soft: 'boolean', elastic: 'boolean', shed: 'boolean', overloaded: 'boolean',
    condition_failed: 'boolean', degraded: 'string',
  },
};

/** @param {unknown} value */
const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

/** @type {Record<Kind, (value: unknown) => boolean>} */
const kinds = {
  boolean: (v) => typeof v === 'boolean',
  integer: (v) => Number.isInteger(v),
  string: (v) => typeof v === 'string',
  'string?': (v) => typeof v === 'string' || v === null,
  object: isObject,
  array: Array.isArray,
  any: () => true,
};

/**
 * Reports whether every member that is there has its kind. null stands for an absent member.
 * @param {Record<string, unknown>} value
 * @param {Record<string, Kind>} table
 */
function fits(value, table) {
  for (const name in value) {
    const kind = Object.hasOwn(table, name) ? table[name] : 'any';
    const member = value[name];
    if (member === null && kind !== 'any') {
      if (kind !== 'string?') {
        delete value[name];
      }
    } else if (!kinds[kind](member)) {
      return false;
    }
  }
  return true;
}

// A header with anything else could not be sent.
const headerName = /^[A-Za-z0-9-]+$/;
const headerValue = /^[\t\x20-\x7e]*$/;

/**
 * Returns a decoded answer. It throws an UnreadableError if it is none, as JSON of a server between the client and the
 * service.
 * @param {unknown} decoded
 * @returns {Answer}
 */
export function readAnswer(decoded) {
  const a = /** @type {Answer} */ (decoded);
  if (!isObject(a) || !fits(/** @type {any} */ (a), members.answer) || typeof a.allowed !== 'boolean' ||
    !(a.status >= 200 && a.status <= 599)) {
    throw unreadable();
  }
  a.degraded ??= null;
  a.rule ??= null;
  a.limits ??= [];
  a.headers ??= {};
  a.byClient = false;
  for (const l of a.limits) {
    if (!isObject(l) || !fits(/** @type {any} */ (l), members.limit)) {
      throw unreadable();
    }
  }
  for (const name in a.headers) {
    const value = a.headers[name];
    if (typeof value !== 'string' || !headerName.test(name) || !headerValue.test(value)) {
      throw unreadable();
    }
  }
  return a;
}

const unreadable = () => new UnreadableError("the server's response is not an answer");

/**
 * Decodes a response.
 * @param {string} body
 * @returns {unknown}
 */
export function decode(body) {
  try {
    return JSON.parse(body);
  } catch (cause) {
    // The text of the cause quotes the response.
    throw new UnreadableError("the server's response is not valid JSON");
  }
}

/**
 * Returns the results of a batch of n checks, each as it was decoded.
 * @param {string} body
 * @param {number} n
 * @returns {unknown[]}
 */
export function decodeResults(body, n) {
  const results = /** @type {any} */ (decode(body))?.results;
  if (!Array.isArray(results) || results.length !== n) {
    throw new UnreadableError("the server's response does not have one result per check");
  }
  return results;
}

/**
 * Returns a check as JSON. Facts that are empty are absent. Text that is not well-formed Unicode is a Problem: other
 * texts could get the same bucket.
 * @param {import('./types.js').Check} q
 */
export function encode(q) {
  if (!isObject(q)) {
    throw malformed('check', 'must be an object');
  }
  const c = /** @type {Record<string, unknown>} */ (q);
  let given = c;
  for (const name in c) {
    if (c[name] === '' && name !== 'key' && name !== 'payload') {
      given = { ...given, [name]: undefined };
    }
  }
  return encodeDocument(given);
}

const loneSurrogate = /(?<!\\)(?:\\\\)*\\ud[89a-f]/;

/** @param {Record<string, unknown>} document */
export function encodeDocument(document) {
  let body;
  try {
    body = JSON.stringify(document);
  } catch (error) {
    throw malformed('', /** @type {Error} */ (error).message);
  }
  // JSON.stringify escapes only a lone surrogate in this way, and doubles the backslashes of a text.
  if (body.includes('\\ud') && loneSurrogate.test(body)) {
    const at = Object.keys(document).find((name) => loneSurrogate.test(JSON.stringify(document[name]) ?? ''));
    throw malformed(at ?? '', 'must be well-formed Unicode');
  }
  return body;
}

/**
 * @param {string} field
 * @param {string} message
 */
const malformed = (field, message) => new Problem({ type: '/problems/malformed', title: 'Malformed request',
  status: 400, errors: [{ field, message }] });

/**
 * Returns the answer of a fail mode, or of an overloaded service, before its figures.
 * @param {string | null} degraded
 * @returns {Answer}
 */
export function ownAnswer(degraded) {
  return { allowed: true, status: 200, delay_ms: 0, degraded, rule: null, limits: [], headers: {},
    byClient: degraded !== null };
}

/**
 * Makes an answer a denial that ends after some milliseconds, or never (-1).
 * @param {Answer} a
 * @param {number} status
 * @param {number} retryAfterMs
 */
export function deny(a, status, retryAfterMs) {
  a.allowed = false;
  a.status = status;
  a.retry_after_ms = retryAfterMs;
  a.retry_after_s = Math.ceil(retryAfterMs / 1000);
  let advice = 'Waiting does not help.';
  if (retryAfterMs < 0) {
    a.retry_after_s = -1;
  } else {
    advice = `Please try again in ${a.retry_after_s} second${a.retry_after_s === 1 ? '' : 's'}.`;
    a.headers['Retry-After'] = String(a.retry_after_s);
  }
  /** @type {import('./types.js').Denial} */
  const body = {
    type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
    title: 'Request cannot be satisfied as assigned quota has been exceeded',
    status, detail: advice, 'violated-policies': [], error: 'rate_limit_exceeded',
    message: `Too many requests. ${advice}`,
  };
  if (status !== 429) {
    body.type = 'https://iana.org/assignments/http-problem-types#temporary-reduced-capacity';
    body.title = 'Request cannot be satisfied due to temporary server capacity constraints';
    body.detail = 'It cannot be determined right now whether this request is within its limits, so it is denied.';
    body.error = 'rate_limit_unavailable';
    body.message = 'The service is busy. Please try again in a moment.';
  }
  a.body = body;
  return a;
}
