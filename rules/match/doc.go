// Package match finds the rules that apply to a request: a Set is all active rules, compiled, immutable and safe for
// concurrent use; Compile makes one, Apply makes a changed one, Match and Explain use it.
//
// A worked example. The rule
//
//	{name: charges-per-user, scope: user, route: /v1/charges, method: POST,
//	 limit: 5, window_ms: 1000}
//
// with id 7 applies to the descriptor {method: POST, route: /v1/charges,
// user: 42}, where it names the bucket {user:42}|7|sc. It does not apply to a
// GET, to /v1/charges/9, or to a request without a user.
//
// # Keys
//
// The first fact of a key, in braces, is its entity: user before apikey, before attributes by name, before ip, tier,
// route and method, whatever the order in the scope. So {user:42}|7|sc and {user:42}+ip:203.0.113.7|9|sc share a slot
// of a Redis cluster, and user+ip names the same buckets as ip+user. API keys, and other values that look like
// credentials, are hashed in it.
//
// # Routes
//
// Requests are compared in one spelling (route.Normalize). The fact route in a
// scope is the request's own path in that spelling, not the rule's pattern: a
// rule for /v1/users/{id} with scope user counts a user's requests to all of
// them in one bucket, with scope user+route in one bucket a path.
package match
