package main

import (
	"context"
	"fmt"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
)

// Envoy has few connections to its rate-limit service, and many calls share one. So do the callers of every scenario
// over gRPC.
const (
	grpcConns   = 4
	grpcCallers = 64
)

// grpcCall is what a scenario calls over gRPC.
type grpcCall struct {
	method string
	// message is that of call number n.
	message func(n, keys int) proto.Message
	// ok returns a new answer, and whether it allows.
	ok func() (answer proto.Message, allows func() bool)
}

var shouldRateLimit = &grpcCall{
	method: rls.RateLimitService_ShouldRateLimit_FullMethodName,
	message: func(n, keys int) proto.Message {
		return &rls.RateLimitRequest{Domain: "bench", Descriptors: []*ratelimitv3.RateLimitDescriptor{{
			Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: "user", Value: fmt.Sprintf("u%d", n%keys)}},
		}}}
	},
	ok: func() (proto.Message, func() bool) {
		a := &rls.RateLimitResponse{}
		return a, func() bool { return a.OverallCode == rls.RateLimitResponse_OK && len(a.Statuses) == 1 }
	},
}

var extAuthzCheck = &grpcCall{
	method: auth.Authorization_Check_FullMethodName,
	message: func(n, keys int) proto.Message {
		return &auth.CheckRequest{Attributes: &auth.AttributeContext{
			Source: &auth.AttributeContext_Peer{Address: &core.Address{Address: &core.Address_SocketAddress{
				SocketAddress: &core.SocketAddress{Address: fmt.Sprintf("203.0.113.%d", n%250)},
			}}},
			Request: &auth.AttributeContext_Request{Http: &auth.AttributeContext_HttpRequest{
				Method: "POST", Path: "/v1/charges", Host: "shop.example", Scheme: "https", Protocol: "HTTP/1.1",
				Headers: map[string]string{
					":method": "POST", ":path": "/v1/charges", ":authority": "shop.example", "user-agent": "bench",
					"accept": "*/*", "x-user": fmt.Sprintf("u%d", n%keys), "x-api-key": fmt.Sprintf("k%d", n%keys),
				},
			}},
			ContextExtensions: map[string]string{"sluice-profile": "bench"},
		}}
	},
	ok: func() (proto.Message, func() bool) {
		a := &auth.CheckResponse{}
		return a, func() bool { return a.GetStatus().GetCode() == 0 && a.GetDeniedResponse() == nil }
	},
}

// connect opens the connections of a scenario. The callers share them, each in its turn.
func (g *grpcCall) connect(addr string, keys int) (connect connector, stop func(), err error) {
	conns := make([]*grpc.ClientConn, grpcConns)
	for i := range conns {
		if conns[i], err = grpc.NewClient("passthrough:///"+addr,
			grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
			return nil, nil, err
		}
	}
	messages := make([]proto.Message, min(keys, 10_000))
	for i := range messages {
		messages[i] = g.message(i, keys)
	}
	connect = func(ctx context.Context, i int) (func(n int) error, func(), error) {
		conn := conns[i%len(conns)]
		return func(n int) error {
			answer, allows := g.ok()
			if err := conn.Invoke(ctx, g.method, messages[n%len(messages)], answer); err != nil {
				return err
			}
			if !allows() {
				return fmt.Errorf("%s answered %v", g.method, answer)
			}
			return nil
		}, func() {}, nil
	}
	return connect, func() {
		for _, c := range conns {
			_ = c.Close() // the measurement is over
		}
	}, nil
}
