// Package envoy has the gRPC services that Envoy calls: envoy.service.ratelimit.v3.RateLimitService and
// envoy.service.auth.v3.Authorization. It decodes a call, asks the engine of package decide, and encodes its answer.
package envoy
