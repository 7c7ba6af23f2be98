package main

import (
	"context"
	"net"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
)

// constant gives every call the same answer.
type constant struct {
	rls.UnimplementedRateLimitServiceServer
}

func (constant) ShouldRateLimit(context.Context, *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	return &rls.RateLimitResponse{OverallCode: rls.RateLimitResponse_OK,
		Statuses: []*rls.RateLimitResponse_DescriptorStatus{{
			Code: rls.RateLimitResponse_OK, LimitRemaining: 999_999,
			CurrentLimit: &rls.RateLimitResponse_RateLimit{RequestsPerUnit: 1_000_000,
				Unit: rls.RateLimitResponse_RateLimit_MINUTE},
			DurationUntilReset: &durationpb.Duration{Seconds: 60},
		}}}, nil
}

// constantGRPC serves it until stop is called.
func constantGRPC(ctx context.Context, listen string) (stop func(), err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return nil, err
	}
	s := grpc.NewServer()
	rls.RegisterRateLimitServiceServer(s, constant{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Serve(l) // until it is stopped
	}()
	return func() { s.Stop(); <-ended }, nil
}
