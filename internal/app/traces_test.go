package app

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"sluice/internal/config"
	"sluice/internal/testenv"
	"sluice/internal/traces/collector"
	"sluice/rules"
)

// traceparent is the header of a caller in the trace with this number, sampled or not.
func traceparent(n int, sampled bool) string {
	flags := "00"
	if sampled {
		flags = "01"
	}
	return "00-" + traceID(n) + "-00f067aa0ba902b7-" + flags
}

func traceID(n int) string { return fmt.Sprintf("4bf92f3577b34da6a3ce929d%08x", n) }

// traced waits for spans of a trace, each a child of the one before and the first of the caller's, and returns them.
func traced(t *testing.T, c *collector.Collector, id string, names ...string) []collector.Span {
	t.Helper()
	out := make([]collector.Span, len(names))
	eventually(t, fmt.Sprintf("%q of trace %s", names, id), func() bool {
		for i, name := range names {
			all := c.Spans()
			at := slices.IndexFunc(all, func(s collector.Span) bool {
				return s.GetName() == name && hex.EncodeToString(s.GetTraceId()) == id
			})
			if at < 0 {
				return false
			}
			out[i] = all[at]
		}
		return true
	})
	for i, s := range out {
		if i == 0 && hex.EncodeToString(s.GetParentSpanId()) != "00f067aa0ba902b7" || i > 0 && !s.In(out[i-1]) {
			t.Errorf("the parent of %q is %x", s.GetName(), s.GetParentSpanId())
		}
	}
	return out
}

