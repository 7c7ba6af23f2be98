import { Limiter, pathOf, templateOf } from './middleware.js';

export { answerOf } from './middleware.js';

/**
 * Returns a middleware for Express. See express.d.ts.
 * @param {import('./index.js').Client} client
 * @param {import('./options.js').LimitOptions<any>} [options]
 */
export function limitRequests(client, options = {}) {
  const limiter = new Limiter(client, options);
  /**
   * @param {any} request
   * @param {import('node:http').ServerResponse} response
   * @param {(error?: unknown) => void} next
   */
  return (request, response, next) => {
    limiter.decide(request, response, request, routeOf(request)).then((outcome) => {
      for (const name in outcome.headers) {
        response.setHeader(name, outcome.headers[name]);
      }
      if (outcome.pass) {
        next();
      } else {
        response.statusCode = outcome.status;
        response.end(outcome.body);
      }
    }).catch(next);
  };
}

/** @param {any} request */
function routeOf(request) {
  const template = request.route?.path;
  // What mounts the router may have parameters, whose values are in baseUrl.
  const exact = typeof template === 'string' &&
    Object.keys(request.params ?? {}).every((name) => template.includes(name));
  return exact ? templateOf(request.baseUrl + template) : pathOf(request.originalUrl);
}
