import type { IncomingMessage } from 'node:http';
import type { Client } from './index.js';
import type { LimitOptions } from './options.js';

export { answerOf, type LimitOptions } from './options.js';

/**
 * Returns a plugin for Fastify 4 and 5: await app.register(limitRequests(client)). It checks the requests of every
 * route that is added afterwards, before their bodies are read, by the template of the route. A denied request gets the
 * status, headers and document of its answer. Concurrency slots are released when the response has ended.
 */
export declare function limitRequests<R extends { raw: IncomingMessage } = { raw: IncomingMessage }>(client: Client,
  options?: LimitOptions<R>): (fastify: any) => Promise<void>;
