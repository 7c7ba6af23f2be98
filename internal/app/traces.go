package app

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"sluice/api"
	"sluice/api/reply"
	"sluice/internal/access"
	"sluice/internal/telemetry"
	"sluice/internal/traces"
)

// flushTraces is the longest time that a stopping node waits for the collector of its spans.
const flushTraces = 3 * time.Second

// openTraces opens the export of spans, or returns nil if the environment asks for none.
func openTraces(host *Host, build telemetry.Build, metrics prometheus.Registerer, stops *stops) (*traces.Traces,
	error) {
	spans, err := traces.Open(traces.Options{Version: build.Version, Log: host.Log, Now: host.Now,
		Trouble: host.trouble})
	if spans == nil || err != nil {
		return nil, err
	}
	spans.Register(metrics)
	stops.add("traces", func(wait context.Context) error {
		ctx, cancel := untilDrained(wait)
		defer cancel()
		ctx, cancel = context.WithTimeout(ctx, flushTraces)
		defer cancel()
		return spans.Close(ctx)
	})
	return spans, nil
}

// traceRoutes names the spans of requests after the routes of e. The span of a request without a route has the path of
// the request.
func traceRoutes(e *echo.Echo, spans *traces.Traces) {
	if spans == nil {
		return
	}
	known := map[string]bool{}
	for _, r := range e.Routes() {
		known[r.Path] = true
	}
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if known[c.Path()] {
				spans.Route(c.Request().Context(), c.Request().Method, c.Path())
			}
			return next(c)
		}
	})
}

// checkFunc answers a plain check, as plain.Deps.Check does.
type checkFunc func(ctx context.Context, call access.Call, client net.Addr, traceparent, body, dst []byte) ([]byte,
	*reply.Problem)

// tracePlain makes a span of each plain check.
func tracePlain(check checkFunc, spans *traces.Traces) checkFunc {
	if spans == nil {
		return check
	}
	return func(ctx context.Context, call access.Call, client net.Addr, traceparent, body, dst []byte) ([]byte,
		*reply.Problem) {
		inner, done := spans.Begin(ctx, string(traceparent), http.MethodPost, api.CheckPath)
		if done == nil {
			return check(ctx, call, client, traceparent, body, dst)
		}
		out, problem := check(inner, call, client, traceparent, body, dst)
		if problem != nil {
			done(problem.Status)
		} else {
			done(http.StatusOK)
		}
		return out, problem
	}
}
