package backtest

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"sluice/internal/records"
	"sluice/rules"
	"sluice/rules/chars"
)

// Figures that no log has would make counts that no report can have.
func TestLog_RefusesFiguresThatNoLogHas(t *testing.T) {
	events := []records.Event{check(noon, "1"), check(noon, "1"), check(math.MaxInt64/1024, "1"), check(noon, "1")}
	events[1].Rate, events[3].Rate, events[3].Drawn = math.SmallestNonzeroFloat64, 1e-9, false
	r := run1(t, Options{Span: Span{Log: logOf(t, text(events...)+strings.Repeat("x", 2*maxLine))},
		Proposed: compiled(t, fmt.Sprintf(perUser, 1))})
	if _, err := json.Marshal(r); err != nil || r.Checks != 1 || r.Until != noon {
		t.Errorf("%v checks until %d: %v", r.Checks, r.Until, err)
	}
	if r.Log.Corrupt != 3 || len(r.Log.Problems) != 3 || r.Log.Problems[2].Text != "is longer than 256 KiB" {
		t.Errorf("%+v", r.Log)
	}
}

// Callers write what a log has, and people read the report in a terminal.
func TestReport_DoesNotControlTheTerminal(t *testing.T) {
	const evil = "\x1b[2J\nnewly denied: 0\u202e\xff\u009b"
	e := check(noon, evil)
	e.Facts.Method, e.Facts.Route = evil, "/"+evil
	e.Method, e.Route, e.Key, e.Rule = evil, "/"+evil, evil, evil
	e.Allowed, e.Status = false, 429
	e.Limits = []records.Limit{{Key: evil, Rule: evil, Mode: rules.ModeEnforce, Limit: 1, Used: 2, Weight: 1}}
	mode := e
	mode.Degraded = evil
	r := run1(t, Options{Span: Span{Log: logOf(t, text(e, mode))}, Proposed: compiled(t, fmt.Sprintf(perUser, 5))})
	if r.NewlyAllowed != 2 || len(r.First) != 2 {
		t.Fatalf("%+v", r)
	}
	said := r.String()
	for _, c := range said {
		if c != '\n' && !chars.Visible(c) {
			t.Errorf("the report has %q", c)
		}
	}
	if strings.Contains(said, "\nnewly denied: 0\u202e") || strings.Count(said, "\nnewly denied: ") != 1 ||
		!strings.Contains(said, "%1B[2J%0Anewly denied: 0%E2%80%AE") {
		t.Error(said)
	}
}
