// Package envoy has what Envoy calls: over gRPC the RateLimitService, the Authorization service and the health service,
// and the first of them as JSON. It decodes a call, asks the engine of package decide, and encodes the answer.
//
// A worked example. A rule has the descriptor {domain: shop, entries: [{key: path, value: /pay}, {key: user}]} and
// allows 5 requests per minute. Envoy sends the domain shop with the descriptor (path=/pay, user=42) for the sixth time
// in a minute, with 20 s left. The answer has the overall code OVER_LIMIT and one status: OVER_LIMIT, 5 per MINUTE, 0
// remaining, 20 s until it makes sense to try again. It also has the headers and the body for the client, and metadata
// that names the rule, for the access log.
//
// The generated code reads calls of the RateLimitService. Calls of ext_authz are read, and both answers written, field
// by field, because the generated code costs several microseconds more for them: see
// docs/decisions/0024-messages-by-hand.md. Tests compare them with the generated code.
package envoy
