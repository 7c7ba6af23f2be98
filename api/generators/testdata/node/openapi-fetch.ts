// Plays the journey with the types of openapi-typescript and the client of openapi-fetch.
import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { paths } from "./generated/openapi-fetch/schema";

const [url, token, name] = process.argv.slice(2);
const minute = 60_000;
const client = createClient<paths>({ baseUrl: url, headers: { Authorization: `Bearer ${token}` } });

// Steps 1 to 4.
async function rules() {
  const { data: shadow, response } = await client.POST("/ratelimit/rules", {
    body: {
      name: `${name}-shadow`, scope: "user", limit: 9, window_ms: minute,
      mode: "shadow", fail_mode: "closed", is_active: false,
    },
  });
  assert.ok(shadow);
  const version = { path: { id: shadow.id }, header: { "If-Match": response.headers.get("ETag") ?? "" } };
  const patched = await client.PATCH("/ratelimit/rules/{id}", { params: version, body: { limit: 5 } });
  const { limit, mode, fail_mode, is_active } = patched.data ?? {};
  assert.deepEqual([limit, mode, fail_mode, is_active], [5, "shadow", "closed", false]);
  const stale = await client.PATCH("/ratelimit/rules/{id}", { params: version, body: { limit: 6 } });
  assert.equal(stale.response.status, 412);
  assert.equal(stale.error?.type, "/problems/stale");
  const users = await client.POST("/ratelimit/rules", {
    body: { name: `${name}-users`, scope: "user", limit: 2, window_ms: minute, when: `user == "${name}"` },
  });
  assert.equal(users.data?.name, `${name}-users`);
}

// Steps 5 to 8.
async function checks() {
  for (const allowed of [true, true, false]) {
    const { data: answer } = await client.POST("/ratelimit/check", { body: { user: name } });
    assert.ok(answer);
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
    const { data: answer } = await client.POST("/ratelimit/check", {
      body: { key: name, limit: 1, window_ms: minute },
    });
    assert.equal(answer?.allowed, allowed);
  }
  const several = await client.POST("/ratelimit/check", {
    body: {
      limits: [
        { key: `${name}-a`, limit: 5, window_ms: minute },
        { key: `${name}-b`, limit: 7, window_ms: minute },
      ],
    },
  });
  assert.equal(several.data?.limits[1]?.limit, 7);
  const question = { key: `${name}-batch`, limit: 9, window_ms: minute };
  const batch = await client.POST("/ratelimit/check/batch", { body: { checks: [question, question] } });
  assert.equal(batch.data?.results[1]?.remaining, 7);
}

// Step 9.
async function reserve() {
  const { data: reserved } = await client.POST("/ratelimit/reserve", {
    body: { key: `${name}-reserve`, limit: 9, window_ms: minute, weight: 1 },
  });
  assert.ok(reserved?.reservation);
  const settled = await client.POST("/ratelimit/settle", { body: { reservation: reserved.reservation, weight: 0 } });
  assert.equal(settled.data?.refunded, 1);
}

// Steps 10 to 12.
async function explain() {
  const { data: explained } = await client.POST("/ratelimit/explain", { body: { user: name } });
  assert.ok(explained?.rules);
  assert.ok(explained.rules.some((r) => r.name === `${name}-users` && r.matched));
  assert.equal(explained.decision.allowed, false);
  const page = await client.GET("/ratelimit/rules", { params: { query: { q: name } } });
  assert.deepEqual(page.data?.rules.map((r) => r.name), [`${name}-shadow`, `${name}-users`]);
  const refused = await client.POST("/ratelimit/rules", {
    body: { name: "Not A Name", scope: "user", limit: 1, window_ms: minute },
  });
  assert.equal(refused.response.status, 422);
  assert.ok(refused.error?.errors?.some((e) => e.field === "name"));
}

async function main() {
  await rules();
  await checks();
  await reserve();
  await explain();
}

void main();
