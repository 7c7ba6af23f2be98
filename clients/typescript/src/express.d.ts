import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Client } from './index.js';
import type { LimitOptions } from './options.js';

export { answerOf, type LimitOptions } from './options.js';

/**
 * Returns a middleware for Express 4 and 5. A denied request gets the status, headers and document of its answer, and
 * its handler does not run. As a middleware of a route (app.get('/users/:id', limit, handler)) it knows the template;
 * with app.use it knows the path. Concurrency slots are released when the response has ended.
 */
export declare function limitRequests<R extends IncomingMessage = IncomingMessage>(client: Client,
  options?: LimitOptions<R>): (request: R, response: ServerResponse, next: (error?: unknown) => void) => void;
