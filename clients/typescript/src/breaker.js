import { ClosedError, Problem, overloaded, unavailable } from './errors.js';

const failuresToOpen = 5; // in a row
const firstPauseMs = 100;
const longestPauseMs = 1000;

/** @typedef {'permitted' | 'probe'} Permission A probe is permitted alone. */
/** @typedef {'succeeded' | 'failing' | 'unknown'} Outcome It is unknown if the caller left before the answer came. */

/**
 * A circuit breaker. After five failures in a row it is open and refuses calls. When a pause has passed it is
 * half-open: one call at a time is the probe. A success closes it, and a failed probe doubles the pause up to 1 s.
 */
export class Breaker {
  #failures = 0;
  #open = false;
  #probing = false;
  #until = 0;
  #pause = 0;
  #now;

  /** @param {() => number} [now] a steady clock, in ms */
  constructor(now = () => performance.now()) {
    this.#now = now;
  }

  /**
   * Returns the permission for a call, which must leave, or undefined if it is refused.
   * @returns {Permission | undefined}
   */
  enter() {
    if (!this.#open) {
      return 'permitted';
    }
    if (this.#probing || this.#now() < this.#until) {
      return undefined;
    }
    this.#probing = true;
    return 'probe';
  }

  /**
   * Reports the outcome of a call.
   * @param {Permission} permission
   * @param {Outcome} outcome
   */
  leave(permission, outcome) {
    if (permission === 'probe') {
      this.#probing = false;
    }
    if (outcome === 'succeeded') {
      this.#open = false;
      this.#failures = 0;
    } else if (outcome === 'unknown' || this.#open && permission !== 'probe') {
      // Nothing is known, or the call started before the breaker opened.
    } else if (this.#open) {
      this.#pause = Math.min(2 * this.#pause, longestPauseMs);
      this.#until = this.#now() + this.#pause;
    } else if (++this.#failures >= failuresToOpen) {
      this.#open = true;
      this.#pause = firstPauseMs;
      this.#until = this.#now() + this.#pause;
    }
  }
}

// A service with these problems answers, and decides checks by the fail modes of its rules.
const counterProblems = new Set(['/problems/store-unavailable', '/problems/queue-unavailable']);

/**
 * Classifies the error of a call, undefined for none.
 * @param {unknown} error
 * @param {boolean} left the caller gave up before the client's own timeout
 * @returns {Outcome}
 */
export function outcomeOf(error, left) {
  if (error === undefined || error instanceof Problem && (!unavailable(error) || overloaded(error) ||
    counterProblems.has(error.type))) {
    return 'succeeded';
  }
  if (left || error instanceof ClosedError) {
    return 'unknown';
  }
  return 'failing';
}
