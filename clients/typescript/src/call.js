import { outcomeOf } from './breaker.js';
import { ClosedError, UnavailableError, UnreadableError } from './errors.js';

/**
 * Calls f after some milliseconds, unless the function that it returns is called first. The event loop may have been
 * busy until then, so an answer that has arrived already is read before f.
 * @param {number} ms
 * @param {() => void} f
 */
export function deadline(ms, f) {
  /** @type {NodeJS.Immediate | undefined} */
  let late;
  const timer = setTimeout(() => {
    late = setImmediate(f);
  }, ms);
  return () => {
    clearTimeout(timer);
    clearImmediate(late);
  };
}

/** Makes the calls of a client: through its circuit breaker, within a time, and counted. */
export class Caller {
  closed = false;
  #breaker;
  #transport;
  #count;
  #unreadable;

  /**
   * @param {import('./transport.js').Transport} transport
   * @param {import('./breaker.js').Breaker} breaker
   * @param {(name: import('./index.js').Counter, n?: number) => void} count
   * @param {(error: Error) => void} unreadable is called for each response that is no answer
   */
  constructor(transport, breaker, count, unreadable) {
    this.#transport = transport;
    this.#breaker = breaker;
    this.#count = count;
    this.#unreadable = unreadable;
  }

  /**
   * Asks the circuit breaker for permission to make a call.
   * @param {AbortSignal} [signal] the caller's own
   */
  enter(signal) {
    if (this.closed) {
      throw new ClosedError();
    }
    signal?.throwIfAborted();
    const permission = this.#breaker.enter();
    if (!permission) {
      this.#count('refused');
      throw new UnavailableError('the circuit breaker is open because the service was unavailable');
    }
    return permission;
  }

  /**
   * Reports the outcome of a call that was permitted.
   * @param {import('./breaker.js').Permission} permission
   * @param {unknown} error undefined for none
   * @param {boolean} left its callers gave up before the client's own timeout
   */
  leave(permission, error, left) {
    const outcome = outcomeOf(error, left);
    if (outcome === 'failing') {
      this.#count('failures');
    }
    if (error instanceof UnreadableError) {
      this.#unreadable(error);
    }
    this.#breaker.leave(permission, outcome);
  }

  /**
   * Starts a call that the breaker has permitted.
   * @param {string} path
   * @param {string} body
   * @param {number} carried the number of checks in it, 0 for other operations
   * @param {number} waitMs
   */
  post(path, body, carried, waitMs) {
    if (carried > 0) {
      this.#count('calls');
      this.#count('carried', carried);
    }
    return this.#transport.post(path, body, waitMs);
  }

  /**
   * Makes one call that has one caller, and returns what decode makes of the response.
   * @template T
   * @param {string} path
   * @param {string} body
   * @param {{ carried: number, ms: number, decode: (body: string) => T, signal?: AbortSignal | undefined,
   *   permission?: import('./breaker.js').Permission }} options
   * @returns {Promise<T>}
   */
  async decide(path, body, { carried, ms, decode, signal, permission = this.enter(signal) }) {
    const call = this.post(path, body, carried, ms);
    const stop = deadline(ms, () => call.end(new UnavailableError(`the service did not answer within ${ms} ms`)));
    let left = false;
    const leave = () => {
      left = true;
      call.end(signal?.reason);
    };
    signal?.addEventListener('abort', leave);
    let error;
    try {
      return decode(await call.promise);
    } catch (e) {
      error = e;
      throw e;
    } finally {
      stop();
      signal?.removeEventListener('abort', leave);
      this.leave(permission, error, left);
    }
  }

  /**
   * Reads an answer that came with a valid response. It says nothing about the service if it is none.
   * @template T
   * @param {() => T} read
   */
  read(read) {
    try {
      return read();
    } catch (error) {
      if (error instanceof UnreadableError) {
        this.#unreadable(error);
      }
      throw error;
    }
  }
}
