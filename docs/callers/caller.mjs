// Asks Sluice whether a request of a user may pass. Node 18 or newer, no packages.
async function ask(check) {
  const timeout = 1000 * Number(process.env.TIMEOUT ?? 0.1);
  const headers = { "Content-Type": "application/json", "Sluice-Timeout-Ms": String(Math.min(Math.ceil(timeout), 1000)) };
  if (process.env.SLUICE_TOKEN) headers.Authorization = `Bearer ${process.env.SLUICE_TOKEN}`;
  let response;
  try {
    const signal = AbortSignal.timeout(timeout);
    const body = JSON.stringify(check);
    response = await fetch(`${process.env.SLUICE_SERVER}/ratelimit/check`, { method: "POST", headers, body, signal });
    if (response.ok) return await response.json();
  } catch {
    return null; // no answer in time
  }
  if (response.status < 500) throw new Error(`the question is wrong: ${await response.text()}`);
  return null;
}

const answer = await ask({ method: "POST", route: "/reports", user: process.argv[2] });
if (answer === null) console.log("allowed, Sluice did not answer"); // or deny, if that is worse for you
else if (answer.allowed) console.log("remaining" in answer ? `allowed, ${answer.remaining} left` : "allowed, no limit applies");
else {
  console.log(`denied with ${answer.status} - wait ${answer.retry_after_ms} ms`); // send answer.headers and answer.body
  process.exitCode = 1;
}
