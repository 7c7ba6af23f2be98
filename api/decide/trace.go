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
	// Decided adds an answer. The span keeps no text that a caller sent.
	Decided(a *Answer)
	// End ends the span. err is why there is no answer, nil if there is one.
	End(err error)
}

// traced calls decide in the span of a decision, if the request of ctx is recorded. from is its caller: without a trace
// id it is recorded with the trace id of the span.
func (c *Checker) traced(ctx context.Context, from *Origin, a *Answer, decide func(context.Context) error) (err error) {
	ctx, span := c.opt.Trace.Decide(ctx, 1)
	if span == nil {
		return decide(ctx)
	}
	defer func() { span.End(err) }()
	if from.TraceID == "" {
		from.TraceID = span.TraceID()
	}
	if err = decide(ctx); err == nil {
		span.Decided(a)
	}
	return err
}

// doAllTraced is doAll in one span, if the request of ctx is recorded.
func (c *Checker) doAllTraced(ctx context.Context, qs []Question, as []Answer, large func() error) (err error) {
	ctx, span := c.opt.Trace.Decide(ctx, len(qs))
	if span == nil {
		return c.doAll(ctx, qs, as, large)
	}
	defer func() { span.End(err) }()
	id := span.TraceID()
	for i := range qs {
		if qs[i].Origin.TraceID == "" {
			qs[i].Origin.TraceID = id
		}
	}
	err = c.doAll(ctx, qs, as, large)
	for i := 0; i < len(as) && err == nil; i++ {
		span.Decided(&as[i])
	}
	return err
}
