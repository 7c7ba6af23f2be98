import http from 'node:http';
import https from 'node:https';
import { deadline } from './call.js';
import { ClosedError, UnavailableError, UnreadableError, problemOf } from './errors.js';

const maxResponse = 256 << 20; // bytes
const idleMs = 30_000; // shorter than the service keeps an idle connection, so that it rarely closes one in use
const connectMs = 2000; // it may be longer than a check's timeout: later checks use the connection

/**
 * One HTTP request. It is never repeated.
 */
class Call {
  over = false;
  /** @type {http.ClientRequest | undefined} */
  request;
  /** @type {(body: string) => void} */
  resolve = () => {};
  /** @type {(error: unknown) => void} */
  reject = () => {};
  /** @type {Promise<string>} The body of a 2xx response. */
  promise = new Promise((resolve, reject) => {
    this.resolve = resolve;
    this.reject = reject;
  });
  #transport;

  /**
   * @param {Transport} transport
   * @param {string} path
   * @param {string} body
   * @param {number} waitMs
   */
  constructor(transport, path, body, waitMs) {
    this.#transport = transport;
    this.path = path;
    this.body = body;
    this.waitMs = waitMs;
  }

  /**
   * Gives up. It does nothing if the response has come.
   * @param {unknown} error what the promise is rejected with
   */
  end(error) {
    this.finish(error);
    this.request?.destroy();
  }

  /**
   * @param {unknown} error undefined for none
   * @param {string} [body]
   */
  finish(error, body = '') {
    if (this.over) {
      return;
    }
    this.over = true;
    if (error === undefined) {
      this.resolve(body);
    } else {
      this.reject(error);
    }
    this.#transport.done(this);
  }
}

/**
 * Posts documents to one service over a bounded number of connections, all of which stay open for reuse. Redirects are
 * not followed, so that the token reaches no other server.
 */
export class Transport {
  /** @type {Set<Call>} */
  #calls = new Set();
  /** @type {Set<Call>} calls that wait for a connection, the oldest first */
  #waiting = new Set();
  #token;
  #maxConns;
  #maxQueue;
  #agent;
  #request;
  #closed = false;

  /**
   * @param {URL} base
   * @param {{ token: (() => string) | undefined, maxConns: number, maxQueue: number,
   *   tls: import('node:tls').SecureContextOptions | undefined }} options
   */
  constructor(base, { token, maxConns, maxQueue, tls }) {
    const secure = base.protocol === 'https:';
    this.#token = token;
    this.#maxConns = maxConns;
    this.#maxQueue = maxQueue;
    const pool = { keepAlive: true, maxSockets: maxConns, maxFreeSockets: maxConns, timeout: idleMs };
    this.#agent = secure ? new SecureAgent({ ...pool, ...tls }) : new PlainAgent(pool);
    this.#request = { method: 'POST', agent: this.#agent, protocol: base.protocol, port: base.port,
      hostname: base.hostname.replace(/^\[|\]$/g, '') };
    this.path = base.pathname.replace(/\/$/, '');
  }

  /**
   * Posts a JSON document. waitMs is how long its caller waits; the service denies what it has no turn for before that.
   * @param {string} path
   * @param {string} body
   * @param {number} waitMs
   */
  post(path, body, waitMs) {
    const call = new Call(this, path, body, Math.trunc(Math.min(Math.max(waitMs, 1), 1000)));
    if (this.#closed) {
      call.finish(new ClosedError());
    } else if (this.#calls.size < this.#maxConns) {
      this.#start(call);
    } else if (this.#waiting.size < this.#maxQueue) {
      this.#waiting.add(call);
    } else {
      call.finish(new UnavailableError('too many calls wait for a connection'));
    }
    return call;
  }

  /** @param {Call} call */
  #start(call) {
    this.#calls.add(call);
    /** @type {Record<string, string | number>} */
    const headers = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(call.body),
      'Sluice-Timeout-Ms': call.waitMs };
    if (this.#token) {
      headers.Authorization = `Bearer ${this.#token()}`;
    }
    const options = { ...this.#request, path: this.path + call.path, headers, call };
    const request = http.request(options, (response) => receive(response, call));
    call.request = request;
    request.on('error', (cause) => call.finish(lost(cause)));
    request.on('upgrade', () => call.end(new UnreadableError('the server changed the protocol')));
    request.end(call.body);
  }

  /** @param {Call} call */
  done(call) {
    this.#waiting.delete(call);
    if (!this.#calls.delete(call)) {
      return;
    }
    for (const next of this.#waiting) {
      if (this.#calls.size >= this.#maxConns) {
        break;
      }
      this.#waiting.delete(next);
      this.#start(next);
    }
  }

  /** Ends every call with a ClosedError and closes the connections. */
  close() {
    this.#closed = true;
    for (const call of [...this.#waiting, ...this.#calls]) {
      call.end(new ClosedError());
    }
    this.#agent.destroy();
  }
}

