// Plays the journey with the client that openapi-generator's typescript-fetch generates.
import assert from "node:assert/strict";
import {
  Configuration, DecisionsApi, type Problem, ProblemFromJSON, ResponseError, RulesApi,
} from "./generated/typescript-fetch";

const [url, token, name] = process.argv.slice(2);
const minute = 60_000;
const configuration = new Configuration({ basePath: url, accessToken: token });
const rulesApi = new RulesApi(configuration);
const decisions = new DecisionsApi(configuration);

async function problem(call: Promise<unknown>): Promise<Problem> {
  try {
    await call;
  } catch (error) {
    assert.ok(error instanceof ResponseError);
    return ProblemFromJSON(await error.response.json());
  }
  return assert.fail("the call succeeded");
}

// Steps 1 to 4.
async function rules() {
  const created = await rulesApi.createRuleRaw({
    ruleInput: {
      name: `${name}-shadow`, scope: "user", limit: 9, windowMs: minute,
      mode: "shadow", failMode: "closed", isActive: false,
    },
  });
  const { id } = await created.value();
  const ifMatch = created.raw.headers.get("ETag") ?? "";
  const { limit, mode, failMode, isActive } = await rulesApi.patchRule({ id, ifMatch, rulePatch: { limit: 5 } });
  assert.deepEqual([limit, mode, failMode, isActive], [5, "shadow", "closed", false]);
  const stale = await problem(rulesApi.patchRule({ id, ifMatch, rulePatch: { limit: 6 } }));
  assert.equal(stale.status, 412);
  assert.equal(stale.type, "/problems/stale");
  const users = await rulesApi.createRule({
    ruleInput: { name: `${name}-users`, scope: "user", limit: 2, windowMs: minute, when: `user == "${name}"` },
  });
  assert.equal(users.name, `${name}-users`);
}

// Steps 5 to 8.
async function checks() {
  for (const allowed of [true, true, false]) {
    const answer = await decisions.check({ check: { user: name } });
    assert.equal(answer.allowed, allowed);
    if (!allowed) {
      assert.equal(answer.rule, `${name}-users`);
      assert.equal(answer.status, 429);
      assert.ok((answer.retryAfterMs ?? 0) > 0);
      assert.equal(answer.headers.retryAfter, String(answer.retryAfterS));
      assert.equal(answer.body?.status, 429);
    }
  }
  for (const allowed of [true, false]) {
    const answer = await decisions.check({ check: { key: name, limit: 1, windowMs: minute } });
    assert.equal(answer.allowed, allowed);
  }
  const several = await decisions.check({
    check: {
      limits: [
        { key: `${name}-a`, limit: 5, windowMs: minute },
        { key: `${name}-b`, limit: 7, windowMs: minute },
      ],
    },
  });
  assert.equal(several.limits[1]?.limit, 7);
  const question = { key: `${name}-batch`, limit: 9, windowMs: minute };
  const batch = await decisions.checkBatch({ batchCheck: { checks: [question, question] } });
  assert.equal(batch.results[1]?.remaining, 7);
}

// Step 9.
async function reserve() {
  const { reservation } = await decisions.reserve({
    reserve: { key: `${name}-reserve`, limit: 9, windowMs: minute, weight: 1 },
  });
  assert.ok(reservation);
  const settled = await decisions.settle({ settlement: { reservation, weight: 0 } });
  assert.equal(settled.refunded, 1);
}

// Steps 10 to 12.
async function explain() {
  const explained = await decisions.explain({ explainQuestion: { user: name } });
  assert.ok(explained.rules?.some((r) => r.name === `${name}-users` && r.matched));
  assert.equal(explained.decision.allowed, false);
  const page = await rulesApi.listRules({ q: name });
  assert.deepEqual(page.rules.map((r) => r.name), [`${name}-shadow`, `${name}-users`]);
  const refused = await problem(rulesApi.createRule({
    ruleInput: { name: "Not A Name", scope: "user", limit: 1, windowMs: minute },
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
