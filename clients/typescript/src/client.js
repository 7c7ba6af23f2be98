import { decode, decodeResults, deny, encode, encodeDocument, ownAnswer, readAnswer } from './answer.js';
import { Breaker } from './breaker.js';
import { Caller } from './call.js';
import { Dispatcher, batchPath, checkPath, inCheck, joinChecks, maxShared, shifted, small } from './dispatcher.js';
import { ClosedError, overloaded, unavailable } from './errors.js';
import { LocalLimiter } from './local.js';
import { tokenOf } from './token.js';
import { Transport } from './transport.js';

/** @typedef {import('./types.js').Answer} Answer */
/** @typedef {import('./types.js').Check} Check */
/** @typedef {import('./index.js').CallOptions} CallOptions */

/** Asks one service with one token. See index.d.ts. */
export class Client {
  #closed = false;
  #warned = false;
  /** @type {Set<Promise<unknown>>} releases of releaseLater */
  #releases = new Set();
  #options;
  #log;
  #failMode;
  #timeoutMs;
  #callTimeoutMs;
  #local;
  #transport;
  #caller;
  #dispatcher;

  /**
   * @param {string} base
   * @param {import('./index.js').Options} [options]
   */
  constructor(base, options = {}) {
    const url = serviceURL(base);
    this.#options = options;
    this.#log = options.log ?? ((message) => process.emitWarning(message, 'SluiceWarning'));
    this.#failMode = options.failMode ?? 'open';
    if (!['open', 'closed', 'local'].includes(this.#failMode)) {
      throw new TypeError(`failMode must be open, closed or local, not ${JSON.stringify(options.failMode)}`);
    }
    this.#local = this.#failMode === 'local' ? new LocalLimiter(options.localLimit) : undefined;
    this.#timeoutMs = positive('timeoutMs', options.timeoutMs, 25);
    this.#callTimeoutMs = positive('callTimeoutMs', options.callTimeoutMs, 1000);
    const maxConns = positive('maxConns', options.maxConns, 64);
    const maxQueue = positive('maxQueue', options.maxQueue, 10_000);
    const token = tokenOf(options, (message) => this.warn(message));
    this.#transport = new Transport(url, { token, maxConns, maxQueue, tls: options.tls });
    this.#caller = new Caller(this.#transport, new Breaker(), (name, n) => this.#count(name, n),
      (error) => this.#unreadable(error));
    this.#dispatcher = new Dispatcher(this.#caller, { timeoutMs: this.#timeoutMs, maxQueue });
  }

  async close() {
    if (this.#closed) {
      return;
    }
    this.#closed = true;
    this.#caller.closed = true;
    this.#dispatcher.close();
    await Promise.allSettled(this.#releases);
    this.#transport.close();
  }

  /**
   * @param {Check} q
   * @param {CallOptions} [options]
   */
  async check(q, { signal } = {}) {
    this.#open();
    const body = encode(q);
    this.#count('checks');
    try {
      const bytes = Buffer.byteLength(body);
      if ('payload' in q || bytes > maxShared) {
        return await this.#alone(checkPath, body, signal);
      }
      return await this.#dispatcher.check(body, bytes, signal);
    } catch (error) {
      return this.#instead(q, error, signal);
    }
  }

  /**
   * @param {Check} q
   * @param {CallOptions & { ttlMs?: number, onExpire?: 'keep' | 'refund' | { percent: number } }} [options]
   */
  async reserve(q, { ttlMs, onExpire, signal } = {}) {
    this.#open();
    const more = { ...(ttlMs !== undefined && { ttl_ms: ttlMs }), ...(onExpire !== undefined && { on_expire: onExpire }) };
    const body = encode(/** @type {any} */ ({ ...q, ...more }));
    this.#count('checks');
    try {
      return await this.#alone('/ratelimit/reserve', body, signal);
    } catch (error) {
      return this.#instead(q, error, signal);
    }
  }

  /**
   * @param {Check[]} checks
   * @param {CallOptions} [options]
   * @returns {Promise<Answer[]>}
   */
  async batch(checks, { signal } = {}) {
    this.#open();
    if (checks.length === 0) {
      return [];
    }
    const encoded = checks.map((q, i) => {
      try {
        const body = encode(q);
        return { body, bytes: Buffer.byteLength(body) };
      } catch (error) {
        throw inCheck(error, i);
      }
    });
    this.#count('checks', checks.length);
    const until = performance.now() + this.#timeoutMs;
    const splits = small(encoded) < encoded.length;
    /**
     * Decides the checks of one call. refused is why the service refused the whole batch, if it did.
     * @param {number} from
     * @param {number} to
     * @param {unknown} [refused]
     */
    const part = async (from, to, refused) => {
      try {
        const ms = until - performance.now();
        if (refused !== undefined && ms <= 0) {
          throw refused;
        }
        const body = joinChecks(encoded.slice(from, to).map((c) => c.body));
        const results = await this.#caller.decide(batchPath, body, { carried: to - from, ms: Math.max(ms, 1), signal,
          decode: (text) => decodeResults(text, to - from) });
        return this.#caller.read(() => results.map(readAnswer));
      } catch (error) {
        if (refused === undefined && splits && overloaded(error)) {
          throw error;
        }
        return checks.slice(from, to).map((q) => this.#instead(q, error, signal));
      }
    };
    let refused;
    try {
      return await part(0, checks.length);
    } catch (error) {
      if (!overloaded(error)) {
        throw error;
      }
      refused = error;
    }
    const all = [];
    for (let from = 0; from < checks.length;) {
      const to = from + small(encoded.slice(from));
      try {
        all.push(...await part(from, to, refused));
      } catch (error) {
        throw shifted(error, from);
      }
      from = to;
    }
    return all;
  }

  /**
   * @param {import('./types.js').Settlement} settlement
   * @param {CallOptions} [options]
   */
  settle(settlement, options) {
    return this.#operate('/ratelimit/settle', { ...settlement }, options);
  }

  /**
   * @param {string} lease
   * @param {CallOptions} [options]
   */
  release(lease, options) {
    return this.#operate('/ratelimit/release', { lease }, options);
  }

  /**
   * @param {string} lease
   * @param {CallOptions} [options]
   */
  renew(lease, options) {
    return this.#operate('/ratelimit/renew', { lease }, options);
  }

  /**
   * @param {import('./types.js').Renewal} renewal
   * @param {CallOptions} [options]
   */
  renewReservation(renewal, options) {
    return this.#operate('/ratelimit/renew', { ...renewal }, options);
  }

  /** @param {string} lease */
  releaseLater(lease) {
    const release = this.release(lease).catch(() => {}).finally(() => this.#releases.delete(release));
    this.#releases.add(release);
  }

  /**
   * @param {Check} q
   * @param {unknown} error
   * @returns {Answer}
   */
  fallback(q, error) {
    this.#count('degraded');
    quietly(() => this.#options.onDegraded?.(error));
    const a = ownAnswer(this.#failMode);
    if (this.#failMode === 'closed') {
      return deny(a, 503, 1000);
    }
    if (this.#local) {
      const d = this.#local.take(q);
      a.limit = this.#local.limit;
      a.burst = this.#local.burst;
      a.remaining = d.remaining;
      a.used = d.used;
      a.reset_ms = d.resetMs;
      a.retry_after_ms = d.retryAfterMs;
      a.headers['X-RateLimit-Limit'] = String(a.burst);
      a.headers['X-RateLimit-Remaining'] = String(d.remaining);
      return d.allowed ? a : deny(a, 429, d.retryAfterMs);
    }
    return a;
  }

  /**
   * Reports a problem to the log of the client's options.
   * @param {string} message
   */
  warn(message) {
    quietly(() => this.#log(message));
  }

  #open() {
    if (this.#closed) {
      throw new ClosedError();
    }
  }

  /**
   * @param {string} path
   * @param {string} body
   * @param {AbortSignal} [signal]
   */
  async #alone(path, body, signal) {
    const decoded = await this.#caller.decide(path, body, { carried: 1, ms: this.#timeoutMs, decode, signal });
    return this.#caller.read(() => readAnswer(decoded));
  }

  /**
   * Answers a check that the service did not decide: denied if it is overloaded, which is no outage, or by the fail
   * mode if it is unavailable. Other errors are those of the caller.
   * @param {Check} q
   * @param {unknown} error
   * @param {AbortSignal} [signal]
   */
  #instead(q, error, signal) {
    signal?.throwIfAborted();
    if (!unavailable(error)) {
      throw error;
    }
    if (!overloaded(error)) {
      return this.fallback(q, error);
    }
    this.#count('overloaded');
    const a = ownAnswer(null);
    a.overloaded = true;
    return deny(a, 503, 1000);
  }

  /**
   * Makes a call that no request waits for.
   * @param {string} path
   * @param {Record<string, unknown>} document
   * @param {CallOptions} [options]
   */
  async #operate(path, document, { signal } = {}) {
    this.#open();
    const decoded = await this.#caller.decide(path, encodeDocument(document),
      { carried: 0, ms: this.#callTimeoutMs, decode, signal });
    return this.#caller.read(() => readAnswer(decoded));
  }

  /**
   * @param {import('./index.js').Counter} name
   * @param {number} [n]
   */
  #count(name, n = 1) {
    const { onCount } = this.#options;
    if (onCount) {
      quietly(() => onCount(name, n));
    }
  }

  /** @param {Error} error */
  #unreadable(error) {
    this.#count('unreadable');
    if (!this.#warned) {
      this.#warned = true;
      this.warn(`${error.message}; the fail mode decides. Further responses like this are only counted.`);
    }
  }
}

/**
 * Runs a callback of the program. Its error must not decide about a request.
 * @param {() => void} f
 */
function quietly(f) {
  try {
    f();
  } catch {
    // It has its own logs.
  }
}

/** @param {string} base */
function serviceURL(base) {
  let url;
  try {
    url = new URL(base);
  } catch {
    url = undefined;
  }
  if (!url || url.protocol !== 'http:' && url.protocol !== 'https:' || url.search || url.hash || url.username ||
    url.password) {
    throw new TypeError('the URL of the service must look like http://127.0.0.1:8080');
  }
  return url;
}

/**
 * @param {string} name
 * @param {number | undefined} value
 * @param {number} byDefault
 */
function positive(name, value, byDefault) {
  if (value === undefined) {
    return byDefault;
  }
  if (!(value > 0 && value <= 2 ** 31 - 1)) {
    throw new TypeError(`${name} must be above 0`);
  }
  return value;
}
