import { decode, decodeResults, readAnswer } from './answer.js';
import { deadline } from './call.js';
import { ClosedError, Problem, UnavailableError, overloaded } from './errors.js';

export const checkPath = '/ratelimit/check';
export const batchPath = '/ratelimit/check/batch';
/** The longest check, in bytes, that shares a call with others. */
export const maxShared = 16 << 10;
const maxCalls = 4; // in flight
const maxChecks = 1000; // the service accepts no larger batch
const maxBytes = 1 << 20;
const frame = '{"checks":[]}'.length;

// A batch that an overloaded service still decides, unless very many limits apply to its checks.
const maxSmallChecks = 100;
const maxSmallBytes = 64 << 10;

/** @typedef {import('./types.js').Answer} Answer */

/**
 * A check whose caller waits for a batch.
 * @typedef {object} Waiter
 * @property {string} body
 * @property {number} bytes
 * @property {(answer: Answer) => void} resolve
 * @property {(error: unknown) => void} reject
 * @property {() => void} stop ends its deadline and its signal
 * @property {Batch | undefined} batch undefined while it is queued
 * @property {boolean} done
 * @property {boolean} left the caller waits no longer
 * @property {unknown} refused why the call that carried it decided nothing, if it is to be sent again and was not yet
 */

/**
 * The checks of one call.
 * @typedef {object} Batch
 * @property {Waiter[]} waiters
 * @property {number} waiting callers who still wait; the last one that leaves ends the call
 * @property {boolean} late one of those that left had waited for the client's whole timeout
 * @property {{ end(error: unknown): void } | undefined} call
 */

/** @param {string[]} bodies */
export const joinChecks = (bodies) => `{"checks":[${bodies.join(',')}]}`;

/**
 * Returns how many of the first checks make a small batch, at least 1.
 * @param {{ bytes: number }[]} checks
 */
export function small(checks) {
  let size = frame;
  for (const [i, c] of checks.entries()) {
    size += c.bytes + 1;
    if (i > 0 && (i === maxSmallChecks || size > maxSmallBytes)) {
      return i;
    }
  }
  return checks.length;
}

/**
 * Decides when checks are sent, and which of them share a call. A check goes at once if none is queued, a call may
 * start, and the last batch did not have several checks. The others queue. When a call may start, what has queued goes
 * as one batch.
 *
 * A call may start when none is in flight; beside others, up to four, when it carries at least as many checks as those
 * together. Fewer are better off in the call after them: the service needs less time for a check, the more checks share
 * a call.
 */
export class Dispatcher {
  /** @type {Set<Waiter>} */
  #queue = new Set();
  /** @type {Set<Batch>} */
  #batches = new Set();
  /** @type {NodeJS.Immediate | undefined} a batch is about to be taken from the queue */
  #cutting;
  #calls = 0; // in flight
  #carried = 0; // checks in them
  #busy = false; // the last batch had several checks
  #caller;
  #ms;
  #maxQueue;

  /**
   * @param {import('./call.js').Caller} caller
   * @param {{ timeoutMs: number, maxQueue: number }} options
   */
  constructor(caller, { timeoutMs, maxQueue }) {
    this.#caller = caller;
    this.#ms = timeoutMs;
    this.#maxQueue = maxQueue;
  }

