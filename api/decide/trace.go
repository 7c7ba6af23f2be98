package decide

import "context"

// Tracer makes the spans of decisions. It is safe for concurrent use and must not block.
type Tracer interface {
	// Decide begins the span of a decision, or of several that are made together, if the request of ctx is recorded.
	// The store is called with the returned context. If the request is not recorded, that is ctx, and the Span is nil.
	Decide(ctx context.Context, decisions int) (context.Context, Span)
}

// Span is the span of a decision, or of several. It belongs to one goroutine.
type Span interface {
	// TraceID is the id of the trace, as a traceparent writes it.
	TraceID() string
	// Decided adds an answer, of which the span keeps nothing that a caller sent.
	Decided(a *Answer)
	// End ends the span. err is why there is no answer, nil if there is one.
	End(err error)
}

// trace begins the span of a decision whose caller is from. A caller that names no trace is recorded with that of the
// span. Trace is not nil.
func (c *Checker) trace(ctx context.Context, from *Origin) (context.Context, Span) {
	ctx, span := c.opt.Trace.Decide(ctx, 1)
	if span != nil && from.TraceID == "" {
		from.TraceID = span.TraceID()
	}
	return ctx, span
}

// traceAll begins the span of the decisions on several questions. Trace is not nil.
func (c *Checker) traceAll(ctx context.Context, qs []Question) (context.Context, Span) {
	ctx, span := c.opt.Trace.Decide(ctx, len(qs))
	if span == nil {
		return ctx, nil
	}
	id := span.TraceID()
	for i := range qs {
		if qs[i].Origin.TraceID == "" {
			qs[i].Origin.TraceID = id
		}
	}
	return ctx, span
}

// endSpan ends the span of one decision. The span may be nil.
func endSpan(span Span, a *Answer, err error) {
	if span == nil {
		return
	}
	if err == nil {
		span.Decided(a)
	}
	span.End(err)
}

// endSpanOfAll ends the span of several decisions. The span may be nil.
func endSpanOfAll(span Span, as []Answer, err error) {
	if span == nil {
		return
	}
	for i := 0; i < len(as) && err == nil; i++ {
		span.Decided(&as[i])
	}
	span.End(err)
}
