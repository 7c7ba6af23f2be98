package traces

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"sluice/internal/trouble"
	"sluice/limiter"
	"sluice/rules"
)

// Options configure Traces. Log and Now are required.
type Options struct {
	// Version is the version of the program.
	Version string
	// Log receives failures of the export.
	Log *slog.Logger
	// Now is the wall clock, for the pace of log lines.
	Now     func() time.Time
	Trouble *trouble.Registry // nil discards
}

// Traces makes spans and exports them. A nil Traces makes none. It is safe for concurrent use. Close stops its
// goroutines.
type Traces struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	export   *export
}

// Open returns nil if the environment asks for no traces. It does not wait for the collector. Its error names a setting
// that is not valid, and never its value, which may be a secret.
func Open(opt Options) (*Traces, error) {
	if !enabled(os.Getenv) {
		return nil, nil //nolint:nilnil // see above
	}
	room, err := check(os.Getenv)
	if err != nil {
		return nil, err
	}
	log := &pacedLog{log: opt.Log, now: opt.Now, trouble: opt.Trouble}
	problems := listen(log)
	about, err := describe(opt.Version)
	if err != nil {
		return nil, err
	}
	to, err := otlptracegrpc.New(context.Background())
	if err != nil {
		return nil, errors.New("OTEL_EXPORTER_OTLP_ENDPOINT: the exporter of traces cannot be made")
	}
	out := newExport(to, room, log)
	provider := sdk.NewTracerProvider(sdk.WithResource(about), sdk.WithSpanProcessor(out))
	t := &Traces{provider: provider, tracer: provider.Tracer("sluice", trace.WithInstrumentationVersion(opt.Version)),
		export: out}
	if err := problems.done(); err != nil {
		return nil, errors.Join(err, t.Close(context.Background()))
	}
	return t, nil
}

// describe returns what all spans say about the program.
func describe(version string) (*resource.Resource, error) {
	own := resource.WithAttributes(attribute.String("service.name", "sluice"),
		attribute.String("service.version", version))
	about, err := resource.New(context.Background(), own, resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, errors.New("OTEL_RESOURCE_ATTRIBUTES: must be name=value pairs with commas between them")
	}
	return about, nil
}

// Close exports the queued spans until ctx ends, and drops the rest.
func (t *Traces) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.export.close(ctx, t.provider.Shutdown)
}

// Counts counts the exported and the dropped spans. Queued spans are in neither count.
type Counts struct{ Exported, Dropped int64 }

// Counts returns the counts since the start.
func (t *Traces) Counts() Counts {
	return Counts{Exported: t.export.exported.Load(), Dropped: t.export.dropped.Load()}
}

// begin begins the span of a request whose traceparent is given, which may be empty or not valid. The span is nil if it
// is not recorded. Only the ids and the flags of the parent count: a tracestate is text of the caller.
func (t *Traces) begin(ctx context.Context, traceparent, name string, attributes ...attribute.KeyValue) (
	context.Context, trace.Span) {
	if traceparent != "" {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent})
	}
	inner, span := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attributes...))
	if !span.IsRecording() {
		return ctx, nil
	}
	return inner, span
}

// child begins a child of the span of ctx. The child is nil if the span of ctx is not recorded.
func (t *Traces) child(ctx context.Context, name string, attributes ...attribute.KeyValue) (context.Context,
	trace.Span) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, nil
	}
	return t.tracer.Start(ctx, name, trace.WithAttributes(attributes...))
}

// end ends a span with the error of its operation.
func end(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, cause(err))
	}
	span.End()
}

// cause is the word for an error. The text of an error may contain addresses and input of callers.
func cause(err error) string {
	var store *limiter.StoreError
	switch {
	case errors.As(err, &store):
		return string(store.Cause)
	case errors.Is(err, rules.ErrBusy):
		return "busy"
	case errors.Is(err, rules.ErrUnavailable):
		return "unavailable"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	return "failed"
}

// Database returns a function that begins the span of an operation of the rules database, as a child of the span of
// ctx. The function is nil if there are no traces.
func (t *Traces) Database() func(ctx context.Context, operation string) (context.Context, func(error)) {
	if t == nil {
		return nil
	}
	return func(ctx context.Context, operation string) (context.Context, func(error)) {
		inner, span := t.child(ctx, operation)
		if span == nil {
			return ctx, func(error) {}
		}
		return inner, func(err error) { end(span, err) }
	}
}

// Root returns a function that begins the span of an operation that no request caused. It is nil if there are no
// traces.
func (t *Traces) Root() func(ctx context.Context, operation string) (context.Context, func(error)) {
	if t == nil {
		return nil
	}
	return func(ctx context.Context, operation string) (context.Context, func(error)) {
		inner, span := t.tracer.Start(ctx, operation)
		return inner, func(err error) { end(span, err) }
	}
}

// pacedLog logs at most one line per minute.
type pacedLog struct {
	log  *slog.Logger
	now  func() time.Time
	next atomic.Int64 // ns since the epoch

	trouble *trouble.Registry
}

const logInterval = time.Minute

// warn logs, unless it has done so within the last minute.
func (l *pacedLog) warn(text string, args ...any) {
	now, next := l.now().UnixNano(), l.next.Load()
	if now >= next && l.next.CompareAndSwap(next, now+int64(logInterval)) {
		l.log.Warn(text, args...)
	}
}
