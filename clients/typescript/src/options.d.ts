import type { Answer, Check, FactsCheck } from './index.js';

/** Configures a middleware. R is the request of the framework. */
export interface LimitOptions<R> {
  /**
   * Addresses and networks of proxies, such as 10.0.0.0/8. If one of them sends a request, the client's address comes
   * from clientIpHeader.
   */
  trustedProxies?: string[];
  /** The header with the client's address; X-Forwarded-For if absent. */
  clientIpHeader?: string;
  /** Names the route of a request in the form of Sluice, such as /users/{id}; undefined leaves it to the middleware. */
  route?: (request: R) => string | undefined;
  /**
   * Completes the check of a request: the authenticated user, a weight. It may return another check, such as a direct
   * one. A client can send any header, so a program that authenticates its users names them here.
   */
  describe?: (request: R, check: FactsCheck) => Check | void | Promise<Check | void>;
  /** Reports requests that are not checked; those with the method OPTIONS if absent. */
  skip?: (request: R) => boolean;
  /**
   * Called if a request could not be checked although the service is available: the token does not permit it, or the
   * check is invalid. The fail mode of the client then decides. If absent, the client's log receives it.
   */
  onError?: (request: R, error: unknown) => void;
  /** The names of the client headers to send; all of the answer if absent. */
  headers?: string[];
  /**
   * How many requests, at least 1, may wait at once because the answer asks for a delay; 1,000 if absent. While so many
   * wait, further ones pass or are denied at once.
   */
  mostWaiting?: number;
}

/** The answer that allowed a request, undefined for one that was not checked. */
export declare function answerOf(request: object): Answer | undefined;
