package traces

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"sluice/limiter"
	"sluice/limiter/redisstore"
)

// Store makes a span of each question to a counter store.
func (t *Traces) Store(inner limiter.Store) limiter.Store {
	if t == nil {
		return inner
	}
	return &store{t, inner}
}

type store struct {
	traces *Traces
	inner  limiter.Store
}

// Do implements limiter.Store.
func (s *store) Do(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	inner, span := s.traces.child(ctx, "store", attribute.Int("sluice.limits", len(req.Asks)))
	if span == nil {
		return s.inner.Do(ctx, req, res)
	}
	err := s.inner.Do(bounded(inner, ctx), req, res)
	end(span, err)
	return err
}

// DoAll implements limiter.Store.
func (s *store) DoAll(ctx context.Context, calls []limiter.Call) {
	inner, span := s.traces.child(ctx, "store", attribute.Int("sluice.requests", len(calls)))
	if span == nil {
		s.inner.DoAll(ctx, calls)
		return
	}
	s.inner.DoAll(bounded(inner, ctx), calls)
	var first error
	failed := 0
	for i := range calls {
		if calls[i].Err != nil {
			if failed++; first == nil {
				first = calls[i].Err
			}
		}
	}
	if failed > 0 {
		span.SetAttributes(attribute.Int("sluice.failed", failed))
	}
	end(span, first)
}

// bounded returns ctx with the bound of the context that it is made from.
func bounded(ctx, from context.Context) context.Context {
	if b, ok := from.(limiter.Bounded); ok {
		return boundedContext{ctx, b}
	}
	return ctx
}

// boundedContext is a limiter.Bounded with a span.
type boundedContext struct {
	context.Context //nolint:containedctx // it is a context
	of              limiter.Bounded
}

// Bound implements limiter.Bounded.
func (b boundedContext) Bound() limiter.Bound { return b.of.Bound() }

// Calls makes the spans of script calls. It is nil if there are no traces.
func (t *Traces) Calls() redisstore.Tracer {
	if t == nil {
		return nil
	}
	return calls{t}
}

type calls struct{ *Traces }

// Traced implements redisstore.Tracer. It returns the span of a question to the store.
func (calls) Traced(ctx context.Context) redisstore.Traced {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		return span
	}
	return nil
}

// maxLinks bounds the links of a call.
const maxLinks = 100

// Called implements redisstore.Tracer. The span of a call is inside the first of the questions that it carried. If
// there are others, the call and each of them are linked in both directions.
func (c calls) Called(call *redisstore.TracedCall) {
	questions := make([]trace.Span, 0, len(call.Carried))
	var links []trace.Link
	for _, carried := range call.Carried {
		question, ok := carried.Traced.(trace.Span)
		if !ok {
			continue
		}
		question.SetAttributes(attribute.Float64("sluice.queue_ms", milliseconds(carried.Wait)))
		questions = append(questions, question)
		if len(links) < maxLinks {
			links = append(links, trace.Link{SpanContext: question.SpanContext()})
		}
	}
	if len(questions) == 0 {
		return
	}
	if len(questions) == 1 {
		links = nil
	}
	_, span := c.tracer.Start(trace.ContextWithSpan(context.Background(), questions[0]), "redis script",
		trace.WithTimestamp(call.Began), trace.WithSpanKind(trace.SpanKindClient), trace.WithLinks(links...),
		trace.WithAttributes(attribute.String("db.system.name", "redis"), attribute.Int("sluice.requests", call.Requests)))
	if call.Failed > 0 {
		span.SetAttributes(attribute.Int("sluice.failed", call.Failed))
		span.SetStatus(codes.Error, string(call.Cause))
	}
	span.End(trace.WithTimestamp(call.Ended))
	for i := range links {
		questions[i].AddLink(trace.Link{SpanContext: span.SpanContext()})
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
