// Package decide is the engine: one Checker that decides requests for every endpoint. checker.go is the page to read
// first.
//
// A worked example. With the rule charges-per-user (5 a second per user on POST
// /v1/charges) in force, the sixth
//
//	POST /ratelimit/check {"method":"POST","route":"/v1/charges","user":"42"}
//
// within a second becomes a Question, which the set matches to the bucket {user:42}|7|sc; one store call denies it; the
// Answer is Denied, with a retry-after of 190 ms. The HTTP endpoint writes it as
// {"allowed":false,"status":429,"retry_after_ms":190,...} with the headers and body that the gateway passes on to its
// client.
//
// Envoy asks about several descriptors at once, each with its rule (DoDescriptors). With the rules tokens (1,000 per
// minute and user, addend charge) and calls (60 per minute and path), the call
//
//	domain shop: [user=42, addend 1200] [path=/pay]
//
// at the end of an answer of 1,200 tokens becomes two requests to the store in one round trip: a charge of
// {shop:user=42}|8|fw, which does not fit and is still spent, and a take of {shop:path=/pay}|9|fw. The statuses are
// over with 0 remaining, and ok with 59.
//
// Endpoints decode and encode and do not depend on limits. The Checker decides and does not depend on endpoints, on
// HTTP, or on a particular store.
package decide
