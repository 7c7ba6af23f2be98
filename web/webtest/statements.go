package webtest

import (
	"context"
	"slices"

	"sluice/internal/usage"
	"sluice/rules"
)

// Statements are statements in memory. Err, if not nil, is what every call fails with.
type Statements struct {
	Rows []usage.Row
	Err  error
}

// UsagePeriods implements kit.Statements.
func (f *Statements) UsagePeriods(_ context.Context, rule int64, most int) ([]int64, error) {
	var out []int64
	for _, r := range f.Rows {
		if r.Rule == rule {
			out = append(out, r.Period)
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	slices.Reverse(out)
	return out[:min(len(out), most)], f.Err
}

// UsageTotals implements kit.Statements.
func (f *Statements) UsageTotals(_ context.Context, rule int64, key string, periods []int64) ([]usage.Total, error) {
	var out []usage.Total
	for _, p := range periods {
		t := usage.Total{Period: p}
		for _, r := range f.Rows {
			if r.Rule == rule && r.Period == p && (key == "" || r.Key == key) {
				t.Keys++
				t.Spent += r.Spent
			}
		}
		if t.Keys > 0 {
			out = append(out, t)
		}
	}
	return out, f.Err
}

// Keep makes the first rule a budget of 100,000 tokens a month, or a meter, whose two keys spent in two months. It
// returns the start of the present month, ms.
func Keep(w *World, meter bool) (month int64) {
	r := &w.Rules.List[0]
	r.Algorithm, r.Limit, r.WindowMS, r.Burst, r.FailMode = "fixed_window", 100_000, 0, nil, rules.FailOpen
	r.Calendar, r.KeepPeriods, r.Counts = &rules.Calendar{Every: rules.EveryMonth}, new(int64(13)), new(rules.CountsTokens)
	r.HotKeys, r.HotRaisePercent, r.Ban, r.Candidate, r.Pool, r.Priority = rules.HotKeysExact, nil, nil, nil, nil, nil
	r.Tiers, r.Schedule, r.RetryJitterMS, r.NotifyPercent, r.Message = nil, nil, nil, nil, nil
	if meter {
		r.Unlimited, r.Limit = true, 0
	}
	r.Normalize()
	if err := rules.Validate(r); err != nil {
		panic(err) // canned data is valid
	}
	if !w.changed(context.Background()) {
		panic("webtest: the rule is not in force")
	}
	c := w.Sets.Load().Named(r.Name)
	month = c.Base(w.Clock.Now().UnixMilli()).Anchor
	before := c.Base(month - 1).Anchor
	w.Statements.Rows = []usage.Row{{Rule: r.ID, Period: month, Key: "{user:43}", Spent: 1200},
		{Rule: r.ID, Period: month, Key: "{user:7}", Spent: 34},
		{Rule: r.ID, Period: before, Key: "{user:43}", Spent: 90_500}}
	return month
}
