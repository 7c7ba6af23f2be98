package backtest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sluice/internal/records"
)

// A report counts each event as what it stands for, for the rules and the keys that denied.
func TestRun_ReportOfEveryKindOfEvent(t *testing.T) {
	const proposed = `rules:
  - {name: ip, scope: ip, algorithm: fixed_window, limit: 2, window_ms: 60000}
  - {name: user, scope: user, algorithm: fixed_window, limit: 3, window_ms: 60000, candidate: {limit: 1}}
  - {name: watched, scope: user, algorithm: fixed_window, limit: 1, window_ms: 60000, mode: shadow}
`
	at := func(s int64, user string, rate float64) records.Event {
		e := check(noon+s*1000, user)
		e.Rate, e.Facts.IP = rate, "203.0.113."+user
		e.Mode, e.Method, e.Route = "enforce", e.Facts.Method, e.Facts.Route
		return e
	}
	denied := func(e records.Event) records.Event {
		e.Allowed, e.Status, e.Rule, e.Key = false, 429, "user", "user:1"
		e.Limits = []records.Limit{
			{Key: "ip:203.0.113.1", Rule: "ip", Mode: "enforce", Limit: 9, Used: 1, Weight: 1, Allowed: true},
			{Key: "user:1", Rule: "user", Mode: "enforce", Limit: 1, Used: 2, Weight: 1, RetryAfterMS: 700},
			{Key: "user:1", Rule: "watched", Mode: "shadow", Limit: 1, Used: 2, Weight: 1},
			{Key: "user:1", Rule: "user", Mode: "candidate", Limit: 1, Used: 2, Weight: 1}}
		return e
	}
	other := at(5, "2", 50) // its entity was not drawn
	other.Drawn, other.Allowed, other.Status = false, false, 429
	failed := at(6, "3", 100)
	failed.Degraded = "open"
	charge := at(9, "3", 100)
	charge.Op = "charge"
	events := []records.Event{at(1, "1", 100), denied(at(2, "1", 100)), at(3, "1", 100), at(4, "7", 25), other, failed,
		at(7, "8", 50), charge}
	r := run1(t, Options{Span: Span{Log: logOf(t, text(events...))}, Proposed: compiled(t, proposed)})
	want := &Report{
		Compared: ComparedLog, From: noon + 1000, Until: noon + 9000, Events: 8, Replayed: 7,
		Scaled: Scaled{Checks: 2, Rate: 25}, Log: LogReport{Lines: 8},
		// Of the second event the log says denied, and the fourth, sixth and seventh stand for 4, 1 and 2.
		Checks: 10, DeniedBefore: 1, DeniedAfter: 1, NewlyDenied: 1, NewlyAllowed: 1,
		Rules: []RuleChange{{Rule: "ip", DeniedAfter: 1, NewlyDenied: 1}, {Rule: "user", DeniedBefore: 1, NewlyAllowed: 1}},
		Keys: []KeyChange{{Rule: "ip", Key: "ip:203.0.113.1", DeniedAfter: 1, NewlyDenied: 1},
			{Rule: "user", Key: "user:1", DeniedBefore: 1, NewlyAllowed: 1}},
		ChangedKeys: 2,
		Traffic: Traffic{From: noon + 1000, StepMS: 1000, Checks: []float64{1, 1, 1, 4, 0, 1, 2},
			DeniedBefore: []float64{0, 1, 0, 0, 0, 0, 0}, DeniedAfter: []float64{0, 0, 1, 0, 0, 0, 0}},
		Demand: []Demand{ // addresses are not what was drawn, so those of the fourth and the seventh event do not count
			{Rule: "ip", WindowMS: 60000, From: noon, StepMS: 60000, Demand: []int64{3}, Limit: []int64{2}},
			{Rule: "user", WindowMS: 60000, From: noon, StepMS: 60000, Demand: []int64{3}, Limit: []int64{3}},
			{Rule: "watched", WindowMS: 60000, From: noon, StepMS: 60000, Demand: []int64{3}, Limit: []int64{1}}},
		First: []Difference{
			{File: "log 1", Line: 2, TS: noon + 2000, Method: "GET", Route: "/v1/x", Weight: 1,
				Before: Outcome{Strictest: &OutcomeLimit{"user", "user:1", 1, 2, 700},
					Limits: []OutcomeLimit{{"user", "user:1", 1, 2, 700}}},
				After: Outcome{Allowed: true, Strictest: &OutcomeLimit{"ip", "ip:203.0.113.1", 2, 2, 0}}},
			{File: "log 1", Line: 3, TS: noon + 3000, Method: "GET", Route: "/v1/x", Weight: 1, Before: Outcome{Allowed: true},
				After: Outcome{Strictest: &OutcomeLimit{"ip", "ip:203.0.113.1", 2, 2, 57000},
					Limits: []OutcomeLimit{{"ip", "ip:203.0.113.1", 2, 2, 57000}}}}},
		Left: []Left{{Reason: leftFailMode, Events: 1}, {Reason: leftNotDrawn, Events: 1},
			{Reason: partShared, Rule: "ip", Facts: "user", Events: 2}},
	}
	if diff := cmp.Diff(want, r, cmpopts.IgnoreUnexported(Scaled{}), cmpopts.IgnoreFields(Left{}, "Text")); diff != "" {
		t.Errorf("the report (-want +got):\n%s", diff)
	}
	const scaled = "Of 2 checks, the log has those of 25% to 50% of the users: each counts as 2 to 4."
	if got := r.Scaled.String(); got != scaled {
		t.Error(got)
	}
}

// Nobody has looked at the limits of an overloaded check, so none of them denied it.
func TestRun_AnOverloadedCheckIsDeniedByNoRule(t *testing.T) {
	e := check(noon, "1")
	e.Rate, e.Status, e.Overloaded, e.Allowed = 100, 503, true, false
	e.Limits = []records.Limit{{Key: "user:1", Rule: "user", Mode: "enforce", Limit: 9, Weight: 1, Overloaded: true}}
	r := run1(t, Options{Span: Span{Log: logOf(t, text(e))}, Proposed: compiled(t,
		"rules:\n  - {name: user, scope: user, algorithm: fixed_window, limit: 9, window_ms: 60000}\n")})
	if r.DeniedBefore != 1 || r.DeniedAfter != 0 || r.NewlyAllowed != 1 || len(r.Rules) != 0 {
		t.Errorf("got %+v", r)
	}
	want := []Left{{Reason: leftOverloaded, Events: 1,
		Text: "events that were denied because of overload, which the replay decides by the limits: 1"}}
	if diff := cmp.Diff(want, r.Left); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	if got := r.First[0].Before.String(); got != "denied because of overload" {
		t.Errorf("the answer before: %q", got)
	}
}
