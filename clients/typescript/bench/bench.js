// Measures 64 concurrent callers in one process for a few seconds: this client, and one request per check with fetch, as
// generated clients send it, in turns. It needs SLUICE_BIN, or builds the node. SECONDS is the length of a round (3),
// ROUNDS their number (3). Server CPU is that of the node's process, from /proc.
import { readFileSync } from 'node:fs';
import { Client } from '../src/index.js';
import { startNode } from '../test/support.js';

const callers = 64;
const seconds = Number(process.env.SECONDS ?? 3);
const rounds = Number(process.env.ROUNDS ?? 3);
const ticks = 100; // a second, in /proc/PID/stat

const node = await startNode();
const check = { limit: 1_000_000_000, window_ms: 3_600_000 };
let degraded = 0;
const client = new Client(node.url, { token: node.token, timeoutMs: 10_000, onDegraded: () => degraded++ });
const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${node.token}` };

/** @type {Record<string, (key: string) => Promise<{ allowed: boolean }>>} */
const ways = {
  'one request per check': async (key) => {
    const response = await fetch(`${node.url}/ratelimit/check`,
      { method: 'POST', headers, body: JSON.stringify({ key, ...check }) });
    return /** @type {{ allowed: boolean }} */ (await response.json());
  },
  'sluice-client': (key) => client.check({ key, ...check }),
};

/** CPU seconds of the node so far. */
function serverCPU() {
  const fields = readFileSync(`/proc/${node.pid}/stat`, 'utf8').replace(/^.*\) /s, '').split(' ');
  return (Number(fields[11]) + Number(fields[12])) / ticks;
}

/** @param {(key: string) => Promise<{ allowed: boolean }>} ask */
async function round(ask) {
  const begin = performance.now();
  const until = begin + seconds * 1000;
  const cpu = serverCPU();
  let n = 0;
  await Promise.all(Array.from({ length: callers }, async (_, i) => {
    while (performance.now() < until) {
      if (!(await ask(`bench-${i}`)).allowed) {
        throw new Error('a check was denied');
      }
      n++;
    }
  }));
  return { perSecond: n / (performance.now() - begin) * 1000, cpu: (serverCPU() - cpu) / n * 1e6 };
}

/** @type {Record<string, { perSecond: number, cpu: number }[]>} */
const results = {};
try {
  for (let i = 0; i <= rounds; i++) {
    for (const [name, ask] of Object.entries(ways)) {
      const r = await round(ask);
      if (i > 0) { // the first is for warming up
        (results[name] ??= []).push(r);
      }
    }
  }
} finally {
  await client.close();
  await node.stop();
}
const median = (/** @type {number[]} */ values) => values.sort((a, b) => a - b)[values.length >> 1];
console.log('way, checks/s, server CPU per check in microseconds (medians)');
for (const [name, rs] of Object.entries(results)) {
  console.log(`${name}, ${median(rs.map((r) => r.perSecond)).toFixed(0)}, ${median(rs.map((r) => r.cpu)).toFixed(1)}`);
}
if (degraded > 0) {
  console.log(`${degraded} checks were decided by the fail mode`);
}
