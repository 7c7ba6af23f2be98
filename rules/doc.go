// Package rules holds what ops edit and how a request finds what applies to it:
// the Rule, its validation, the compiled Set, matching, diffs and plans.
//
// A worked example. The rule
//
//	{name: charges-per-user, scope: user, route: /v1/charges, method: POST,
//	 limit: 5, window_ms: 1000}
//
// with id 7 applies to the descriptor {method: POST, route: /v1/charges,
// user: 42}, where it names the bucket {user:42}|7|sc. It does not apply to a
// GET, to /v1/charges/9, or to a request without a user.
package rules
