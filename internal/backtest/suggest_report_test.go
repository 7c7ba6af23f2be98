package backtest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sluice/internal/records"
	"sluice/limiter"
)

// Suggestions count the checks and charges of the rule as what they stand for, and name the others.
func TestSuggest_ReportOfEveryKindOfEvent(t *testing.T) {
	const file = `rules:
  - {name: tiers, scope: user, route: /v1/x, limit: 10, window_ms: 1000, tiers: {gold: {limit: 60}}}
  - {name: ip, scope: ip, limit: 10, window_ms: 1000}
`
	of := func(ms int64, user string, rate float64, change func(*records.Event)) records.Event {
		e := check(noon+ms, user)
		if e.Rate, e.Facts.IP = rate, "203.0.113.7"; change != nil {
			change(&e)
		}
		return e
	}
	events := []records.Event{
		of(0, "1", 100, nil), of(1, "1", 100, nil), of(2, "1", 100, func(e *records.Event) { e.Op = "charge" }),
		of(3, "2", 25, nil), // stands for 4
		of(4, "1", 100, func(e *records.Event) { e.Op = "refund" }),
		of(5, "3", 25, func(e *records.Event) { e.Drawn, e.Allowed = false, false }),
		of(6, "1", 100, func(e *records.Event) { e.Facts = nil }),
		of(7, "1", 100, func(e *records.Event) { e.Facts.Route = "/other" }),
		of(8, "1", 100, func(e *records.Event) { e.Facts.Tier = "hash:0123456789abcdef01234567" }),
		of(9, "1", 100, func(e *records.Event) { e.Shortened = []string{"facts.fields"} }),
		of(2000, "1", 100, nil),
	}
	suggest := func(rule string) *Suggestions {
		s, err := Suggest(t.Context(), SuggestOptions{Span: Span{Log: logOf(t, text(events...))}, Rules: compiled(t, file),
			Rule: rule, Windows: []time.Duration{time.Second}, Headroom: 1})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := suggest("tiers")
	want := &Suggestions{Rule: "tiers", From: noon, Until: noon + 2000, Events: 11, Headroom: 1, Requests: 8, Keys: 5,
		Left: []Left{{Reason: partHashed, Rule: "tiers", Facts: "tier", Events: 1}, {Reason: leftNotDrawn, Events: 1},
			{Reason: leftShortened, Events: 1}},
		Scaled: Scaled{Checks: 1, Rate: 25}, Log: LogReport{Lines: 11}, Windows: []WindowSuggestion{{WindowMS: 1000,
			// Four of five keys have one request in a second. A limit of 1 denies two of three of the other key, of 8 in all.
			Limits: []Suggestion{{50, 1, 1, 25, 1}, {95, 3, 3, 0, 0}, {99, 3, 3, 0, 0}, {99.9, 3, 3, 0, 0}, {100, 3, 3, 0, 0}}}}}
	if diff := cmp.Diff(want, s, cmpopts.IgnoreUnexported(Scaled{}), cmpopts.IgnoreFields(Left{}, "Text")); diff != "" {
		t.Errorf("suggestions (-want +got):\n%s", diff)
	}
	// The log has 25 % of the users of an address, and nobody knows what the others asked for.
	if s := suggest("ip"); s.Requests != 6 || len(s.Left) != 3 || s.Left[1].Reason != partShared ||
		s.Left[1].Events != 1 {
		t.Errorf("by address: %g requests, %+v", s.Requests, s.Left)
	}
}

func TestSuggest_RefusesWhatIsOutOfRange(t *testing.T) {
	const longest = time.Duration(limiter.MaxWindow) * time.Millisecond
	set := compiled(t, "rules:\n  - {name: r, scope: user, limit: 10, window_ms: 1000}\n")
	window := func(d ...time.Duration) []time.Duration { return d }
	for _, c := range []struct {
		windows  []time.Duration
		headroom float64
		good     bool
	}{
		{window(time.Second), 1, true}, {window(time.Second), MaxHeadroom, true}, {window(time.Second), 0.99, false},
		{window(time.Second), MaxHeadroom + 0.01, false}, {nil, 1, false}, {window(time.Millisecond), 1, true},
		{window(time.Millisecond - 1), 1, false}, {window(longest), 1, true},
		{window(longest + time.Millisecond), 1, false},
		{make([]time.Duration, MaxWindows+1), 1, false},
	} {
		_, err := Suggest(t.Context(), SuggestOptions{Span: Span{Log: logOf(t, "")}, Rules: set, Rule: "r",
			Windows: c.windows, Headroom: c.headroom})
		if (err == nil) != c.good {
			t.Errorf("windows %v, headroom %g: %v", c.windows, c.headroom, err)
		}
	}
}
