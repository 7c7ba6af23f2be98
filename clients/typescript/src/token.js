import { closeSync, openSync, readSync } from 'node:fs';

const freshMs = 5000; // how long a token is used without a look at its file
const maxSize = 64 << 10; // bytes

/**
 * Returns a function that returns the token in force, or undefined without a token.
 * @param {{ token?: string, tokenFile?: string }} options
 * @param {(message: string) => void} log
 * @param {() => number} [now] a steady clock, in ms
 * @returns {(() => string) | undefined}
 */
export function tokenOf({ token, tokenFile }, log, now = () => performance.now()) {
  if (token && tokenFile) {
    throw new TypeError('set token or tokenFile, not both');
  }
  if (token) {
    if (!valid(token)) {
      throw new TypeError('token must be printable ASCII without blanks');
    }
    return () => token;
  }
  if (!tokenFile) {
    return undefined;
  }
  let value = read(tokenFile);
  let looked = now();
  let failing = false;
  return () => {
    if (now() - looked < freshMs) {
      return value;
    }
    looked = now();
    try {
      value = read(tokenFile);
      failing = false;
    } catch (error) {
      if (!failing) {
        log(`${/** @type {Error} */ (error).message}; the previous token stays in use`);
      }
      failing = true;
    }
    return value;
  };
}

/** @param {string} token */
const valid = (token) => /^[\x21-\x7e]+$/.test(token);

/** @param {string} path */
function read(path) {
  let text;
  try {
    const file = openSync(path, 'r');
    try {
      const buffer = Buffer.alloc(maxSize + 1);
      text = buffer.toString('latin1', 0, readSync(file, buffer, 0, buffer.length, 0));
    } finally {
      closeSync(file);
    }
  } catch (error) {
    throw new Error(`tokenFile: ${/** @type {Error} */ (error).message}`);
  }
  const token = text.replace(/\r?\n$/, '');
  if (token.length > maxSize || !valid(token)) {
    throw new Error(`tokenFile: ${path} must contain one token in printable ASCII without blanks`);
  }
  return token;
}
