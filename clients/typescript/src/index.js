export { Client } from './client.js';
export { ClosedError, Problem, UnavailableError, overloaded, unavailable } from './errors.js';
export { retryAfter } from './retry.js';