// sendTraced makes one request in a trace, with further headers.
func (n *node) sendTraced(trace, path, body string, header ...string) int {
	n.t.Helper()
	req, err := http.NewRequestWithContext(n.t.Context(), http.MethodPost, n.url+path, strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Traceparent", trace)
	req.Header.Set("Authorization", "Bearer "+n.token)
	code, _ := n.put(req)
	return code
}

func TestTraces_OfEveryFace(t *testing.T) {
	spans := collector.Start(t)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=planted-header")
	t.Setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off") // only requests whose callers are sampled
	cfg := recording(t, config.DecisionLogFile)
	cfg.RedisURL.Value, cfg.StoreTimeout = testenv.Redis(t).URL(), 5*time.Second
	withProfile(t, cfg)
	n, addr := startGRPC(t, cfg)
	n.create(`{"name": "per-user", "limit": 1, "window_ms": 3600000, "algorithm": "fixed_window", "scope": "user"}`)
	n.create(payRule)

	const body = `{"user": "planted-user", "api_key": "planted-key", "ip": "192.0.2.77", "user_agent": "planted-agent",
		"attributes": {"a": "planted-attribute"}}`
	n.sendTraced(traceparent(1, true), "/ratelimit/check?planted-query", body) // a query is for net/http
	n.sendTraced(traceparent(2, true), "/ratelimit/check", body, "Tracestate", "planted=state")
	n.sendTraced(traceparent(3, true), "/ratelimit/check/batch", `{"checks": [{"user": "other"}, `+body+`]}`)
	n.put(n.question("forward", "/planted-path", "planted-user", "Traceparent", traceparent(4, true)))
	d := dialGRPC(t, addr, nil)
	call := metadata.AppendToOutgoingContext(t.Context(), "traceparent", traceparent(5, true))
	if _, err := d.hit(call, "planted-user"); err != nil {
		t.Fatal(err)
	}
	if code := n.sendTraced(traceparent(6, true), "/ratelimit/rules", `{"name": "other", "limit": 7, "window_ms": 1000,
		"scope": "user", "description": "planted-description"}`); code != http.StatusCreated {
		t.Errorf("creating a rule: %d", code)
	}
	n.sendTraced(traceparent(7, false), "/ratelimit/check", body)
	n.sendTraced(traceparent(8, true), "/ratelimit/planted-path", "")
	n.sendTraced(traceparent(9, true), "/ratelimit/check", `{"key": "planted-key", "limit": 5, "window_ms": 60000}`)

	const check = "POST /ratelimit/check"
	net := traced(t, spans, traceID(1), check, "decide", "store", "redis script")
	plain := traced(t, spans, traceID(2), check, "decide", "store", "redis script")
	for i, s := range [][]collector.Span{net, plain} {
		if s[0].Text("http.route") != "/ratelimit/check" || s[0].Number("http.response.status_code") != 200 ||
			s[0].Service != "sluice" || s[1].Text("sluice.rule") != "per-user" || s[1].Text("sluice.op") != "check" ||
			s[1].Number("sluice.limits") != 1 || !s[2].Has("sluice.queue_ms") || s[3].Number("sluice.requests") != 1 ||
			s[1].Text("sluice.verdict") != []string{"allowed", "denied"}[i] {
			t.Errorf("%v", s)
		}
	}
	batch := traced(t, spans, traceID(3), "POST /ratelimit/check/batch", "decide", "store", "redis script")
	if events := batch[1].GetEvents(); batch[1].Number("sluice.checks") != 2 || batch[1].Number("sluice.denied") != 1 ||
		len(events) != 1 || collector.Text(events[0].GetAttributes(), "sluice.rule") != "per-user" ||
		collector.Number(events[0].GetAttributes(), "sluice.check") != 1 ||
		batch[3].Number("sluice.requests") != 1 { // the deny cache answered the other

		t.Errorf("%v", batch)
	}
	gateway := traced(t, spans, traceID(4), "GET /ratelimit/forward/{profile}", "decide")
	if gateway[0].Number("http.response.status_code") != 429 || gateway[1].Text("sluice.rule") != "per-user" {
		t.Errorf("%v", gateway)
	}
	rls := traced(t, spans, traceID(5), "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", "decide",
		"store", "redis script")
	if rls[1].Text("sluice.rule") != "pay" || !rls[0].Has("rpc.grpc.status_code") {
		t.Errorf("%v", rls)
	}
	traced(t, spans, traceID(6), "POST /ratelimit/rules", "change rules", "create rules")
	unknown := traced(t, spans, traceID(8), "POST")
	if unknown[0].Number("http.response.status_code") != 404 || unknown[0].Has("http.route") {
		t.Errorf("%v", unknown)
	}
	direct := traced(t, spans, traceID(9), check, "decide", "store", "redis script")
	if direct[1].Text("sluice.rule") != rules.DirectRule {
		t.Errorf("%v", direct)
	}

	if got := spans.Header("authorization"); !slices.Equal(got, []string{"planted-header"}) {
		t.Errorf("the collector is sent the header %q", got)
	}
	n.stop()
	if received := spans.Received(); strings.Contains(received, "planted") || strings.Contains(received, "192.0.2.77") ||
		strings.Contains(received, "127.0.0.1") || strings.Contains(received, "shop") {
		t.Errorf("the collector has text of callers:\n%s", received)
	}
	if strings.Contains(n.log.String(), "planted-header") {
		t.Error("the log has the secret of the collector")
	}
	for _, s := range spans.Spans() {
		if id := hex.EncodeToString(s.GetTraceId()); id == traceID(7) || !strings.HasPrefix(id, traceID(0)[:24]) {
			t.Errorf("span %s of trace %s, which is not sampled", s.GetName(), id)
		}
	}
	var events int
	for _, line := range linesIn(t, filepath.Join(cfg.DataDir, "decisions")) {
		if i := strings.Index(string(line), traceID(0)[:24]); i >= 0 {
			events++
		}
	}
	if events != 8 { // of checks 1, 2, 3 (two), 4, 5, 7 and 9
		t.Errorf("%d events have the trace of their spans, want 8", events)
	}
}

// The spans of a node whose callers are in no trace have a trace of their own, which the event has too.
func TestTraces_ANewTraceIsThatOfTheEvent(t *testing.T) {
	spans := collector.Start(t)
	t.Setenv("OTEL_SERVICE_NAME", "edge")
	cfg := recording(t, config.DecisionLogFile)
	n := start(t, cfg)
	n.check(`{"key": "k", "limit": 5, "window_ms": 60000}`)
	n.text("/livez")
	eventually(t, "the spans of the check", func() bool {
		return strings.Contains(spans.Received(), `"POST /ratelimit/check"`)
	})
	eventually(t, "all spans are counted", func() bool {
		return n.metric(`sluice_trace_spans_total{result="exported"}`) >= float64(len(spans.Spans())) &&
			n.metric(`sluice_trace_spans_total{result="dropped"}`) == 0
	})
	n.stop()
	lines := linesIn(t, filepath.Join(cfg.DataDir, "decisions"))
	names := map[string]int{}
	for _, s := range spans.Spans() {
		names[s.GetName()]++
		if s.Service != "edge" {
			t.Errorf("span of service %q", s.Service)
		}
		if id := hex.EncodeToString(s.GetTraceId()); s.GetName() == "decide" &&
			(len(lines) != 1 || !strings.Contains(string(lines[0]), `"trace_id":"`+id+`"`)) {
			t.Errorf("trace %s, events %s", id, lines)
		}
	}
	if names["decide"] != 1 || names["store"] != 1 || names["redis script"] != 0 || names["GET /livez"] != 0 ||
		names["reload rules"] == 0 || names["reload tokens"] == 0 {
		t.Errorf("spans %v", names)
	}
}

// A collector that hangs or fails changes no answer, and does not hold up the end.
func TestTraces_WithoutTheCollectorRequestsGoOn(t *testing.T) {
	for name, answer := range map[string]func(context.Context) error{
		"frozen":  func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"refuses": func(context.Context) error { return status.Error(codes.Unauthenticated, "who are you") },
	} {
		t.Run(name, func(t *testing.T) {
			spans := collector.Start(t)
			spans.Answer(answer)
			t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "600000") // longer than the test may take
			t.Setenv("OTEL_BSP_EXPORT_TIMEOUT", "600000")
			t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "20")
			n := start(t, settings(t))
			for range 50 {
				if !n.allowed(`{"key": "k", "limit": 100, "window_ms": 60000}`) {
					t.Error("a check is denied")
				}
			}
			eventually(t, "spans are dropped", func() bool {
				return n.metric(`sluice_trace_spans_total{result="dropped"}`) > 0
			})
			began := time.Now()
			n.stop()
			if took := time.Since(began); took > flushTraces+5*time.Second {
				t.Errorf("the node stopped after %s", took)
			}
			got := n.log.String()
			full, failed := strings.Count(got, `level=WARN msg="spans`), strings.Count(got, `level=WARN msg="exporting spans`)
			if full > 1 || failed > 1 || full+failed == 0 {
				t.Errorf("it logged %s", got)
			}
			if len(spans.Spans()) > 0 {
				t.Error("the collector has spans that it did not accept")
			}
		})
	}
}

