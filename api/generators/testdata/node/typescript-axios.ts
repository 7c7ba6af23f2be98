// Plays the journey with the client that openapi-generator's typescript-axios generates.
import assert from "node:assert/strict";
import { isAxiosError } from "axios";
import { Configuration, DecisionsApi, type Problem, RulesApi } from "./generated/typescript-axios";

const [url, token, name] = process.argv.slice(2);
const minute = 60_000;
const configuration = new Configuration({ basePath: url, accessToken: token });
const rulesApi = new RulesApi(configuration);
const decisions = new DecisionsApi(configuration);

async function problem(call: Promise<unknown>): Promise<Problem> {
  try {
    await call;
  } catch (error) {
    assert.ok(isAxiosError<Problem>(error) && error.response);
    return error.response.data;
  }
  return assert.fail("the call succeeded");
}

// Steps 1 to 4.
async function rules() {
  const { data: { id }, headers } = await rulesApi.createRule({
    name: `${name}-shadow`, scope: "user", limit: 9, window_ms: minute,
    mode: "shadow", fail_mode: "closed", is_active: false,
  });
  const { data: { limit, mode, fail_mode, is_active } } = await rulesApi.patchRule(id, { limit: 5 }, headers["etag"]);
  assert.deepEqual([limit, mode, fail_mode, is_active], [5, "shadow", "closed", false]);
  const stale = await problem(rulesApi.patchRule(id, { limit: 6 }, headers["etag"]));
  assert.equal(stale.status, 412);
  assert.equal(stale.type, "/problems/stale");
  const users = await rulesApi.createRule({
    name: `${name}-users`, scope: "user", limit: 2, window_ms: minute, when: `user == "${name}"`,
  });
  assert.equal(users.data.name, `${name}-users`);
}

// Steps 5 to 8.
async function checks() {
  for (const allowed of [true, true, false]) {
    const { data: answer } = await decisions.check({ user: name });
    assert.equal(answer.allowed, allowed);
    if (!allowed) {
      assert.equal(answer.rule, `${name}-users`);
      assert.equal(answer.status, 429);
      assert.ok((answer.retry_after_ms ?? 0) > 0);
      assert.equal(answer.headers["Retry-After"], String(answer.retry_after_s));
      assert.equal(answer.body?.status, 429);
    }
  }
  for (const allowed of [true, false]) {
    const { data: answer } = await decisions.check({ key: name, limit: 1, window_ms: minute });
    assert.equal(answer.allowed, allowed);
  }
  const several = await decisions.check({
    limits: [
      { key: `${name}-a`, limit: 5, window_ms: minute },
      { key: `${name}-b`, limit: 7, window_ms: minute },
    ],
  });
  assert.equal(several.data.limits[1]?.limit, 7);
  const question = { key: `${name}-batch`, limit: 9, window_ms: minute };
  const batch = await decisions.checkBatch({ checks: [question, question] });
  assert.equal(batch.data.results[1]?.remaining, 7);
}

// Step 9.
async function reserve() {
  const { data: { reservation } } = await decisions.reserve({
    key: `${name}-reserve`, limit: 9, window_ms: minute, weight: 1,
  });
  assert.ok(reservation);
  const settled = await decisions.settle({ reservation, weight: 0 });
  assert.equal(settled.data.refunded, 1);
}

// Steps 10 to 12.
async function explain() {
  const { data: explained } = await decisions.explain({ user: name });
  assert.ok(explained.rules?.some((r) => r.name === `${name}-users` && r.matched));
  assert.equal(explained.decision.allowed, false);
  const page = await rulesApi.listRules(name);
  assert.deepEqual(page.data.rules.map((r) => r.name), [`${name}-shadow`, `${name}-users`]);
  const refused = await problem(rulesApi.createRule({
    name: "Not A Name", scope: "user", limit: 1, window_ms: minute,
  }));
  assert.equal(refused.status, 422);
  assert.ok(refused.errors?.some((e) => e.field === "name"));
}

async function main() {
  await rules();
  await checks();
  await reserve();
  await explain();
}

void main();
