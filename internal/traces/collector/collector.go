// Package collector is a collector of spans for tests: a gRPC server that keeps what it receives in memory.
package collector

import (
	"bytes"
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	collect "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/prototext"
)

// Collector is a running collector. It is safe for concurrent use.
type Collector struct {
	collect.UnimplementedTraceServiceServer
	// URL is its endpoint.
	URL string

	mu      sync.Mutex
	answer  func(context.Context) error
	spans   []Span
	text    strings.Builder
	headers metadata.MD
}

// Span is a received span.
type Span struct {
	*otlp.Span
	// Service is the service of its resource.
	Service string
}

// Start starts a collector and makes the environment of the test name it. The test's end stops it.
func Start(t *testing.T) *Collector {
	t.Helper()
	var listen net.ListenConfig
	l, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &Collector{URL: "http://" + l.Addr().String()}
	server := grpc.NewServer()
	collect.RegisterTraceServiceServer(server, c)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l) // ends by Stop
	}()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20") // ms
	return c
}

// Answer makes the collector answer each export by f, and keep only the spans of exports without an error. A nil f
// takes everything.
func (c *Collector) Answer(f func(context.Context) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = f
}

// Export implements collect.TraceServiceServer.
func (c *Collector) Export(ctx context.Context, req *collect.ExportTraceServiceRequest) (
	*collect.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	answer := c.answer
	c.headers, _ = metadata.FromIncomingContext(ctx)
	c.mu.Unlock()
	if answer != nil {
		if err := answer(ctx); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text.WriteString(prototext.Format(req))
	for _, resource := range req.GetResourceSpans() {
		service := Text(resource.GetResource().GetAttributes(), "service.name")
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				c.spans = append(c.spans, Span{span, service})
			}
		}
	}
	return &collect.ExportTraceServiceResponse{}, nil
}

// Spans returns all spans that were received.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Received returns everything that was received, as text.
func (c *Collector) Received() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String()
}

// Header returns the values of a header of the last export.
func (c *Collector) Header(name string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.headers.Get(name)
}

// Text returns an attribute that is a text, "" if there is none.
func Text(attributes []*common.KeyValue, key string) string {
	return value(attributes, key).GetStringValue()
}

// Number returns an attribute that is an integer, 0 if there is none.
func Number(attributes []*common.KeyValue, key string) int64 {
	return value(attributes, key).GetIntValue()
}

// Has reports whether there is an attribute.
func Has(attributes []*common.KeyValue, key string) bool { return value(attributes, key) != nil }

func value(attributes []*common.KeyValue, key string) *common.AnyValue {
	for _, a := range attributes {
		if a.GetKey() == key {
			return a.GetValue()
		}
	}
	return nil
}

// Text returns an attribute of the span that is a text, "" if there is none.
func (s Span) Text(key string) string { return Text(s.GetAttributes(), key) }

// Number returns an attribute of the span that is an integer, 0 if there is none.
func (s Span) Number(key string) int64 { return Number(s.GetAttributes(), key) }

// Has reports whether an attribute of the span is set.
func (s Span) Has(key string) bool { return Has(s.GetAttributes(), key) }

// In reports whether the span is a child of another.
func (s Span) In(parent Span) bool {
	return bytes.Equal(s.GetParentSpanId(), parent.GetSpanId()) && bytes.Equal(s.GetTraceId(), parent.GetTraceId())
}

// Links reports whether the span links to another.
func (s Span) Links(to Span) bool {
	return slices.ContainsFunc(s.GetLinks(), func(l *otlp.Span_Link) bool {
		return bytes.Equal(l.GetSpanId(), to.GetSpanId()) && bytes.Equal(l.GetTraceId(), to.GetTraceId())
	})
}