  /** Ends every call and every wait. */
  close() {
    clearImmediate(this.#cutting);
    for (const w of this.#queue) {
      this.#finish(w, () => w.reject(new ClosedError()));
    }
    this.#queue.clear();
    for (const b of this.#batches) {
      b.call?.end(new ClosedError());
    }
  }

  /**
   * Decides one check, alone or together with others.
   * @param {string} body
   * @param {number} bytes
   * @param {AbortSignal} [signal]
   * @returns {Promise<Answer>}
   */
  async check(body, bytes, signal) {
    const permission = this.#caller.enter(signal);
    const alone = () => this.#caller.decide(checkPath, body, { carried: 1, ms: this.#ms, decode, signal, permission });
    if (permission === 'probe') {
      return this.#read(await alone());
    }
    if (this.#queue.size === 0 && !this.#cutting && !this.#busy && this.#mayStart(1)) {
      this.#begin(1);
      try {
        return this.#read(await alone());
      } finally {
        this.#end(1);
      }
    }
    if (this.#queue.size >= this.#maxQueue) {
      throw new UnavailableError('too many checks wait');
    }
    return new Promise((resolve, reject) => {
      /** @type {Waiter} */
      const w = { body, bytes, resolve, reject, stop: () => {}, batch: undefined, done: false, left: false,
        refused: undefined };
      const stop = deadline(this.#ms, () =>
        this.#leave(w, new UnavailableError(`the service did not answer within ${this.#ms} ms`), true));
      const abort = () => this.#leave(w, signal?.reason, false);
      w.stop = () => {
        stop();
        signal?.removeEventListener('abort', abort);
      };
      signal?.addEventListener('abort', abort);
      this.#queue.add(w);
      this.#startCalls();
    });
  }

  /** @param {unknown} decoded */
  #read(decoded) {
    return this.#caller.read(() => readAnswer(decoded));
  }

  /** @param {number} n */
  #mayStart(n) {
    return this.#calls === 0 || this.#calls < maxCalls && n >= this.#carried;
  }

  /** @param {number} n */
  #begin(n) {
    this.#calls++;
    this.#carried += n;
  }

  /** @param {number} n */
  #end(n) {
    this.#calls--;
    this.#carried -= n;
    this.#startCalls();
  }

  /**
   * Has what has queued sent, if a call may start. Callers whose last checks were answered together are about to check
   * again together, so they go first.
   */
  #startCalls() {
    if (this.#queue.size > 0 && !this.#cutting && this.#mayStart(this.#queue.size)) {
      this.#cutting = setImmediate(() => {
        this.#cutting = undefined;
        this.#carry(this.#cut());
      });
    }
  }

  /** Takes a batch from the queue. */
  #cut() {
    /** @type {Batch} */
    const b = { waiters: [], waiting: 0, late: false, call: undefined };
    let size = frame;
    for (const w of this.#queue) {
      size += w.bytes + 1;
      if (b.waiters.length === maxChecks || size > maxBytes) {
        break;
      }
      this.#queue.delete(w);
      w.batch = b;
      b.waiters.push(w);
    }
    b.waiting = b.waiters.length;
    return b;
  }

  /** @param {Batch} b */
  async #carry(b) {
    const n = b.waiters.length;
    if (n === 0) { // all have left
      return;
    }
    this.#busy = n > 1;
    this.#batches.add(b);
    this.#begin(n);
    this.#startCalls();
    await this.#send(b, b.waiters);
    this.#batches.delete(b);
    this.#end(n);
  }

  /**
   * Ends the wait of a caller. A check that was not sent yet never is.
   * @param {Waiter} w
   * @param {unknown} error
   * @param {boolean} late the wait lasted for the client's timeout
   */
  #leave(w, error, late) {
    if (w.done) {
      return;
    }
    w.left = true;
    this.#queue.delete(w);
    // The service has refused the check, which is no outage.
    this.#finish(w, () => w.reject(late ? w.refused ?? error : error));
    const b = w.batch;
    if (b) {
      b.late ||= late;
      if (--b.waiting === 0) {
        b.call?.end(error);
      }
    }
  }

  /**
   * @param {Waiter} w
   * @param {() => void} settle
   */
  #finish(w, settle) {
    if (!w.done) {
      w.done = true;
      w.stop();
      settle();
    }
  }

  /**
   * Makes one call for some or all checks of a batch, and gives each its result. If the service refuses the batch
   * because of invalid checks, it has charged none: those that it names are refused, the others are sent again. If it
   * is overloaded, it has charged none either: they are sent again in small calls. Checks whose callers have left are
   * not sent.
   * @param {Batch} b
   * @param {Waiter[]} all
   * @returns {Promise<void>}
   */
  async #send(b, all) {
    const ws = all.filter((w) => !w.left);
    if (ws.length === 0) {
      return;
    }
    let results;
    try {
      results = await this.#call(b, ws);
    } catch (error) {
      await this.#refused(b, ws, error);
      return;
    }
    for (const [i, w] of ws.entries()) {
      this.#answer(b, w, () => w.resolve(this.#read(results[i])));
    }
  }

  /**
   * @param {Batch} b
   * @param {Waiter[]} ws
   * @param {unknown} error
   */
  async #refused(b, ws, error) {
    if (overloaded(error) && small(ws) < ws.length) {
      for (const w of ws) {
        w.refused = error;
      }
      for (let from = 0; from < ws.length;) {
        const n = small(ws.slice(from));
        await this.#send(b, ws.slice(from, from + n));
        from += n;
      }
      return;
    }
    if (ws.length === 1 || !(error instanceof Problem) || error.status !== 422 && error.status !== 400) {
      for (const w of ws) {
        this.#answer(b, w, () => w.reject(error));
      }
      return;
    }
    const valid = ws.filter((w, i) => {
      const own = problemAt(error, i);
      if (own) {
        this.#answer(b, w, () => w.reject(own));
      }
      return !own;
    });
    if (valid.length < ws.length) {
      await this.#send(b, valid);
      return;
    }
    for (const w of ws) { // it names none
      await this.#send(b, [w]);
    }
  }

  /**
   * Makes one call and returns one result for each check.
   * @param {Batch} b
   * @param {Waiter[]} ws
   */
  async #call(b, ws) {
    const permission = this.#caller.enter();
    const bodies = ws.map((w) => w.body);
    for (const w of ws) {
      w.refused = undefined;
    }
    const [path, body] = ws.length === 1 ? [checkPath, bodies[0]] : [batchPath, joinChecks(bodies)];
    const call = this.#caller.post(path, body, ws.length, this.#ms);
    b.call = call;
    let error;
    try {
      const text = await call.promise;
      return ws.length === 1 ? [decode(text)] : decodeResults(text, ws.length);
    } catch (e) {
      error = e;
      throw e;
    } finally {
      b.call = undefined;
      this.#caller.leave(permission, error, b.waiting === 0 && !b.late);
    }
  }

  /**
   * Gives a check its result.
   * @param {Batch} b
   * @param {Waiter} w
   * @param {() => void} settle
   */
  #answer(b, w, settle) {
    if (!w.left) {
      b.waiting--;
    }
    this.#finish(w, () => {
      try {
        settle();
      } catch (error) {
        w.reject(error);
      }
    });
  }
}

