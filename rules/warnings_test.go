package rules_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/limiter"
	"sluice/rules"
)

func TestWarnings_NameUnregisteredMethods(t *testing.T) {
	for method, warns := range map[string]bool{"GET": false, "post": false, "*": false, "QUERY": false, "M-SEARCH": true,
		"PSOT": true, "not a method": false} {
		r := rules.Rule{Method: &method}
		r.Normalize()
		if got := rules.Warnings(&r); len(got) > 0 != warns || warns && got[0].Field != "method" {
			t.Errorf("%s: %v", method, got)
		}
	}
	if got := rules.Warnings(&rules.Rule{}); got != nil {
		t.Errorf("every method: %v", got)
	}
}

func TestWarnings_NameLogsOfManyEntries(t *testing.T) {
	for limit, warns := range map[int64]bool{10_000: false, 10_001: true} {
		r := rules.Rule{Algorithm: "sliding_window_log", Limit: limit}
		if got := rules.Warnings(&r); len(got) > 0 != warns || warns && got[0].Field != "limit" {
			t.Errorf("%d: %v", limit, got)
		}
		if r.Algorithm = "sliding_window_counter"; rules.Warnings(&r) != nil {
			t.Errorf("%d of a counter: %v", limit, rules.Warnings(&r))
		}
	}
}

func TestWarnings_NameBansThatOneCallBegins(t *testing.T) {
	for after, warns := range map[int64]bool{0: false, 1: true, 6: true, 7: false} {
		r := rules.Rule{Ban: &rules.Ban{After: after}}
		if got := rules.Warnings(&r); len(got) > 0 != warns || warns && got[0].Field != "ban.after" {
			t.Errorf("%d: %v", after, got)
		}
	}
}

func TestWarnings_NameRatesThatTheBurstKeepsOutOfReach(t *testing.T) {
	number := func(n int64) *int64 { return &n }
	for _, tt := range []struct {
		algorithm            string
		limit, window, burst int64
		warns                bool
	}{
		{"token_bucket", 1000, 1000, 1, false}, {"token_bucket", 1001, 1000, 1, true},
		{"token_bucket", 60_000_000, 60_000, 1000, false}, {"token_bucket", 60_000_001, 60_000, 1000, true},
		{"gcra", 5001, 1000, 5, true}, {"leaky_bucket", 5001, 1000, 5, true},
		{"leaky_queue", 5001, 1000, 5, true}, {"token_bucket", 2, 1, 1, true}, {"token_bucket", 1, 1, 0, true},
		{"token_bucket", 0, 1000, 0, false}, {"token_bucket", 10, -1, 1, false},
		{"token_bucket", limiter.MaxExact, 1, 1, true},
	} {
		r := rules.Rule{Algorithm: tt.algorithm, Limit: tt.limit, WindowMS: tt.window, Burst: &tt.burst}
		if got := rules.Warnings(&r); len(got) > 0 != tt.warns || tt.warns && got[0].Field != "burst" {
			t.Errorf("%+v: got %v", tt, got)
		}
	}
	r := rules.Rule{Algorithm: "token_bucket", Limit: 100, WindowMS: 1000}
	r.Tiers = map[string]rules.TierLimit{"a": {Unlimited: true}, "b": {Limit: number(9_000_000), Burst: number(10)},
		"c": {Limit: number(9_000_000)}}
	r.Schedule = &rules.Schedule{Windows: []rules.ScheduleWindow{{Percent: number(50)},
		{Limit: number(9000), Burst: number(8)}}}
	r.Candidate = &rules.Candidate{Limit: number(9000), Burst: number(8)}
	var fields []string
	for _, w := range rules.Warnings(&r) {
		fields = append(fields, w.Field)
	}
	want := []string{"tiers.b.burst", "schedule.windows[1].burst", "candidate.burst"}
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Error(diff)
	}
	const message = "The tier's rate of 9,000,000 per second cannot be reached: a burst of 10 admits at most that many " +
		"in each millisecond. Set burst to at least 9,000."
	if got := rules.Warnings(&r)[0].Message; got != message {
		t.Errorf("got %q", got)
	}
}
