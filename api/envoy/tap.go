package envoy

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/tap"
)

// longestCall bounds the time of a call whose caller sets no shorter one, also that until its message has arrived. It
// is above the longest time for a check. A client that begins calls and never sends a message holds their memory no
// longer.
const longestCall = 15 * time.Second

// refusedWait is the same for a call that will be refused when its message has arrived.
const refusedWait = 20 * time.Millisecond

// admitted is the key of contexts of calls with sufficient credentials.
type admitted struct{}

// faceOf returns the face of a method, false for one that needs no credentials.
func faceOf(method string) (face, bool) {
	service, _, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	switch service {
	case rateLimitService.ServiceName:
		return rateLimit, true
	case authService.ServiceName:
		return authorization, true
	}
	return 0, false
}

// begin is called with the headers of a call, before memory for its message and a goroutine exist: a call without
// sufficient credentials costs no more than its headers. It must not block.
func (s *Server) begin(ctx context.Context, call *tap.Info) (context.Context, error) {
	if call.FullMethodName == grpc_health_v1.Health_Watch_FullMethodName {
		return ctx, nil
	}
	until, ok := ctx.Deadline()
	long := !ok || time.Until(until) > longestCall //nolint:forbidigo // a deadline of a socket
	wait := longestCall
	if f, needs := faceOf(call.FullMethodName); needs {
		result, err := s.authorize(ctx)
		switch {
		case err == nil:
			ctx = context.WithValue(ctx, admitted{}, true)
		case ok && long: // gRPC would keep the timer of this deadline until then
			wait = refusedWait
		default:
			s.deps.Observe.CountCall(faceNames[f], result)
			return nil, err
		}
	}
	if long {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait)
		_ = cancel // gRPC cancels the parent after the call
	}
	return ctx, nil
}
