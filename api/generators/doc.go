// Package generators holds tests that generate clients from openapi.yaml, compile them, and play one journey with each
// against a real node. TestGenerated needs only Go and is part of make test. TestClients has the build tag clients,
// needs the registries of the other languages, and is make test-clients. docs/clients.md has a row for each generator.
//
// A program of testdata plays the journey with a generated client. It is run as
//
//	PROGRAM URL TOKEN NAME
//
// where NAME is a prefix for its rule names, users and keys that nobody else uses. It makes these calls in this order,
// one at a time, each with the token. It exits with status 0 if every answer is as written here, and else with another.
//
//  1. POST /ratelimit/rules: name NAME-shadow, scope user, limit 9, window_ms 60000, mode shadow, fail_mode closed,
//     is_active false. 201, with an id and an ETag.
//  2. PATCH /ratelimit/rules/{id} with that ETag in If-Match and the body {"limit": 5}. 200: limit is 5; mode,
//     fail_mode and is_active are as before.
//  3. PATCH again with the same If-Match, now stale, and the body {"limit": 6}. 412, a problem of the type stale.
//  4. POST /ratelimit/rules: name NAME-users, scope user, limit 2, window_ms 60000, and when: user == "NAME". 201.
//  5. POST /ratelimit/check with the fact user NAME, three times. 200 each: allowed, allowed, and denied with status
//     429, rule NAME-users, a retry_after_ms above 0, and a body whose status is 429.
//  6. POST /ratelimit/check with key NAME, limit 1, window_ms 60000, twice: allowed with remaining 0, then denied.
//  7. POST /ratelimit/check with two limits, keys NAME-a (limit 5) and NAME-b (limit 7): allowed, two limits in the
//     answer, of which the second has limit 7.
//  8. POST /ratelimit/check/batch with key NAME-batch, limit 9, twice: the second result has remaining 7.
//  9. POST /ratelimit/reserve of weight 1 with key NAME-reserve, limit 9: allowed, with a reservation. Then
//     POST /ratelimit/settle of it with weight 0: refunded is 1.
//  10. POST /ratelimit/explain with the fact user NAME: the decision denies, and the rule NAME-users has matched.
//  11. GET /ratelimit/rules?q=NAME: both rules, by their names.
//  12. POST /ratelimit/rules: name "Not A Name", scope user, limit 1, window_ms 60000. 422, and one of errors has the
//     field name.
//
// Between the program and the node is a proxy. It adds a member, which openapi.yaml does not have, to every object of
// every JSON answer, and a header to every answer, as a newer node may. It also records the calls: a program that
// leaves one out fails, whatever its exit status. Then the program runs again a few times, each time with one answer
// that is not as written here, and must not exit with 0.
package generators