/**
 * Returns what a problem of a batch says about the check with index i, as a problem of that check alone; undefined if
 * it says nothing about it.
 * @param {Problem} p
 * @param {number} i
 */
function problemAt(p, i) {
  const prefix = `checks[${i}]`;
  const errors = p.errors.filter((e) => e.field.startsWith(prefix))
    .map((e) => ({ field: e.field.slice(prefix.length).replace(/^\./, ''), message: e.message }));
  return errors.length === 0 ? undefined
    : new Problem({ type: p.type, title: p.title, status: p.status, detail: p.detail, errors });
}

/**
 * Returns the problem of a part of a batch with the indexes of the whole, in which from checks come before it.
 * @param {unknown} error
 * @param {number} from
 */
export function shifted(error, from) {
  if (!(error instanceof Problem) || from === 0) {
    return error;
  }
  const errors = error.errors.map((e) => ({ message: e.message,
    field: e.field.replace(/^checks\[(\d+)\]/, (_, i) => `checks[${Number(i) + from}]`) }));
  return new Problem({ type: error.type, title: error.title, status: error.status, detail: error.detail, errors },
    error.body);
}

/**
 * Returns the problem of the check with index i as that of a batch.
 * @param {unknown} error
 * @param {number} i
 */
export function inCheck(error, i) {
  if (!(error instanceof Problem)) {
    return error;
  }
  const errors = error.errors.map((e) => ({ message: e.message, field: `checks[${i}].${e.field}` }));
  return new Problem({ type: error.type, title: error.title, status: error.status, detail: error.detail, errors });
}
