const maxExact = Number.MAX_SAFE_INTEGER;
const maxWindowMs = 315_576_000_000; // ten years
const defaultKeys = 10_000;

/** The wait that helps nobody: for a weight above the burst, or a bucket that never refills. */
export const never = -1;

/** @typedef {{ level: number, at: number, exists: boolean, until: number }} Bucket level is in units times windowMs. */
/** @typedef {{ allowed: boolean, remaining: number, used: number, resetMs: number, retryAfterMs: number }} Decision */

/**
 * The token bucket of LocalLimit, one for each key. It decides as limiter.TokenBucket of the service: all products stay
 * at or below 2^53-1, so every decision is exact.
 */
export class LocalLimiter {
  /** @type {Map<string, Bucket>} */
  #buckets = new Map();
  #shared = newBucket();
  #sweep = 0; // no bucket is unused before this instant, in ms
  #key;
  #maxKeys;
  #now;

  /**
   * @param {import('./index.js').LocalLimit | undefined} l
   * @param {() => number} [now] ms since 1970
   */
  constructor(l, now = Date.now) {
    if (!l) {
      throw new TypeError('failMode local requires a localLimit');
    }
    this.limit = whole('limit', l.limit, 0, maxExact);
    this.windowMs = whole('windowMs', l.windowMs, 1, maxWindowMs);
    this.burst = whole('burst', l.burst ?? 0, 0, maxExact) || this.limit;
    if (this.burst > Math.floor(maxExact / this.windowMs)) {
      throw new TypeError(`localLimit: burst (or the limit it defaults to) times windowMs must not exceed ${maxExact}`);
    }
    this.#maxKeys = whole('maxKeys', l.maxKeys ?? 0, 0, maxExact) || defaultKeys;
    this.#key = l.key ?? defaultKey;
    this.#now = now;
  }

  /** The number of buckets, for tests. */
  get size() {
    return this.#buckets.size;
  }

  /**
   * Decides one check.
   * @param {import('./types.js').Check} q
   * @returns {Decision}
   */
  take(q) {
    const now = Math.trunc(this.#now());
    const b = this.#bucket(String(this.#key(q)), now);
    const d = this.#decide(b, weightOf(q), now);
    b.until = d.resetMs === never ? Infinity : now + d.resetMs;
    return d;
  }

  /**
   * @param {Bucket} b
   * @param {number} weight
   * @param {number} now
   * @returns {Decision}
   */
  #decide(b, weight, now) {
    const { limit, windowMs, burst } = this;
    const capacity = burst * windowMs;
    // A clock that was set back further than a full bucket takes to drain starts from now.
    if (b.exists && limit > 0 && b.at - now > ceilDiv(capacity, limit)) {
      b.at = now;
    }
    let level = 0;
    let at = now;
    if (b.exists && now <= b.at) {
      [level, at] = [b.level, b.at];
    } else if (b.exists) {
      level = Math.max(0, b.level - Math.min(b.level, (now - b.at) * limit));
    }
    const skew = at - now;
    let allowed = weight <= burst;
    let retryAfterMs = allowed ? 0 : never;
    if (allowed) {
      const over = level - (capacity - weight * windowMs);
      if (over > 0) {
        allowed = false;
        retryAfterMs = limit === 0 ? never : ceilDiv(over, limit) + skew;
      } else if (weight > 0) {
        level += weight * windowMs;
        [b.level, b.at, b.exists] = [level, at, true];
      }
    }
    const remaining = Math.max(0, floorDiv(capacity - level, windowMs));
    let resetMs = 0;
    if (level > 0) {
      resetMs = limit === 0 ? never : ceilDiv(level, limit) + skew;
    }
    return { allowed, remaining, used: burst - remaining, resetMs, retryAfterMs };
  }

  /**
   * Returns the bucket of a key, which is the shared one while maxKeys others are in use.
   * @param {string} key
   * @param {number} now
   */
  #bucket(key, now) {
    const found = this.#buckets.get(key);
    if (found) {
      return found;
    }
    if (this.#buckets.size >= this.#maxKeys && now >= this.#sweep) {
      this.#sweep = Infinity;
      for (const [k, b] of this.#buckets) {
        if (b.until <= now) {
          this.#buckets.delete(k);
        } else {
          this.#sweep = Math.min(this.#sweep, b.until);
        }
      }
    }
    if (this.#buckets.size >= this.#maxKeys) {
      return this.#shared;
    }
    const b = newBucket();
    this.#buckets.set(key, b);
    return b;
  }
}

/** @returns {Bucket} */
const newBucket = () => ({ level: 0, at: 0, exists: false, until: 0 });

/**
 * The key of a direct check, else the user, the API key or the address, the first that is not empty.
 * @param {import('./types.js').Check} q
 */
function defaultKey(q) {
  const c = /** @type {Record<string, any>} */ (q);
  for (const [kind, value] of [['key', c.key], ['user', c.user], ['apikey', c.api_key], ['ip', c.ip],
    ['key', c.limits?.[0]?.key]]) {
    if (value) {
      return `${kind}:${value}`;
    }
  }
  return '';
}

/**
 * The weight of a check, held to its range: nothing gives back.
 * @param {import('./types.js').Check} q
 */
function weightOf(q) {
  const weight = q.weight ?? 1;
  return Number.isFinite(weight) ? Math.min(Math.max(Math.ceil(weight), 0), maxExact) : maxExact;
}

/**
 * @param {string} name
 * @param {number} value
 * @param {number} least
 * @param {number} most
 */
function whole(name, value, least, most) {
  if (!Number.isInteger(value) || value < least || value > most) {
    throw new TypeError(`localLimit: ${name} must be a whole number between ${least} and ${most}`);
  }
  return value;
}

// Both are exact for safe integers: a quotient without a remainder is one.
/**
 * @param {number} a
 * @param {number} b at least 1
 */
const floorDiv = (a, b) => (a - a % b) / b;

/**
 * @param {number} a at least 0
 * @param {number} b at least 1
 */
const ceilDiv = (a, b) => (a - a % b) / b + (a % b > 0 ? 1 : 0);
