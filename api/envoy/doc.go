// Package envoy serves the calls of Envoy: over gRPC the RateLimitService, the Authorization service and the health
// service, and the first of them as JSON. It decodes a call, asks the engine of package decide, and encodes the answer.
//
// A worked example. A rule has the descriptor {domain: shop, entries: [{key: path, value: /pay}, {key: user}]} and
// allows 5 requests per minute. Envoy sends the domain shop with the descriptor (path=/pay, user=42) for the sixth time
// in a minute, with 20 s left. The answer has the overall code OVER_LIMIT and one status: OVER_LIMIT, 5 per MINUTE, 0
// remaining, 20 s until a retry makes sense. It also contains the headers and the body for the client, and metadata
// that names the rule, for the access log.
//
// loop serves the connections: h2conn.go is the page to read first. A connection's frames come from input (h2input.go),
// begin streams (h2headers.go, h2streams.go), and complete calls are decided as a batch (h2calls.go). Output passes the
// flow-control windows (h2flow.go). h2limits.go and h2aging.go decide when a connection ends, and watch checks the
// connections in use. grpc-go serves the other connections, and, through h2exchange.go, the other methods. One of these
// is the stream of the RateLimitQuotaService, which package quota serves.
//
// The generated code reads calls of the RateLimitService. Calls of ext_authz are read, and both answers written, field
// by field, because the generated code costs several microseconds more for them: see
// docs/decisions/0024-messages-by-hand.md. Tests compare them with the generated code.
package envoy
