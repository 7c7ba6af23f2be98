import { BlockList, isIP } from 'node:net';

/** @typedef {import('./types.js').Check} Check */
/** @typedef {import('./types.js').Answer} Answer */
/** @typedef {import('node:http').IncomingMessage} IncomingMessage */
/** @typedef {import('node:http').ServerResponse} ServerResponse */

/**
 * What to do with a request.
 * @typedef {object} Outcome
 * @property {boolean} pass
 * @property {number} status
 * @property {Record<string, string>} headers for the response, denied or not
 * @property {string} body of a denial
 */

// The service refuses longer facts, and a request that it refuses would be decided by the fail mode.
const maxFact = 1024;
const maxAgent = 512;

const defaultWaiting = 1000;

/** @type {WeakMap<object, Answer>} */
const answers = new WeakMap();

/**
 * Returns the answer that allowed a request. See options.d.ts.
 * @param {object} request
 */
export function answerOf(request) {
  return answers.get(request);
}

/**
 * Checks the requests of a server before their handlers run.
 * @template R the request of the framework
 */
export class Limiter {
  #client;
  #options;
  #trusted = new BlockList();
  #header;
  /** @type {Set<string> | undefined} */
  #headers;
  #mostWaiting;
  #waiting = 0;

  /**
   * @param {import('./index.js').Client} client
   * @param {import('./options.js').LimitOptions<R>} options
   */
  constructor(client, options) {
    this.#client = client;
    this.#options = options;
    this.#header = (options.clientIpHeader ?? 'X-Forwarded-For').toLowerCase();
    this.#headers = options.headers && new Set(options.headers.map((name) => name.toLowerCase()));
    this.#mostWaiting = options.mostWaiting ?? defaultWaiting;
    if (!Number.isSafeInteger(this.#mostWaiting) || this.#mostWaiting < 1) {
      throw new TypeError('mostWaiting must be an integer, at least 1');
    }
    for (const network of options.trustedProxies ?? []) {
      const [address, prefix, more] = network.split('/');
      const version = isIP(address);
      const most = version === 4 ? 32 : 128;
      const bits = prefix === undefined ? most : /^\d{1,3}$/.test(prefix) ? Number(prefix) : -1;
      if (version === 0 || more !== undefined || bits < 0 || bits > most) {
        throw new TypeError(`trustedProxies: ${JSON.stringify(network)} is not an address or a network`);
      }
      this.#trusted.addSubnet(address, bits, version === 4 ? 'ipv4' : 'ipv6');
    }
  }

  /**
   * Decides one request. raw and response are those of node:http, request that of the framework.
   * @param {IncomingMessage} raw
   * @param {ServerResponse} response
   * @param {R} request
   * @param {string} route the template that the router matched, or the path
   * @returns {Promise<Outcome>}
   */
  async decide(raw, response, request, route) {
    const { describe, skip } = this.#options;
    if (skip ? skip(request) : raw.method === 'OPTIONS') {
      return pass({});
    }
    let check = this.#check(raw, this.#options.route?.(request) ?? route);
    check = (await describe?.(request, check)) ?? check;
    const left = new AbortController();
    const leave = () => left.abort();
    response.once('close', leave);
    try {
      if (response.destroyed) {
        return unanswered();
      }
      const answer = await this.#ask(request, check, left.signal);
      if (!answer) {
        return unanswered();
      }
      if (answer.lease) {
        this.#release(response, answer.lease);
      }
      if (answer.delay_ms && !await this.#wait(answer.delay_ms, left.signal)) {
        return unanswered();
      }
      const headers = this.#shown(answer);
      if (!answer.allowed) {
        return denial(answer, headers);
      }
      answers.set(raw, answer);
      answers.set(/** @type {any} */ (request), answer);
      return pass(headers);
    } finally {
      response.off('close', leave);
    }
  }

  /**
   * Waits as long as an answer asks for, unless as many requests wait already as may. It reports false if the signal
   * came first.
   * @param {number} ms
   * @param {AbortSignal} signal
   */
  async #wait(ms, signal) {
    if (this.#waiting >= this.#mostWaiting) {
      return true;
    }
    this.#waiting++;
    try {
      return await pause(ms, signal);
    } finally {
      this.#waiting--;
    }
  }

  /**
   * @param {IncomingMessage} raw
   * @param {string} route
   */
  #check(raw, route) {
    const host = normalHost(raw.headers.host ?? '').slice(0, maxFact);
    /** @type {import('./types.js').FactsCheck} */
    const check = { method: raw.method, route: route.slice(0, maxFact), host, ip: this.#address(raw) };
    if (host) {
      check.attributes = { host };
    }
    const agent = raw.headers['user-agent'];
    if (agent) {
      check.user_agent = agent.slice(0, maxAgent);
    }
    const trace = /^[0-9a-f]{2}-([0-9a-f]{32})-/.exec(String(raw.headers.traceparent ?? ''));
    if (trace) {
      check.trace_id = trace[1];
    }
    return check;
  }

