package match

import (
	"testing"
	"time"

	"sluice/limiter"
	"sluice/rules"
)

// spanning is the set of some rules where there are so many regions.
func spanning(t *testing.T, regions int, rs ...rules.Rule) *Set {
	t.Helper()
	s, err := Compile(rs, 1, Options{Regions: regions})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSpanning_FindsTheLimitOfABucketThatAnotherRegionTellsOf(t *testing.T) {
	global := func(r rules.Rule) rules.Rule {
		r.Span, r.WindowMS, r.IsActive = rules.SpanGlobal, 60_000, true
		return r
	}
	s := spanning(t, 2,
		global(rules.Rule{ID: 1, Name: "users", Scope: "user", Limit: 10}),
		global(rules.Rule{ID: 2, Name: "logs", Scope: "user", Limit: 10, Algorithm: "sliding_window_log",
			Tiers: map[string]rules.TierLimit{"pro": {Limit: ptr(int64(50))}, "staff": {Unlimited: true}}}),
		global(rules.Rule{ID: 3, Name: "all", Scope: "global", Limit: 10, Algorithm: "fixed_window",
			Schedule: &rules.Schedule{Windows: []rules.ScheduleWindow{{From: "00:00", To: "24:00", Limit: ptr(int64(7))}}}}),
		rules.Rule{ID: 4, Name: "here", Scope: "user", Limit: 10, WindowMS: 60_000, IsActive: true},
	)
	now := time.UnixMilli(1_795_000_000_000)
	for key, want := range map[limiter.Key]int64{
		"{user:ada}|1|sc": 10, "{user:ada}|2|sl": 50, "{global}|3|fw": 7,
		"{user:ada}|1|fw": 0, "{user:ada}|1.c|sc": 0, "{user:ada}|4|sc": 0, "{user:ada}|5|sc": 0, "{user:ada}||sc": 0, "": 0,
	} {
		c, l, ok := s.Spanning(key, now)
		if ok != (want > 0) || ok && (l.Count != want || c == nil) {
			t.Errorf("%q: limit %d, %v, want %d", key, l.Count, ok, want)
		}
	}
	alone := spanning(t, 1, global(rules.Rule{ID: 1, Name: "users", Scope: "user", Limit: 10}))
	if _, _, ok := alone.Spanning("{user:ada}|1|sc", now); ok || alone.Get(1).Global {
		t.Error("a limit spans regions without regions")
	}
}
