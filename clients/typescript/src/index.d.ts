import type { SecureContextOptions } from 'node:tls';
import type { Answer, Check, FailMode, FieldError, ProblemDocument, Renewal, Settlement } from './types.js';

export type * from './types.js';

/** What onCount counts. */
export type Counter =
  /** Decisions asked for; each check of a batch counts. */
  | 'checks'
  /** HTTP calls made for them. */
  | 'calls'
  /** Checks in those calls; a check that is sent again counts again. */
  | 'carried'
  /** Calls that failed as the circuit breaker counts them. */
  | 'failures'
  /** Calls that the open circuit breaker refused. */
  | 'refused'
  /** Answers that the fail mode gave. */
  | 'degraded'
  /** Answers that deny because the service is overloaded. */
  | 'overloaded'
  /** Responses that the client could not read. */
  | 'unreadable';

/** Configures a Client. None of them is required for a service without tokens. */
export interface Options {
  /** An API token with the scope check. It appears in no error and no log. */
  token?: string;
  /**
   * The path of a file with the token, instead of token. A changed token is used within 10 s; while the file is not
   * usable, the previous token is.
   */
  tokenFile?: string;
  /** Decides checks while the service is unavailable; open if absent. */
  failMode?: FailMode;
  /** Required for the fail mode local. */
  localLimit?: LocalLimit;
  /** Bounds check, batch and reserve, which requests wait for, in ms; 25 if absent. */
  timeoutMs?: number;
  /** Bounds settle, release and renew, in ms; 1000 if absent. */
  callTimeoutMs?: number;
  /** The most connections to the service, all of which stay open for reuse; 64 if absent. */
  maxConns?: number;
  /** The most checks that wait to be sent; 10,000 if absent. The fail mode decides further ones at once. */
  maxQueue?: number;
  /** Certificates for https: ca to trust, cert and key of the client. If absent, Node's own authorities are trusted. */
  tls?: SecureContextOptions;
  /** Called with the reason of each answer that the fail mode gave. It must return quickly. */
  onDegraded?: (error: unknown) => void;
  /** Called with the name of a counter and what to add to it. It must return quickly. */
  onCount?: (name: Counter, n: number) => void;
  /** Receives problems of tokenFile and of responses that the client cannot read; process.emitWarning if absent. */
  log?: (message: string) => void;
}

/** The token bucket that the fail mode local enforces for each key, in the memory of this process. */
export interface LocalLimit {
  /** In units per windowMs, 0 to 2^53-1. */
  limit: number;
  /** A whole number of milliseconds, from 1 to ten years. */
  windowMs: number;
  /** The most that passes at once, in units; the limit if 0 or absent. */
  burst?: number;
  /**
   * Names the bucket of a check. If absent, it is the key of a direct check, or the user, the API key or the address,
   * the first that is not empty.
   */
  key?: (check: Check) => string;
  /** Bounds the buckets; 10,000 if 0 or absent. Further keys share one bucket while all of these are in use. */
  maxKeys?: number;
}

/** Options of one call. */
export interface CallOptions {
  /** Ends the wait of the caller. The method then throws the reason of the signal. */
  signal?: AbortSignal | undefined;
}

/**
 * Asks one service with one token. One Client serves a whole program.
 *
 * While calls are in flight, further checks gather and travel together. No timer is involved: a check never waits when
 * nothing is in flight. A check that may have been charged is never sent again.
 */
