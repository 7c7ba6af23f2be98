// Package traces makes spans of requests and sends them to a collector by OTLP over gRPC. The environment variables of
// OpenTelemetry configure it. Without the address of a collector there are no traces: Open returns nil, and the methods
// of a nil Traces that wrap something return it as it was, the others nil, so that nothing is in the way of a check.
//
// A request that is sampled has a span of its server (Handler, Begin, GRPC), in it one of the decision (Decisions), in
// that one of each question to the counter store (Store), and in that one of the script call that carried it (Calls):
//
//	POST /ratelimit/check                  1.9 ms
//	└ decide                               1.7 ms   sluice.rule=per-user sluice.allowed=false
//	  └ store                              1.6 ms   sluice.queue_ms=0.9
//	    └ redis script                     0.6 ms   sluice.requests=8, linked with eight stores
//
// A script call carries many checks. It is one span, inside the first of them and linked with each of them. Changes of
// the rules and statements of the rules database have spans by Database.
//
// A span never contains input of a caller, except for the id of its trace: no keys, users, addresses, tokens, paths or
// queries. It names rules, routes of the API, operations and causes.
package traces
