package main

import (
	"context"
	"encoding/binary"
	"fmt"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Envoy has few connections to its rate-limit service, and many calls share one. The callers of every scenario over
// gRPC do the same.
const (
	grpcConns   = 4
	grpcCallers = 64
)

// grpcCall is the gRPC call of a scenario.
type grpcCall struct {
	method string
	// message returns the message of call number n.
	message func(n, keys int) proto.Message
	// allows reports whether an encoded answer allows.
	allows func(answer []byte) bool
}

var shouldRateLimit = &grpcCall{
	method: rls.RateLimitService_ShouldRateLimit_FullMethodName,
	message: func(n, keys int) proto.Message {
		return &rls.RateLimitRequest{Domain: "bench", Descriptors: []*ratelimitv3.RateLimitDescriptor{{
			Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: "user", Value: fmt.Sprintf("u%d", n%keys)}},
		}}}
	},
	allows: limitAllows,
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
	allows: authzAllows,
}

// connect opens the connections of a scenario. The callers share them, each in its turn.
func (g *grpcCall) connect(ctx context.Context, addr string, keys int) (connect connector, stop func(), err error) {
	conns := make([]*h2conn, 0, grpcConns)
	stop = func() {
		for _, c := range conns {
			c.close()
		}
	}
	for range grpcConns {
		c, err := dialH2(ctx, addr, g.method)
		if err != nil {
			stop()
			return nil, nil, err
		}
		conns = append(conns, c)
	}
	messages := make([][]byte, min(keys, 10_000))
	for i := range messages {
		if messages[i], err = prefixed(g.message(i, keys)); err != nil {
			stop()
			return nil, nil, err
		}
	}
	connect = func(ctx context.Context, i int) (func(n int) error, func(), error) {
		conn, call := conns[i%len(conns)], newH2call()
		leave := context.AfterFunc(ctx, func() { conn.fail(ctx.Err()) })
		return func(n int) error {
			answer, err := conn.do(call, messages[n%len(messages)])
			if err != nil {
				return fmt.Errorf("%s: %w", g.method, err)
			}
			if !g.allows(answer) {
				return fmt.Errorf("%s answered %x", g.method, answer)
			}
			return nil
		}, func() { leave() }, nil
	}
	return connect, stop, nil
}

// prefixed returns a message as gRPC sends it: not compressed, after its length.
func prefixed(m proto.Message) ([]byte, error) {
	b, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, messagePrefix), m)
	if err != nil {
		return nil, err
	}
	binary.BigEndian.PutUint32(b[1:], uint32(len(b)-messagePrefix)) //nolint:gosec // a few hundred bytes
	return b, nil
}

// limitAllows reports whether a RateLimitResponse says OK, for one descriptor.
func limitAllows(answer []byte) bool {
	code, statuses := uint64(0), 0
	valid := eachField(answer, func(field protowire.Number, n uint64, _ []byte) {
		switch field {
		case 1:
			code = n
		case 2:
			statuses++
		}
	})
	return valid && code == uint64(rls.RateLimitResponse_OK) && statuses == 1
}

// authzAllows reports whether a CheckResponse lets the request pass.
func authzAllows(answer []byte) bool {
	ok := true
	valid := eachField(answer, func(field protowire.Number, _ uint64, b []byte) {
		switch field {
		case 1: // google.rpc.Status
			ok = eachField(b, func(field protowire.Number, n uint64, _ []byte) { ok = ok && (field != 1 || n == 0) }) && ok
		case 2: // denied_response
			ok = false
		}
	})
	return valid && ok
}

// eachField calls f with the fields of a message: numbers and bytes. It reports whether the message is valid.
func eachField(b []byte, f func(field protowire.Number, n uint64, bytes []byte)) bool {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return false
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(field, kind, b); n < 0 {
			return false
		}
		switch kind {
		case protowire.VarintType:
			v, _ := protowire.ConsumeVarint(b)
			f(field, v, nil)
		case protowire.BytesType:
			v, _ := protowire.ConsumeBytes(b)
			f(field, 0, v)
		}
		b = b[n:]
	}
	return true
}
