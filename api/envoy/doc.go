// Package envoy has what Envoy calls: over gRPC the RateLimitService, the Authorization service and the health service,
// and the first of them as JSON. It decodes a call, asks the engine of package decide, and encodes the answer.
//
// A worked example. A rule has the descriptor {domain: shop, entries: [{key: path, value: /pay}, {key: user}]} and
// allows 5 requests per minute. Envoy sends the domain shop with the descriptor (path=/pay, user=42) for the sixth time
// in a minute, with 20 s left. The answer has the overall code OVER_LIMIT and one status: OVER_LIMIT, 5 per MINUTE, 0
// remaining, 20 s until it makes sense to try again. It also has the headers and the body for the client, and metadata
// that names the rule, for the access log.
//
// Messages are decoded and encoded by hand, field by field, because the generated code allocates for every part of a
// message. Tests compare both with the generated code.
package envoy
