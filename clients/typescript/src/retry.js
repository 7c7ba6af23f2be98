const months = 'Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec';
// The three forms of RFC 9110, section 5.6.7. Date.parse alone accepts much else.
const dates = [
  new RegExp(`^[A-Z][a-z]{2}, \\d{2} (${months}) \\d{4} \\d{2}:\\d{2}:\\d{2} GMT$`),
  new RegExp(`^[A-Z][a-z]{5,8}, \\d{2}-(${months})-\\d{2} \\d{2}:\\d{2}:\\d{2} GMT$`),
  new RegExp(`^[A-Z][a-z]{2} (${months}) [ \\d]\\d \\d{2}:\\d{2}:\\d{2} \\d{4}$`),
];

/**
 * Returns how many seconds to wait before the same request is sent again. See index.d.ts.
 * @param {import('./index.js').RetrySource} source
 * @param {{ now?: Date | number, mostS?: number }} [options]
 * @returns {number | undefined}
 */
export function retryAfter(source, options = {}) {
  const now = Number(options.now ?? Date.now());
  const seconds = secondsOf(valueOf(source), now);
  return seconds === undefined || seconds > (options.mostS ?? Infinity) ? undefined : seconds;
}

/**
 * @param {any} source
 * @returns {unknown}
 */
function valueOf(source) {
  if (typeof source !== 'object' || source === null) {
    return source;
  }
  if (typeof source.retry_after_s === 'number') {
    return source.retry_after_s;
  }
  if (typeof source.get === 'function') {
    return source.get('Retry-After');
  }
  if (typeof source.headers === 'object') {
    return valueOf(source.headers);
  }
  return source['Retry-After'] ?? source['retry-after'];
}

/**
 * @param {unknown} value
 * @param {number} now
 */
function secondsOf(value, now) {
  if (typeof value === 'number') {
    return Number.isFinite(value) && value >= 0 ? value : undefined;
  }
  if (typeof value !== 'string') {
    return undefined;
  }
  const text = value.trim();
  if (/^\d+$/.test(text)) {
    return Number(text);
  }
  const form = dates.findIndex((d) => d.test(text));
  const at = form < 0 ? NaN : Date.parse(form === 2 ? `${text} GMT` : text);
  return Number.isNaN(at) ? undefined : Math.max(0, Math.ceil((at - now) / 1000));
}
