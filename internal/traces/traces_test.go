package traces

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"sluice/api/decide"
	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/memstore"
	"sluice/rules"
)

func TestNil_IsInTheWayOfNothing(t *testing.T) {
	traces, err := Open(Options{})
	if traces != nil || err != nil {
		t.Fatalf("without settings there are traces: %v, %v", traces, err)
	}
	store := memstore.New(memstore.Options{})
	defer store.Close()
	if traces.Store(store) != limiter.Store(store) || traces.Calls() != nil || traces.Decisions() != nil ||
		traces.GRPC("a") != nil || traces.Database() != nil || traces.Root() != nil || traces.Close(t.Context()) != nil {
		t.Error("a nil Traces is in the way")
	}
	next := http.NewServeMux()
	if traces.Handler(next, nil) != http.Handler(next) {
		t.Error("a nil Traces is in the way of HTTP")
	}
}

// The trace of an event is that of the spans, whatever the caller sends.
func TestBegin_HasTheTraceThatIsRecorded(t *testing.T) {
	const id, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	traces, _, _ := open(t)
	for header, want := range map[string]string{
		"00-" + id + "-" + parent + "-01":                  id,
		"00-" + id + "-" + parent + "-03":                  id,
		"01-" + id + "-" + parent + "-01":                  id,
		"01-" + id + "-" + parent + "-09":                  id,
		"01-" + id + "-" + parent + "-01-later":            id,
		"fe-" + id + "-" + parent + "-01-":                 id,
		"00-" + id + "-" + parent + "-09":                  "",
		"00-" + id + "-" + parent + "-11":                  "",
		"00-" + id + "-" + parent + "-01-later":            "",
		"01-" + id + "-" + parent + "-01later":             "",
		"ff-" + id + "-" + parent + "-01":                  "",
		"00-" + id + "-" + parent:                          "",
		"00-" + id + "-" + parent[:15] + "-01":             "",
		"00-" + id + "-0000000000000000-01":                "",
		"00-" + strings.Repeat("0", 32) + "-" + id:         "",
		"00-" + strings.ToUpper(id) + "-" + parent + "-01": "",
		"00-" + id + "-" + parent + "-0g":                  "",
		"00_" + id + "_" + parent + "_01":                  "",
		strings.Repeat("0", 5000):                          "",
		"":                                                 "",
	} {
		if got := decide.TraceOf(header); got != want {
			t.Errorf("the event of %.80q has the trace %q, want %q", header, got, want)
		}
		_, span := traces.begin(t.Context(), header, "x")
		if span == nil {
			t.Fatalf("%.80q is not recorded", header)
		}
		if got := span.SpanContext().TraceID().String(); (got == id) != (want == id) {
			t.Errorf("the span of %.80q has the trace %s, want %q", header, got, want)
		}
		span.End()
	}
}

func TestHandler_NamesNoPathAndKeepsTheResponse(t *testing.T) {
	traces, c, _ := open(t)
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/flush":
			_, _ = w.Write([]byte("first"))
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
		case "/hints":
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusTeapot)
		case "/abort":
			panic(http.ErrAbortHandler)
		default:
			traces.Route(r.Context(), r.Method, "/rules/:id")
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	h := traces.Handler(next, func(r *http.Request) string {
		if r.URL.Path == "/hints" {
			return "/hints"
		}
		return ""
	})
	for _, request := range [][2]string{{"GET", "/flush"}, {"POST", "/hints"}, {"PUT", "/rules/planted"},
		{"PLANTED", "/rules/planted"}, {"GET", "/livez"}, {"DELETE", "/abort"}} {
		func() {
			defer func() {
				if v := recover(); (v != nil) != (request[1] == "/abort") {
					t.Error(v)
				}
			}()
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), request[0], request[1], nil))
		}()
	}
	spans := flushed(t, traces, c)
	for name, want := range map[string]int64{"GET": 200, "POST /hints": 418, "PUT /rules/:id": 502,
		"HTTP /rules/:id": 502, "DELETE": 200} {
		if got := spans[name]; len(got) != 1 || got[0].Number("http.response.status_code") != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if len(spans) != 5 || strings.Contains(strings.ToLower(c.Received()), "planted") {
		t.Errorf("spans %v", spans)
	}
}