export declare class Client {
  /** base looks like http://127.0.0.1:8080. No connection is opened yet. It throws a TypeError for a wrong option. */
  constructor(base: string, options?: Options);
  /**
   * Decides one request and spends from every limit that applies, or from none if one of them denies. It throws a
   * Problem if the check or the token is wrong, and a ClosedError after close. While the service is unavailable it does
   * not throw: the fail mode decides. A check that an overloaded service has no turn for is denied, with overloaded.
   */
  check(check: Check, options?: CallOptions): Promise<Answer>;
  /**
   * Decides up to 1,000 checks, each independently, and returns their answers in the same order. If a check is invalid,
   * it throws a Problem that names it, such as checks[3].weight, and nothing is decided. Fail modes are as for check. A
   * batch that an overloaded service refuses is sent again in calls of at most 100 checks while timeoutMs lasts.
   */
  batch(checks: Check[], options?: CallOptions): Promise<Answer[]>;
  /**
   * A check whose weight is an estimate. If it is allowed, the answer has a reservation to settle within ttlMs (1 s to
   * 1 h, 60 s if absent). onExpire says what happens with an estimate that nobody settles: it stays charged (keep, if
   * absent), comes back, or a percentage stays charged. An answer of a fail mode has no reservation.
   */
  reserve(
    check: Check,
    options?: CallOptions & { ttlMs?: number; onExpire?: 'keep' | 'refund' | { percent: number } },
  ): Promise<Answer>;
  /**
   * Corrects a reservation to the actual use. A reservation counts once, so a settle that failed may be repeated. A
   * Problem with status 410 says that the reservation has ended and its charge is final. No fail mode applies.
   */
  settle(settlement: Settlement, options?: CallOptions): Promise<Answer>;
  /** Ends the concurrency slots of an answer with a lease. No fail mode applies. */
  release(lease: string, options?: CallOptions): Promise<Answer>;
  /** Restarts the time for which slots are held. allowed is false if one has ended. No fail mode applies. */
  renew(lease: string, options?: CallOptions): Promise<Answer>;
  /**
   * Lets a reservation live for longer and adds to its estimate. If what it adds does not fit, allowed is false and
   * nothing changes. Else the answer has the reservation that replaces the old one. No fail mode applies.
   */
  renewReservation(renewal: Renewal, options?: CallOptions): Promise<Answer>;
  /** A release that nobody waits for except close. If it fails, the slots end when their time is over. */
  releaseLater(lease: string): void;
  /**
   * Decides a check by the fail mode, as check does while the service is unavailable. It is for callers that let the
   * fail mode decide about other errors too.
   */
  fallback(check: Check, error: unknown): Answer;
  /** Reports a problem to the log option. */
  warn(message: string): void;
  /** Ends what waits with a ClosedError, waits for releases, and closes the connections. */
  close(): Promise<void>;
}

/** An error response of the service. Branch on type, which is stable; it is "" if another server responded. */
export declare class Problem extends Error {
  constructor(document: ProblemDocument, body?: string);
  type: string;
  title: string;
  status: number;
  detail: string;
  errors: FieldError[];
  /** Where a change can be made that this node refused because its rules database is a read replica, or "". */
  primary_url: string;
  /** The response as it was received. */
  body: string | undefined;
}

/** No complete answer came. The service may have charged the request nevertheless. */
export declare class UnavailableError extends Error {
  constructor(message: string, options?: { cause?: unknown });
}

/** Every method throws it after close. */
export declare class ClosedError extends Error {
  constructor();
}

/** Reports whether an error means that the service could not decide, rather than that the request was wrong. */
export declare function unavailable(error: unknown): boolean;

/** Reports whether the service had too many requests. It charged nothing, so the request may be sent again. */
export declare function overloaded(error: unknown): boolean;

/** An answer, a response of fetch, its headers, the headers of node:http, or a value of Retry-After. */
export type RetrySource =
  | string | number | null | undefined
  | { retry_after_s?: number; headers?: object }
  | { headers: { get(name: string): string | null } }
  | { get(name: string): string | null }
  | Record<string, unknown>;

/**
 * Returns how many seconds to wait before the same request is sent again: of a number, or of a date from now on. It
 * returns undefined if there is no usable value, if waiting does not help (-1), or if it is more than mostS. Add a
 * random time to it, so that callers do not repeat together.
 */
export declare function retryAfter(source: RetrySource, options?: { now?: Date | number; mostS?: number }):
  number | undefined;
