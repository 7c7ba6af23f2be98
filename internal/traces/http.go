package traces

import (
	"context"
	"net/http"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// unrecorded are the paths that probes and scrapers ask for.
var unrecorded = []string{"/livez", "/readyz", "/metrics"}

// Handler makes a span of each request to next. route returns the route of a request if that is known before next knows
// it (Route), and "" otherwise.
func (t *Traces) Handler(next http.Handler, route func(*http.Request) string) http.Handler {
	if t == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slices.Contains(unrecorded, r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		ctx, done := t.Begin(r.Context(), r.Header.Get("Traceparent"), r.Method, route(r))
		if done == nil {
			next.ServeHTTP(w, r)
			return
		}
		seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		defer func() { done(seen.status) }()
		next.ServeHTTP(seen, r.WithContext(ctx))
	})
}

// Begin begins the span of an HTTP request. route is the route of this API, or "" if it is not known yet. If the
// request is recorded, use the returned context for it, and call done to end its span. Otherwise done is nil.
func (t *Traces) Begin(ctx context.Context, traceparent, method, route string) (inner context.Context,
	done func(status int)) {
	method = knownMethod(method)
	attributes := []attribute.KeyValue{attribute.String("http.request.method", method)}
	if route != "" {
		attributes = append(attributes, attribute.String("http.route", route))
	}
	ctx, span := t.begin(ctx, traceparent, spanName(method, route), attributes...)
	if span == nil {
		return ctx, nil
	}
	return ctx, func(status int) {
		span.SetAttributes(attribute.Int("http.response.status_code", status))
		if status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, http.StatusText(status))
		}
		span.End()
	}
}

// Route names the span of the request of ctx after a route of this API.
func (t *Traces) Route(ctx context.Context, method, route string) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetName(spanName(knownMethod(method), route))
		span.SetAttributes(attribute.String("http.route", route))
	}
}

func spanName(method, route string) string {
	if method == otherMethod {
		method = "HTTP"
	}
	if route == "" {
		return method
	}
	return method + " " + route
}

// otherMethod stands for a method of the caller's own.
const otherMethod = "_OTHER"

func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return method
	}
	return otherMethod
}

// statusWriter remembers the status of a response.
type statusWriter struct {
	http.ResponseWriter
	status int
	sent   bool
}

// WriteHeader implements http.ResponseWriter. A status below 200 is followed by another.
func (w *statusWriter) WriteHeader(status int) {
	if !w.sent {
		w.status, w.sent = status, status >= http.StatusOK
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *statusWriter) Write(b []byte) (int, error) {
	if !w.sent {
		w.status, w.sent = http.StatusOK, true
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