// Of a fail mode that denies, no limit is the strictest.
func TestDecisions_ADenialNamesItsRule(t *testing.T) {
	traces, c, _ := open(t)
	ctx, done := traces.Begin(t.Context(), "", "POST", "/x")
	_, span := traces.Decisions().Decide(ctx, 1)
	span.Decided(&decide.Answer{Verdict: decide.Unavailable, Degraded: rules.FailClosed, Strictest: -1,
		Limits: []decide.LimitAnswer{{Rule: "open", Decision: limiter.Decision{Allowed: true}}, {Rule: "shut"}}})
	span.End(nil)
	_, batch := traces.Decisions().Decide(ctx, 300)
	for range 300 {
		batch.Decided(&decide.Answer{Verdict: decide.Denied, Strictest: 0, Limits: []decide.LimitAnswer{{Rule: "r"}}})
	}
	batch.End(nil)
	_, failed := traces.Decisions().Decide(ctx, 1)
	failed.End(fmt.Errorf("planted: %w", context.DeadlineExceeded))
	done(200)
	got := flushed(t, traces, c)["decide"]
	if len(got) != 3 || got[0].Text("sluice.rule") != "shut" || got[0].Text("sluice.degraded") != "closed" ||
		got[0].Text("sluice.verdict") != "unavailable" || len(got[1].GetEvents()) != maxDenials ||
		got[1].Number("sluice.denied") != 300 || got[2].GetStatus().GetMessage() != "timeout" {
		t.Errorf("%v", got)
	}
	if _, span := traces.Decisions().Decide(t.Context(), 1); span != nil {
		t.Error("a decision outside of a request is recorded")
	}
}

// What the collector refuses is lost, counted and logged once; what it takes later is not.
func TestExport_CountsEachSpan(t *testing.T) {
	traces, c, log := open(t)
	one := func() {
		_, done := traces.Begin(t.Context(), "", "GET", "/x")
		done(200)
		if err := traces.provider.ForceFlush(t.Context()); err != nil {
			t.Error(err)
		}
	}
	c.Answer(func(context.Context) error { return status.Error(codes.PermissionDenied, "no") })
	one()
	one()
	c.Answer(nil)
	one()
	r := prometheus.NewPedanticRegistry()
	traces.Register(r)
	testenv.Served(t, r, `sluice_trace_spans_total{result="exported"} 1`, `sluice_trace_spans_total{result="dropped"} 2`)
	if text := log.String(); strings.Count(text, "exporting spans failed") != 1 ||
		strings.Count(text, "spans are exported again") != 1 {
		t.Errorf("it logged %s", text)
	}
}

// A collector that hangs holds up neither requests nor the end.
func TestClose_EndsWithItsContext(t *testing.T) {
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "10")
	t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "5")
	traces, c, _ := open(t)
	hangs := make(chan struct{}, 100)
	c.Answer(func(ctx context.Context) error {
		hangs <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	})
	for range 30 {
		_, done := traces.Begin(t.Context(), "", "GET", "/x")
		done(200)
	}
	<-hangs
	ctx, cancel := context.WithCancel(t.Context())
	closed := make(chan error)
	go func() { closed <- traces.Close(ctx) }()
	cancel()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if got := traces.Counts(); got != (Counts{Dropped: 30}) {
		t.Errorf("counts %+v", got)
	}
}

func TestDatabase_OnlyInsideARequest(t *testing.T) {
	traces, c, _ := open(t)
	_, end := traces.Database()(t.Context(), "query rules")
	end(nil)
	ctx, done := traces.Begin(t.Context(), "", "GET", "/x")
	for _, err := range []error{nil, rules.ErrUnavailable, fmt.Errorf("%w: %w", rules.ErrBusy, rules.ErrUnavailable),
		errors.New("planted")} {
		_, end := traces.Database()(ctx, "change rules")
		end(err)
	}
	done(200)
	_, end = traces.Root()(t.Context(), "reload rules")
	end(context.Canceled)
	spans := flushed(t, traces, c)
	var said []string
	for _, s := range append(spans["change rules"], spans["reload rules"]...) {
		said = append(said, s.GetStatus().GetMessage())
	}
	if got := strings.Join(said, ","); got != ",unavailable,busy,failed,canceled" || len(spans) != 3 {
		t.Errorf("status %s of %v", got, spans)
	}
	for _, s := range spans["change rules"] {
		if hex.EncodeToString(s.GetParentSpanId()) != hex.EncodeToString(spans["GET /x"][0].GetSpanId()) {
			t.Errorf("%v is elsewhere", s)
		}
	}
}