func TestTraces_BadSettingsStopTheStart(t *testing.T) {
	for _, tt := range [][3]string{
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "planted:4317", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf", "OTEL_EXPORTER_OTLP_PROTOCOL"},
		{"OTEL_TRACES_EXPORTER", "planted", "OTEL_TRACES_EXPORTER"},
		{"OTEL_BSP_MAX_QUEUE_SIZE", "0", "OTEL_BSP_MAX_QUEUE_SIZE"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "planted", "OTEL_EXPORTER_OTLP_HEADERS"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "authorization=planted%zz", "OTEL_EXPORTER_OTLP_HEADERS"},
		{"OTEL_EXPORTER_OTLP_CERTIFICATE", "/planted", "OTEL_EXPORTER_OTLP_CERTIFICATE"},
		{"OTEL_TRACES_SAMPLER", "sometimes", "unsupported sampler"},
		{"OTEL_RESOURCE_ATTRIBUTES", "planted", "OTEL_RESOURCE_ATTRIBUTES"},
	} {
		t.Run(tt[0], func(t *testing.T) {
			collector.Start(t)
			t.Setenv(tt[0], tt[1])
			n, err := tryStart(t, settings(t))
			if err == nil {
				n.stop()
				t.Fatal("it starts")
			}
			if got := err.Error(); !strings.Contains(got, tt[2]) || strings.Contains(got+n.log.String(), "planted") {
				t.Errorf("it says %q\n%s", got, n.log)
			}
		})
	}
	t.Run("off", func(t *testing.T) {
		for _, off := range [][2]string{{"OTEL_TRACES_EXPORTER", "none"}, {"OTEL_SDK_DISABLED", "true"}} {
			spans := collector.Start(t)
			t.Setenv(off[0], off[1])
			n := start(t, settings(t))
			n.check(`{"key": "k", "limit": 100, "window_ms": 60000}`)
			if strings.Contains(n.text("/metrics"), "sluice_trace_spans_total") {
				t.Errorf("%s=%s: there are traces", off[0], off[1])
			}
			n.stop()
			if got := spans.Received(); got != "" {
				t.Errorf("%s=%s: the collector has %s", off[0], off[1], got)
			}
			t.Setenv(off[0], "")
		}
	})
}
