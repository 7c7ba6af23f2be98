import { STATUS_CODES } from 'node:http';

/** Every method throws it after close. */
export class ClosedError extends Error {
  constructor() {
    super('the client is closed');
    this.name = 'ClosedError';
  }
}

/**
 * No complete answer came: the service was unreachable or too slow, the connection broke, the queue was full, or the
 * circuit breaker is open. The service may have charged the request nevertheless.
 */
export class UnavailableError extends Error {
  /**
   * @param {string} message
   * @param {{ cause?: unknown }} [options]
   */
  constructor(message, options) {
    super(message, options);
    this.name = 'UnavailableError';
  }
}

/** A response came, and it is no answer. */
export class UnreadableError extends UnavailableError {}

/** An error response (RFC 9457). */
export class Problem extends Error {
  /**
   * @param {import('./types.js').ProblemDocument} document
   * @param {string} [body] the response as it was received
   */
  constructor(document, body) {
    let text = `the server responded with status ${document.status}`;
    for (const part of [document.title, document.detail]) {
      if (part) {
        text += `: ${part}`;
      }
    }
    const errors = document.errors ?? [];
    for (const e of errors) {
      text += `\n  ${e.field} ${e.message}`;
    }
    super(text);
    this.name = 'Problem';
    this.type = document.type;
    this.title = document.title;
    this.status = document.status;
    this.detail = document.detail ?? '';
    this.errors = errors;
    this.primary_url = document.primary_url ?? '';
    this.body = body;
  }
}

/**
 * Reads an error response. The type is "" if a server between the client and the service responded.
 * @param {number} status
 * @param {string | undefined} contentType
 * @param {string} body
 */
export function problemOf(status, contentType, body) {
  if (/^application\/(problem\+)?json\s*(;|$)/i.test(contentType ?? '')) {
    const document = parse(body);
    if (typeof document === 'object' && document !== null && !Array.isArray(document)) {
      const d = /** @type {Record<string, unknown>} */ (document);
      const errors = Array.isArray(d.errors) ? d.errors.filter((e) => text(e?.field) !== '') : [];
      return new Problem({ type: text(d.type), title: text(d.title), status, detail: text(d.detail),
        primary_url: text(d.primary_url), errors: errors.map((e) =>
          ({ field: text(e.field), message: text(e.message) })) }, body);
    }
  }
  return new Problem({ type: '', title: STATUS_CODES[status] ?? '', status }, body);
}

/** @param {string} body */
function parse(body) {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

/** @param {unknown} value */
const text = (value) => (typeof value === 'string' ? value : '');

/**
 * Reports whether an error means that the service could not decide, rather than that the request was wrong: no answer
 * came, or a status of 408, 429 or at least 500.
 * @param {unknown} error
 */
export function unavailable(error) {
  return error instanceof UnavailableError ||
    error instanceof Problem && (error.status >= 500 || error.status === 429 || error.status === 408);
}

/**
 * Reports whether an error means that more arrived than the service could decide in time. The service charged nothing,
 * so the same request may be sent again. unavailable reports true too.
 * @param {unknown} error
 */
export function overloaded(error) {
  return error instanceof Problem && error.type === '/problems/overloaded';
}
