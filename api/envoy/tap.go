package envoy

import (
	"context"
	"strings"
	"time"

	quotav3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/tap"

	"sluice/api/decide"
)

// messageWait bounds the time from the headers of a call until its message has arrived. A client that begins calls and
// never sends a message thus holds their memory no longer, and does not delay a drain.
const messageWait = 2 * time.Second

// longestCall bounds the time of a call whose caller sets no shorter one. It is above the longest time for a check, so
// that it ends only calls whose callers do not read the answer.
const longestCall = 15 * time.Second

// refusedWait replaces messageWait for a call that will be refused when its message has arrived.
const refusedWait = 20 * time.Millisecond

// arrival is the key of the function to call when the message of a call has arrived.
type arrival struct{}

// awaiting returns a context that is canceled unless arrived is called within a time.
func awaiting(ctx context.Context, wait time.Duration) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(wait, cancel)
	unhook := context.AfterFunc(ctx, func() { timer.Stop() })
	return context.WithValue(ctx, arrival{}, func() {
		unhook()
		timer.Stop()
	})
}

// arrived says that the message of a call has arrived.
func arrived(ctx context.Context) {
	if happened, ok := ctx.Value(arrival{}).(func()); ok {
		happened()
	}
}

// admission says whether a call has sufficient credentials, as authorize does. Its zero value is the key of contexts,
// with a *admission as value.
type admission struct {
	result string
	err    error
}

// admitted is the admission of calls with sufficient credentials.
var admitted = &admission{}

// faceOf returns the face of a method, false for one that needs no credentials.
func faceOf(method string) (face, bool) {
	service, _, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	switch service {
	case rateLimitService.ServiceName:
		return rateLimit, true
	case authService.ServiceName:
		return authorization, true
	case quotav3.RateLimitQuotaService_ServiceDesc.ServiceName:
		return quotas, true
	}
	return 0, false
}

// begin is called with the headers of a call, before memory for its message and a goroutine exist: a call without
// sufficient credentials costs no more than its headers. It must not block.
func (s *Server) begin(ctx context.Context, call *tap.Info) (context.Context, error) {
	if call.FullMethodName == grpc_health_v1.Health_Watch_FullMethodName {
		return awaiting(ctx, s.messageWait), nil
	}
	if call.FullMethodName == quotav3.RateLimitQuotaService_StreamRateLimitQuotas_FullMethodName {
		result, err := s.authorize(quotas, senderOf(ctx))
		if err != nil {
			s.deps.Observe.CountCall(faceNames[quotas], result)
		}
		return ctx, err
	}
	until, ok := ctx.Deadline()
	left := time.Until(until) //nolint:forbidigo // a deadline of a socket
	f, needs := faceOf(call.FullMethodName)
	if !needs { // answered at once
		if !ok || left > s.messageWait {
			ctx = within(ctx, s.messageWait)
		}
		return ctx, nil
	}
	long := !ok || left > longestCall
	result, err := s.authorize(f, senderOf(ctx))
	switch {
	case err == nil:
		ctx = context.WithValue(ctx, admission{}, admitted)
	case ok && long: // gRPC would keep the timer of this deadline until then
		return within(context.WithValue(ctx, admission{}, &admission{result, err}), refusedWait), nil
	default:
		s.deps.Observe.CountCall(faceNames[f], result)
		return nil, err
	}
	if long {
		ctx = within(ctx, longestCall)
	}
	if !ok { // the deadline is not the caller's
		ctx = decide.WithGatewayPatience(ctx, decide.DefaultPatience)
	}
	if long || left > s.messageWait {
		ctx = awaiting(ctx, s.messageWait)
	}
	return ctx, nil
}

// within returns a context that ends after a time, or with its parent, which gRPC cancels after the call.
func within(ctx context.Context, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(ctx, d)
	_ = cancel // see above
	return ctx
}