  /**
   * The address of the connection, or, if a trusted proxy sent the request, the right-most address of its header that
   * is not trusted: nobody who is trusted wrote the addresses to the left of it.
   * @param {IncomingMessage} raw
   */
  #address(raw) {
    const peer = plainAddress(raw.socket.remoteAddress ?? '');
    const header = raw.headers[this.#header];
    if (!peer || header === undefined || !this.#isTrusted(peer)) {
      return peer;
    }
    let found = '';
    for (const entry of String(header).split(',').reverse()) {
      const address = plainAddress(withoutPort(entry.trim()));
      if (!address) {
        break;
      }
      found = address;
      if (!this.#isTrusted(address)) {
        break;
      }
    }
    return found;
  }

  /** @param {string} address */
  #isTrusted(address) {
    return this.#trusted.check(address, isIP(address) === 4 ? 'ipv4' : 'ipv6');
  }

  /**
   * Returns the answer to a check, undefined if the caller has left.
   * @param {R} request
   * @param {Check} check
   * @param {AbortSignal} signal
   */
  async #ask(request, check, signal) {
    try {
      return await this.#client.check(check, { signal });
    } catch (error) {
      if (signal.aborted) {
        return undefined;
      }
      if (this.#options.onError) {
        this.#options.onError(request, error);
      } else {
        this.#client.warn(`a request could not be checked against its rate limits: ${error}`);
      }
      return this.#client.fallback(check, error);
    }
  }

  /**
   * Releases slots when the response has ended.
   * @param {ServerResponse} response
   * @param {string} lease
   */
  #release(response, lease) {
    if (response.destroyed || response.writableFinished) {
      this.#client.releaseLater(lease);
    } else {
      response.once('close', () => this.#client.releaseLater(lease));
    }
  }

  /** @param {Answer} answer */
  #shown(answer) {
    /** @type {Record<string, string>} */
    const all = answer.degraded ? { ...answer.headers, 'X-RateLimit-Mode': answer.degraded } : answer.headers;
    const only = this.#headers;
    return only ? Object.fromEntries(Object.entries(all).filter(([name]) => only.has(name.toLowerCase()))) : all;
  }
}

/**
 * @param {Record<string, string>} headers
 * @returns {Outcome}
 */
const pass = (headers) => ({ pass: true, status: 200, headers, body: '' });

/**
 * For a client that has left.
 * @returns {Outcome}
 */
const unanswered = () => ({ pass: false, status: 503, headers: {}, body: '' });

/**
 * @param {Answer} answer
 * @param {Record<string, string>} headers
 * @returns {Outcome}
 */
const denial = (answer, headers) => ({ pass: false, status: answer.status, body: JSON.stringify(answer.body ?? {}),
  headers: { ...headers, 'Cache-Control': 'no-store',
    'Content-Type': answer.status < 400 ? 'application/json' : 'application/problem+json' } });

/**
 * Waits for some milliseconds. It reports false if the signal came first.
 * @param {number} ms
 * @param {AbortSignal} signal
 * @returns {Promise<boolean>}
 */
function pause(ms, signal) {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve(!signal.aborted);
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener('abort', end);
    if (signal.aborted) {
      end();
    }
  });
}

/**
 * An address without zone, "" for none. An IPv4 address within IPv6 is IPv4.
 * @param {string} text
 */
function plainAddress(text) {
  const address = text.replace(/%.*$/, '').replace(/^::ffff:(?=\d+\.)/i, '');
  return isIP(address) ? address : '';
}

/**
 * An address as proxies write it, without its port: IPv6 with or without brackets.
 * @param {string} entry
 */
function withoutPort(entry) {
  const bracketed = /^\[([^\]]*)\](:\d+)?$/.exec(entry);
  return bracketed ? bracketed[1] : entry.replace(/^([\d.]+):\d+$/, '$1');
}

/**
 * A host in lower case, without port, brackets and final dot.
 * @param {string} host
 */
function normalHost(host) {
  const bracketed = /^\[([^\]]*)\]/.exec(host);
  return (bracketed ? bracketed[1] : host.replace(/^([^:]*):[^:]*$/, '$1')).toLowerCase().replace(/\.$/, '');
}

/**
 * A template of Express or Fastify in the form of Sluice: /users/:id is /users/{id}, /files/* is /files/*.
 * @param {string} template
 */
export function templateOf(template) {
  return template.replace(/[{}]/g, '').replace(/:([A-Za-z0-9_]+)(\([^/]*\))?\??/g, '{$1}').replace(/\*[^/]*$/, '*');
}

/**
 * The path of a request target, without the query.
 * @param {string} target
 */
export function pathOf(target) {
  return target.replace(/[?#].*$/s, '');
}
