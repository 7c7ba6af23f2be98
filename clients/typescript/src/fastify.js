import { Limiter, pathOf, templateOf } from './middleware.js';

export { answerOf } from './middleware.js';

/**
 * Returns a plugin for Fastify. See fastify.d.ts.
 * @param {import('./index.js').Client} client
 * @param {import('./options.js').LimitOptions<any>} [options]
 */
export function limitRequests(client, options = {}) {
  const limiter = new Limiter(client, options);
  /** @param {any} fastify */
  const plugin = async (fastify) => {
    fastify.addHook('onRequest', async (/** @type {any} */ request, /** @type {any} */ reply) => {
      const template = request.routeOptions?.url;
      const route = template ? templateOf(template) : pathOf(request.raw.url);
      const outcome = await limiter.decide(request.raw, reply.raw, request, route);
      reply.headers(outcome.headers);
      if (!outcome.pass) {
        return reply.code(outcome.status).send(outcome.body);
      }
    });
  };
  // The hook is for the routes of the whole server, not only of this plugin.
  return Object.assign(plugin, { [Symbol.for('skip-override')]: true, [Symbol.for('fastify.display-name')]: 'sluice' });
}