/** @param {Error} cause */
const lost = (cause) => new UnavailableError(`the service did not answer: ${cause.message}`, { cause });

/**
 * Reads a response to its end.
 * @param {http.IncomingMessage} response
 * @param {Call} call
 */
function receive(response, call) {
  /** @type {Buffer[]} */
  const parts = [];
  let size = 0;
  const bound = (/** @type {number} */ bytes) => {
    if (bytes > maxResponse) {
      call.end(new UnreadableError(`the server's response has more than ${maxResponse} bytes`));
    }
  };
  bound(Number(response.headers['content-length']));
  response.on('data', (part) => {
    parts.push(part);
    bound(size += part.length);
  });
  response.on('end', () => {
    const body = (parts.length === 1 ? parts[0] : Buffer.concat(parts)).toString();
    const status = response.statusCode ?? 0;
    if (status >= 200 && status < 300) {
      call.finish(undefined, body);
    } else if (status < 400) {
      call.finish(new UnreadableError(
        'the server redirects, which is not followed: give the client the URL of the service itself'));
    } else {
      call.finish(problemOf(status, response.headers['content-type'], body));
    }
  });
  response.on('error', (cause) => call.finish(lost(cause)));
  response.on('close', () => call.finish(new UnavailableError("the server's response ended early")));
}

/**
 * Returns an agent that gives a request its connection once it is open. If the request has ended by then, the
 * connection is spare and the next request gets it: opening one may take longer than a check may wait.
 * @param {any} Base
 * @param {string} opened
 * @returns {new (options: https.AgentOptions) => http.Agent}
 */
const pooled = (Base, opened) => /** @type {any} */ (class extends Base {
  /** @type {Set<import('node:net').Socket>} */
  #opening = new Set();
  /** @type {Set<import('node:net').Socket>} */
  #spare = new Set();

  /**
   * @param {{ call: Call }} options
   * @param {(error: Error | null, socket?: import('node:net').Socket) => void} callback
   */
  createConnection(options, callback) {
    for (const socket of this.#spare) {
      this.#spare.delete(socket);
      if (!socket.destroyed && socket.writable) {
        return socket.ref();
      }
    }
    if (this.#opening.size >= this.maxSockets) {
      callback(new Error('too many connections are being opened'));
      return undefined;
    }
    /** @type {import('node:net').Socket} */
    const socket = super.createConnection(options);
    this.#opening.add(socket);
    const stop = deadline(connectMs, () => socket.destroy(new Error(`no connection within ${connectMs} ms`)));
    /** @param {Error} [error] */
    const done = (error) => {
      if (!this.#opening.delete(socket)) {
        return;
      }
      stop();
      if (error) {
        callback(error);
      } else if (options.call.over) {
        this.#keep(socket);
        callback(new Error('the caller left'));
      } else {
        callback(null, socket);
      }
    };
    socket.once(opened, () => done());
    socket.once('error', done);
    socket.once('close', () => done(new Error('the connection was closed')));
    return undefined;
  }

  /** @param {import('node:net').Socket} socket */
  #keep(socket) {
    this.#spare.add(socket);
    const drop = () => {
      if (this.#spare.delete(socket)) {
        socket.destroy();
      }
    };
    socket.on('error', drop).once('end', drop).once('close', drop).once('timeout', drop).unref();
  }

  destroy() {
    for (const socket of [...this.#opening, ...this.#spare]) {
      socket.destroy();
    }
    super.destroy();
  }
});

const PlainAgent = pooled(http.Agent, 'connect');
const SecureAgent = pooled(https.Agent, 'secureConnect');
