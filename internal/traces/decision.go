package traces

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"sluice/api/decide"
	"sluice/limiter"
)

// maxDenials is how many denials of a batch its span names.
const maxDenials = 100

// Decisions makes the spans of decisions. It is nil if there are no traces.
func (t *Traces) Decisions() decide.Tracer {
	if t == nil {
		return nil
	}
	return decisions{t}
}

type decisions struct{ *Traces }

// Decide implements decide.Tracer.
func (d decisions) Decide(ctx context.Context, n int) (context.Context, decide.Span) {
	inner, span := d.child(ctx, "decide")
	if span == nil {
		return ctx, nil
	}
	return inner, &decision{span: span, of: n}
}

// decision is the span of a decision, or of several that were made together.
type decision struct {
	span             trace.Span
	of, seen, denied int
}

// TraceID implements decide.Span.
func (d *decision) TraceID() string { return d.span.SpanContext().TraceID().String() }

// Decided implements decide.Span. If a span covers several decisions, it names only denials.
func (d *decision) Decided(a *decide.Answer) {
	d.seen++
	if !a.Allowed() {
		d.denied++
	}
	switch {
	case d.of == 1:
		d.span.SetAttributes(attributes(a)...)
	case !a.Allowed() && d.denied <= maxDenials:
		d.span.AddEvent("denied", trace.WithAttributes(
			append(attributes(a), attribute.Int("sluice.check", d.seen-1))...))
	}
}

// End implements decide.Span.
func (d *decision) End(err error) {
	if d.of != 1 {
		d.span.SetAttributes(attribute.Int("sluice.checks", d.of), attribute.Int("sluice.denied", d.denied))
	}
	end(d.span, err)
}

// attributes returns the attributes of a span that describe an answer. Names of rules are the only texts in them that
// people chose.
func attributes(a *decide.Answer) []attribute.KeyValue {
	op := a.Op.String()
	if a.Op == limiter.OpTake {
		op = "check" // the word of the API
	}
	out := []attribute.KeyValue{attribute.String("sluice.op", op), attribute.Bool("sluice.allowed", a.Allowed()),
		attribute.String("sluice.verdict", a.Verdict.String()), attribute.Int("sluice.limits", len(a.Limits))}
	if rule := decisive(a); rule != "" {
		out = append(out, attribute.String("sluice.rule", rule))
	}
	if a.Degraded != "" {
		out = append(out, attribute.String("sluice.degraded", a.Degraded))
	}
	return out
}

// decisive is the rule of the strictest limit. If fail modes decided, there are no figures to compare, and it is the
// first rule that denies, or the first rule if none denies.
func decisive(a *decide.Answer) (rule string) {
	if a.Strictest >= 0 {
		return a.Limits[a.Strictest].Series()
	}
	for i := range a.Limits {
		switch la := &a.Limits[i]; {
		case la.Shadow:
		case !a.Allowed() && !la.Decision.Allowed:
			return la.Series()
		case rule == "":
			rule = la.Series()
		}
	}
	return rule
}
