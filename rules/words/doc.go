// Package words describes rules in prose, for people.
//
// A worked example. For the rule {scope: user, route: /v1/charges, method: POST, limit: 100, window_ms: 60000}, Limit
// gives "100 per minute per user", Match gives "POST /v1/charges", and Summary gives "Each user may send 100 POST
// requests per minute to /v1/charges; the rest are denied. If Redis is unreachable, all of these requests pass."
//
// Single numbers, windows and shares are written by package quantity.
package words
