package traces

import (
	"testing"
	"time"

	"sluice/internal/traces/collector"
	"sluice/limiter"
	"sluice/limiter/redisstore"
)

// A call has links if it carried several recorded questions: one to each of them, at most maxLinks.
func TestCalls_LinksOfWhatACallCarried(t *testing.T) {
	for name, c := range map[string]struct {
		questions, links int
	}{
		"one":                  {1, 0},
		"several":              {3, 3},
		"more than are linked": {maxLinks + 1, maxLinks},
	} {
		t.Run(name, func(t *testing.T) {
			traces, to, _ := open(t)
			call := &redisstore.TracedCall{Began: time.Now(), Ended: time.Now(), Requests: c.questions, Failed: 1,
				Cause: limiter.CauseTimeout}
			var done []func(int)
			for range c.questions {
				ctx, end := traces.Begin(t.Context(), "", "POST", "/question")
				call.Carried = append(call.Carried, redisstore.TracedWait{Traced: traces.Calls().Traced(ctx),
					Wait: 1500 * time.Microsecond})
				done = append(done, end)
			}
			traces.Calls().Called(call)
			for _, end := range done {
				end(200)
			}
			checkCall(t, flushed(t, traces, to), c.links)
		})
	}
}

func checkCall(t *testing.T, spans map[string][]collector.Span, links int) {
	t.Helper()
	calls, back := spans["redis script"], 0
	if len(calls) != 1 {
		t.Fatalf("%d calls", len(calls))
	}
	for _, q := range spans["POST /question"] {
		back += len(q.GetLinks())
		if len(q.GetLinks()) > 1 {
			t.Errorf("a question has %d links to its call", len(q.GetLinks()))
		}
	}
	if got := len(calls[0].GetLinks()); got != links || back != links {
		t.Errorf("%d links and %d back, want %d", got, back, links)
	}
	if calls[0].Number("sluice.failed") != 1 || calls[0].GetStatus().GetMessage() != "timeout" {
		t.Errorf("of a call that failed: %v", calls[0])
	}
}
