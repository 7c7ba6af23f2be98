package traces

import (
	"context"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// GRPC makes a span of each call of the services with these full names. It is nil if there are no traces.
func (t *Traces) GRPC(services ...string) stats.Handler {
	if t == nil {
		return nil
	}
	return &grpcHandler{t, services}
}

type grpcHandler struct {
	traces   *Traces
	services []string
}

// TagRPC implements stats.Handler: it begins the span of a call.
func (h *grpcHandler) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	method := strings.TrimPrefix(info.FullMethodName, "/")
	service, _, _ := strings.Cut(method, "/")
	if !slices.Contains(h.services, service) {
		return ctx
	}
	parent := ""
	if values := metadata.ValueFromIncomingContext(ctx, "traceparent"); len(values) > 0 {
		parent = values[0]
	}
	ctx, _ = h.traces.begin(ctx, parent, method, attribute.String("rpc.system", "grpc"),
		attribute.String("rpc.service", service))
	return ctx
}

// HandleRPC implements stats.Handler: it ends the span of a call.
func (*grpcHandler) HandleRPC(ctx context.Context, event stats.RPCStats) {
	ended, ok := event.(*stats.End)
	if !ok {
		return
	}
	span := trace.SpanFromContext(ctx)
	code := status.Code(ended.Error)
	span.SetAttributes(attribute.Int("rpc.grpc.status_code", int(code)))
	if ended.Error != nil {
		span.SetStatus(codes.Error, code.String())
	}
	span.End()
}

// TagConn implements stats.Handler.
func (*grpcHandler) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (*grpcHandler) HandleConn(context.Context, stats.ConnStats) {}
